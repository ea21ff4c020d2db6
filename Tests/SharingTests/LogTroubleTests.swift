// Tests of the causes that disconnect a node from the log, and of their log lines.

import CacheStore
import Engine
import Fleet
import Glibc
import ResponseCache
import TestSupport
import Testing

@testable import Sharing

@Suite("Reasons why the fleet log is unavailable")
struct LogTroubleTests {
    private static let server = EngineServer.host("one", port: 1)

    @Test("silence is reported as a Redis timeout, and a lost connection with its known cause")
    func causes() {
        for cause in DisconnectCause.allCases {
            let trouble = LogTrouble(cause, known: .failed(.denied, Self.server), Self.server)
            #expect((trouble == .failed(.timedOut, Self.server)) == (cause == .silence), "\(cause)")
            #expect((trouble == .failed(.denied, Self.server)) == (cause == .lost), "\(cause)")
            #expect(trouble.isMisconfiguration == (cause == .lost || cause == .unheard))
        }
        #expect(LogTrouble(.lost, known: nil, Self.server) == .failed(.connectionLost, Self.server))
    }

    @Test("each reason has its own label and sentence")
    func words() {
        let troubles = DisconnectCause.allCases.map { LogTrouble($0, known: .notUnderstood, Self.server) }
        #expect(Set(troubles.map(\.label)).count == troubles.count)
        #expect(Set(troubles.map { $0.sentence(fleet: "play") }).count == troubles.count)
        let others: [LogTrouble] = [.otherSecret, .otherUpstream, .outdated("6.2", nil)] + EngineFailure.allCases.map { .failed($0, nil) }
        for trouble in troubles + others { #expect(LogTrouble.labels.contains(trouble.label), "the metric has no \(trouble.label)") }
    }
}

@Suite("Versions of the Redis server")
struct EngineVersionTests {
    @Test(
        "Redis below 7.0 is reported as too old; Valkey and unknown versions are accepted",
        arguments: [
            ("redis_version:6.2.14", "6.2.14"), ("redis_version:7.0.0", nil), ("redis_version:10.1", nil), ("", nil),
            ("redis_version:6.2.14\r\nvalkey_version:8.0.1", nil), ("redis_version:255.255.255", nil),
        ] as [(String, String?)])
    func outdated(text: String, version: String?) {
        #expect(InfoText(Array("# Server\r\n\(text)\r\n".utf8)).outdatedVersion == version)
    }
}

@Suite(
    "Messages of a node about the fleet log", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct FleetLogMessagesTests {
    @Test("a Redis server that lost its data is reported as another log, not as a timeout")
    func otherLog() throws {
        try FleetLogPlay.run { (play: FleetLogPlay) throws in
            play.redis.direct.ask("FLUSHALL")
            #expect(try eventually { play.said.count(of: "disconnected from the fleet's log") == 1 })
            #expect(
                play.said.count(of: "disconnected from the fleet's log: the engine has another log than before") == 1, "\(play.said.all)")
            #expect(try eventually { play.said.count(of: "connected to the fleet's log") == 2 })
            #expect(play.figures.trouble == nil)
        }
    }
    @Test(
        "a read-only Redis server disconnects an idle node within half of share.blind_limit",
        arguments: [
            ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "refuses writes"),
            ("ACL SETUSER default -xadd", "ACL SETUSER default +xadd", "denies the user"),
        ])
    func mute(break: String, mend: String, cause: String) throws {
        let redis = try RedisProcess()
        #expect(redis.direct.ask("CONFIG SET maxmemory-policy noeviction").hasPrefix("+OK"))
        let play = try FleetLogPlay(redis) { $0.blindLimit = 2_000 }
        #expect(try eventually { play.node.isUpToDate })
        redis.direct.ask(`break`)
        #expect(try eventually { !play.node.isUpToDate })
        #expect(try eventually { play.said.count(of: "allows reading but refuses new entries: it \(cause)") == 1 }, "\(play.said.all)")
        #expect(play.figures.trouble?.label == "refused" && play.figures.disconnections == 1)
        redis.direct.ask(mend)
        #expect(try eventually { play.node.isUpToDate })
        #expect(try eventually { play.figures.trouble == nil && play.said.count(of: "connected to the fleet's log") == 2 })
        play.stop()
    }

    @Test("a node that would read from one primary and write to another appends nothing and reports it")
    func twoPrimaries() throws {
        let (one, other) = (try RedisProcess(), try RedisProcess())
        #expect(!other.direct.ask("PING").isEmpty && !one.direct.ask("PING").isEmpty)
        let temporary = TestTools.temporaryDirectory()
        let address = temporary.path + "/engine.sock"
        #expect(symlink(one.socketPath, address) == 0)
        let play = try FleetLogPlay(one) { $0.engine.servers = [.unix(address)] }
        #expect(try eventually { play.node.isUpToDate })
        #expect(unlink(address) == 0 && symlink(other.socketPath, address) == 0)
        // The reading connection stays; the writing one is closed and connects to the other server.
        let clients = one.direct.ask("CLIENT LIST").split(separator: "\n").filter {
            $0.contains("id=") && !$0.contains("cmd=xread") && !$0.contains("cmd=client")
        }
        let ids = clients.compactMap { line in line.split(separator: " ").first { $0.contains("id=") }?.split(separator: "=").last }
        #expect(ids.count == 1, "\(clients)")
        for id in ids { one.direct.ask("CLIENT KILL ID \(id)") }
        let told = play.purge(["a"])
        let sentence = "disconnected from the fleet's log: this node does not read the entries that it appends"
        #expect(try eventually { play.said.count(of: sentence) == 1 }, "\(play.said.all)")
        // Both connect again, and meet the other server's log.
        #expect(try eventually { play.node.isUpToDate && told.now == .pending(reason: "not_reached") })
        #expect(try eventually { other.logLength > 0 })
        #expect(one.logLength == 0)
        play.stop()
    }

    @Test("a Redis server that forbids trimming still accepts appended entries, and the missing permission is reported")
    func untrimmed() throws {
        try FleetLogPlay.run { (play: FleetLogPlay) throws in
            play.redis.direct.ask("ACL SETUSER default -xtrim")
            // The log is trimmed by number once in a thousand entries.
            for round in 0..<9 {
                let told = (0..<128).map { play.purge(["\(round) \($0)"]) }
                #expect(try eventually { told.allSatisfy { $0.now == .pending(reason: "no_replica") } })
            }
            #expect(play.figures.appended >= 1_000 && play.redis.direct.ask("INFO commandstats").contains("cmdstat_xtrim"))
            #expect(play.said.count(of: "disconnected from the fleet's log") == 0, "\(play.said.all)")
            #expect(play.said.count(of: "is not trimmed (XTRIM): the engine denies the user a required command") == 1)
        }
    }
}
