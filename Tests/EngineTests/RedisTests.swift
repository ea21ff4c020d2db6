// Tests of the client with real servers. One server is reached over TCP, TLS and a Unix socket, frozen and killed. In a Cluster, slots move
// and a primary dies.

import Glibc
import Reactor
import TestSupport
import Testing

@testable import Engine

@Suite(
    "Real Redis servers", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct RedisTests {
    private static func bytes(_ text: String) -> EngineReply { .bytes(Array(text.utf8)) }
    private static let ok = EngineReply.status(Array("OK".utf8))

    private func play(_ servers: [EngineServer], patience: Int64 = 10_000, _ change: (inout EngineSettings) -> Void = { _ in })
        -> EnginePlay
    {
        EnginePlay(servers, isRealTime: true) { settings in
            settings.patienceMilliseconds = patience
            change(&settings)
        }
    }

    /// Repeats a command until the reply fits; nil after 30 seconds.
    @discardableResult
    private func ask(_ play: EnginePlay, _ words: [String], keyAt: Int? = nil, until fits: (EngineReply) -> Bool) -> EngineReply? {
        let end = SystemTime.shared.monotonicMilliseconds + 30_000
        while SystemTime.shared.monotonicMilliseconds < end {
            if let reply = play.begin([EnginePlay.command(words, keyAt)]).reply, fits(reply) { return reply }
            _ = poll(nil, 0, 5)
        }
        return nil
    }

    private func isPong(_ reply: EngineReply) -> Bool { reply == .status(Array("PONG".utf8)) }

    // MARK: One server

    @Test("a single server works through a TCP port and a Unix socket")
    func single() throws {
        let redis = try RedisProcess()
        let play = play([redis.server])
        ask(play, ["PING"], until: isPong)
        let long = String(repeating: "0123456789abcdef", count: 1 << 19)
        #expect(play.ask("SET", "long", long, keyAt: 1) == Self.ok)
        #expect(play.ask("GET", "long", keyAt: 1) == Self.bytes(long))
        let outcome = play.begin([
            EngineCommand("GET", "a", keyAt: 1), EngineCommand("SET", "a:l", "me", "NX", "PX", "50000", keyAt: 1),
            EngineCommand("SET", "a:l", "me", "NX", "PX", "50000", keyAt: 1),
        ])
        #expect(outcome.replies == [.nothing, Self.ok, .nothing])
        let id = play.ask("XADD", "log", "5-1", "k", "v", keyAt: 1)
        #expect(id == Self.bytes("5-1"))
        let read = play.ask("XREAD", "COUNT", "10", "BLOCK", "1000", "STREAMS", "log", "0", keyAt: 6)
        #expect(
            read == .list([.list([Self.bytes("log"), .list([.list([Self.bytes("5-1"), .list([Self.bytes("k"), Self.bytes("v")])])])])]))
        guard case .error(let text) = play.ask("GET", "log", keyAt: 1) else {
            Issue.record("a stream is no string")
            return
        }
        #expect(String(decoding: text, as: UTF8.self).hasPrefix("WRONGTYPE"))
        let other = self.play([.unix(redis.socketPath)])
        #expect(other.ask("GET", "a:l", keyAt: 1) == Self.bytes("me"))
        #expect(play.onLoop { $0.map != nil && !$0.isCluster })
    }

    @Test("many large values are transferred concurrently in both directions")
    func manyLarge() throws {
        let redis = try RedisProcess()
        let play = play([redis.server])
        ask(play, ["PING"], until: isPong)
        let value = String(repeating: "v", count: 100_000)
        let writes = (0..<100).map { play.begin("SET", "k\($0)", value + "\($0)", keyAt: 1) }
        for write in writes { #expect(write.reply == Self.ok) }
        let reads = (0..<100).map { play.begin("GET", "k\($0)", keyAt: 1) }
        for (number, read) in reads.enumerated() { #expect(read.reply == Self.bytes(value + "\(number)")) }
        #expect(play.figures.connections == 1)
    }

    @Test("a server is used over TLS with a client certificate, a user and a password")
    func tls() throws {
        let certificates = try TestCertificates()
        let (server, mine) = (try certificates.make("server"), try certificates.make("mine"))
        let redis = try RedisProcess(
            isTLS: true,
            [
                "--tls-cert-file", server.certificate, "--tls-key-file", server.key, "--tls-ca-cert-file", certificates.authority,
                "--user", "alice", "on", ">secret", "~*", "+@all", "--user", "default", "off",
            ])
        func asking(_ change: @escaping (inout EngineSettings) -> Void) -> EnginePlay {
            play([redis.server]) { settings in
                settings.username = "alice"
                settings.passwordFile = TestTools.file("secret")
                settings.tls = EngineTLS(authorities: certificates.authority, certificate: mine.certificate, key: mine.key)
                change(&settings)
            }
        }
        let good = asking { _ in }
        #expect(ask(good, ["PING"], until: isPong) != nil)
        let value = String(repeating: "v", count: 1_000_000)
        #expect(good.ask("SET", "a", value, keyAt: 1) == Self.ok && good.ask("GET", "a", keyAt: 1) == Self.bytes(value))
        #expect(asking { $0.passwordFile = TestTools.file("wrong") }.ask("PING") == .failed(.denied))
        #expect(asking { $0.passwordFile = nil }.ask("PING") == .failed(.denied))
        // The server's certificate is for an address, not for a name.
        #expect(asking { $0.tls?.name = "elsewhere.test" }.ask("PING") == .failed(.untrusted))
        #expect(asking { $0.tls?.authorities = SharedCertificates.authority }.ask("PING") == .failed(.untrusted))
        #expect(asking { $0.tls?.certificate = "/nowhere" }.ask("PING") == .failed(.untrusted))
        #expect(asking { $0.tls?.certificate = nil }.ask("PING")?.failure != nil)
    }

    @Test("a frozen server opens the breaker, and is used again when it resumes")
    func frozen() throws {
        let redis = try RedisProcess()
        let play = play([redis.server], patience: 100)
        #expect(ask(play, ["PING"], until: isPong) != nil)
        redis.freeze()
        #expect(ask(play, ["PING"], until: { $0 == .failed(.breakerOpen) }) != nil)
        #expect(!play.isOpen)
        redis.thaw()
        #expect(ask(play, ["PING"], until: isPong) != nil)
    }

    @Test("a server that delays each command by a second does not make callers wait that long")
    func slow() throws {
        let redis = try RedisProcess()
        let play = play([redis.server], patience: 50)
        #expect(ask(play, ["PING"], until: isPong) != nil)
        #expect(play.ask("CLIENT", "PAUSE", "1000") == Self.ok)
        #expect(ask(play, ["GET", "a"], until: { $0 == .failed(.breakerOpen) }) != nil)
        #expect(ask(play, ["GET", "a"], until: { $0 == .nothing }) != nil)
        // Late replies reached their commands, so the pipeline is in step.
        #expect(play.ask("SET", "a", "1", patience: 10_000) == Self.ok && play.ask("GET", "a", patience: 10_000) == Self.bytes("1"))
    }

    @Test("an access list that is too narrow is reported for each command")
    func narrow() throws {
        let redis = try RedisProcess(["--user", "default", "on", "nopass", "~cistern:*", "+get", "+ping"])
        let play = play([redis.server])
        #expect(ask(play, ["PING"], until: isPong) != nil)
        #expect(play.ask("GET", "cistern:a", keyAt: 1) == .nothing)
        #expect(play.ask("GET", "other", keyAt: 1) == .failed(.keyForbidden))
        #expect(play.ask("SET", "cistern:a", "1", keyAt: 1) == .failed(.commandForbidden))
        #expect(play.isOpen)
    }

    @Test("a server that is out of memory is reported as full")
    func full() throws {
        let redis = try RedisProcess(["--maxmemory", "1", "--maxmemory-policy", "noeviction"])
        let play = play([redis.server])
        #expect(ask(play, ["PING"], until: isPong) != nil)
        #expect(play.ask("SET", "a", "1", keyAt: 1) == .failed(.full))
    }

    // MARK: A Cluster

    @Test("all slots are reached from the address of one server", .slow)
    func slots() throws {
        let servers = try RedisProcess.cluster()
        let play = play([servers[1].server])
        #expect(ask(play, ["PING"], until: isPong) != nil)
        var seen: Set<Int> = []
        let writes = (0..<5000).map { number in
            seen.insert(KeySlot.of(Array("k\(number)".utf8)))
            return play.begin("SET", "k\(number)", "\(number)", keyAt: 1)
        }
        for write in writes { #expect(write.reply == Self.ok) }
        for number in 0..<5000 where number % 10 == 0 { #expect(play.ask("GET", "k\(number)", keyAt: 1) == Self.bytes("\(number)")) }
        #expect(seen.count > 4000)
        // Our slots equal those of the servers: no command was redirected.
        #expect(play.figures.repetitions == 0 && play.figures.servers == 3 && play.onLoop { $0.isCluster })
    }

    @Test("keys are found while their slot migrates and afterwards", .slow)
    func moving() throws {
        let servers = try RedisProcess.cluster()
        let play = play([servers[0].server])
        #expect(ask(play, ["PING"], until: isPong) != nil)
        // foo is in slot 12182, which the third server has.
        #expect(play.ask("SET", "{foo}here", "1", keyAt: 1) == Self.ok)
        let (from, to) = (DirectRedis(port: servers[2].port), DirectRedis(port: servers[0].port))
        func name(_ one: DirectRedis) -> String { one.ask("CLUSTER MYID").split(separator: "\r\n").last.map(String.init) ?? "" }
        let (fromName, toName) = (name(from), name(to))
        to.ask("CLUSTER SETSLOT 12182 IMPORTING \(fromName)", until: "OK")
        from.ask("CLUSTER SETSLOT 12182 MIGRATING \(toName)", until: "OK")
        #expect(play.ask("GET", "{foo}here", keyAt: 1) == Self.bytes("1"))
        #expect(play.figures.repetitions == 0)
        #expect(play.ask("SET", "{foo}new", "2", keyAt: 1) == Self.ok)
        #expect(play.ask("GET", "{foo}new", keyAt: 1) == Self.bytes("2"))
        #expect(play.figures.repetitions == 2)
        from.ask("MIGRATE 127.0.0.1 \(servers[0].port) {foo}here 0 5000", until: "OK")
        for one in [to, from, DirectRedis(port: servers[1].port)] { one.ask("CLUSTER SETSLOT 12182 NODE \(toName)", until: "OK") }
        #expect(play.ask("GET", "{foo}here", keyAt: 1) == Self.bytes("1"))
        #expect(play.figures.repetitions == 3)
        #expect(play.ask("GET", "{foo}new", keyAt: 1) == Self.bytes("2"))
        #expect(play.figures.repetitions == 3)
    }

    @Test("when a primary is killed, other slots continue, and its replica takes over its slots", .slow)
    func failover() throws {
        let servers = try RedisProcess.cluster(replicaOf: 0)
        let play = play([servers[0].server, servers[1].server], patience: 1000)
        #expect(ask(play, ["PING"], until: isPong) != nil)
        // bar is in slot 5061 of the first server; foo is on the third.
        let outcome = play.begin([EngineCommand("SET", "bar", "1", keyAt: 1), EngineCommand("WAIT", "1", "1000", holdMilliseconds: 1000)])
        #expect(outcome.replies == [Self.ok, .integer(1)])
        servers[0].die()
        let lost = ask(play, ["GET", "bar"], keyAt: 1) { $0.failure != nil }
        #expect(lost != nil)
        #expect(play.ask("SET", "foo", "1", keyAt: 1) == Self.ok)
        #expect(ask(play, ["GET", "bar"], keyAt: 1) { $0 == Self.bytes("1") } != nil)
        #expect(ask(play, ["SET", "bar", "2"], keyAt: 1) { $0 == Self.ok } != nil)
        #expect(play.isOpen)
    }
}

extension RedisProcess {
    var server: EngineServer { .host("127.0.0.1", port: port) }
}
