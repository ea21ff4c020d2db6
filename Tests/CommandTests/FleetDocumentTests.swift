// Tests Configuration/Guides/Several-Nodes.md with real Redis servers and the real binary: its examples start, and `check`, the log and
// `share status` report deviations.

import CacheStore
import Glibc
import Reactor
import TestSupport
import Testing

/// Code blocks of the document.
private struct SharingPage {
    /// Fenced blocks in order. Those without a language belong to redis.conf.
    private let blocks: [Substring]

    init() throws {
        let root = #filePath.dropLast("Tests/CommandTests/FleetDocumentTests.swift".count)
        let page = String(decoding: try #require(FileContent.read(root + "Configuration/Guides/Several-Nodes.md")), as: UTF8.self)
        let parts = page.split(separator: "```", omittingEmptySubsequences: false)
        blocks = stride(from: 1, to: parts.count, by: 2).map { parts[$0] }
    }

    /// Configuration of each server, and additional configuration for a Cluster.
    func engine() throws -> (each: String, cluster: String) {
        let found = blocks.filter { $0.first == "\n" }.map { String($0.dropFirst()) }
        try #require(found.count == 2)
        return (found[0], found[1])
    }

    func settings() throws -> String { String(try #require(blocks.first { $0.hasPrefix("yaml\n") }).dropFirst("yaml\n".count)) }
}

@Suite(
    "Fleet setup from the documentation", .slow, .play, .realTime,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct FleetDocumentTests {
    private let temporary = TestTools.temporaryDirectory()

    private func file(_ name: String, _ text: String) throws -> String {
        let path = "\(temporary.path)/\(name)"
        try TestTools.write(text, to: path)
        chmod(path, 0o600)
        return path
    }

    /// The document's settings, adapted to the test environment; `name` is the node's.
    private func settings(
        _ name: String, _ servers: [RedisProcess], fleet: String = "shop", secret: String = "fleet", password: String = "PASSWORD"
    ) throws -> String {
        let named = servers.map { "redis://127.0.0.1:\($0.port)" }.joined(separator: ", ")
        var share = try SharingPage().settings()
        let start = try #require(share.firstRange(of: "["))
        let end = try #require(share.firstRange(of: "]"))
        share.replaceSubrange(start.upperBound..<end.lowerBound, with: named)
        share = share.replacing("/etc/cistern/fleet-password", with: try file("password-\(name)", password + "\n"))
        share = share.replacing("/etc/cistern/fleet", with: try file("secret-\(name)", String(repeating: secret, count: 8) + "\n"))
        return share.replacing("fleet: shop", with: "fleet: \(fleet)")
    }

    private func check(_ share: String) throws -> CommandLineTool.Outcome {
        let path = try file("check.yaml", share + "store: {directory: \(temporary.path)/cache-check}\nlisten: \"127.0.0.1:0\"\n")
        return try CommandLineTool.run("check --config \(path) --upstream http://127.0.0.1:1")
    }

    private func serve(_ name: String, _ share: String, to origin: ScriptedOrigin) throws -> RunningCommand {
        let path = try file("\(name).yaml", share + "store: {directory: \(temporary.path)/cache-\(name)}\n")
        mkdir("\(temporary.path)/\(name)", 0o700)
        return try RunningCommand(
            "serve --config \(path) --upstream http://127.0.0.1:\(origin.port) --set share.timeout=10s --shards 2",
            in: "\(temporary.path)/\(name)")
    }

    private func command(_ arguments: String, _ name: String) throws -> CommandLineTool.Outcome {
        try CommandLineTool.run("\(arguments) --admin unix:\(temporary.path)/cache-\(name)/admin.sock")
    }

    /// A server with the document's configuration, after a successful login as administrator.
    private func redis(_ more: String = "") throws -> RedisProcess {
        let redis = try RedisProcess(configuration: try SharingPage().engine().each + more)
        #expect(redis.direct.ask("AUTH ADMIN-PASSWORD\r\nPING", until: "PONG").contains("PONG"))
        return redis
    }

    private func administer(_ redis: RedisProcess, _ command: String) {
        let said = redis.direct.ask("AUTH ADMIN-PASSWORD\r\n\(command)")
        #expect(said.hasPrefix("+OK\r\n") && !said.dropFirst(5).hasPrefix("-"), "\(command): \(said)")
    }

    // MARK: Redis servers

    @Test("check and serve reject several standalone servers and accept a single one")
    func severalServers() throws {
        let servers = [try redis(), try redis()]
        let share = try settings("a", servers)
        let path = try file("several.yaml", share + "store: {directory: \(temporary.path)/cache-several}\nlisten: \"127.0.0.1:0\"\n")
        let started = try CommandLineTool.run("serve --config \(path) --upstream http://127.0.0.1:1")
        for outcome in [try check(share), started] {
            #expect(outcome.status == 78)
            #expect(
                outcome.text.contains("is not a Cluster, and share.servers has several addresses. Specify one address"), "\(outcome.text)")
        }
        #expect(try check(try settings("b", [servers[0]])).status == 0)
    }

    @Test("the documented redis.conf starts standalone and cluster servers, and check only warns about the missing replica")
    func blocks() throws {
        let redis = try redis()
        let outcome = try check(try settings("a", [redis]))
        #expect(outcome.status == 0)
        let told = outcome.lines.filter { $0.contains("share") }
        #expect(told.count == 1 && told[0].contains("the log has no replica at 127.0.0.1:\(redis.port)"), "\(outcome.text)")
        #expect(outcome.text.contains("The log of fleet shop is at 127.0.0.1:\(redis.port) (replicas: none)."))
        let (each, cluster) = try SharingPage().engine()
        let one = try RedisProcess(configuration: each + cluster, ["--cluster-port", "\(TestTools.freePort())"])
        #expect(one.direct.ask("AUTH ADMIN-PASSWORD\r\nCLUSTER INFO", until: "cluster_state").contains("cluster_state:fail"))
        let settled = "AUTH ADMIN-PASSWORD\r\nCONFIG GET cluster-require-full-coverage"
        #expect(one.direct.ask(settled).contains("\r\nno\r\n"))
    }

    @Test("a replica with the documented configuration follows its primary and accepts the same user")
    func replica() throws {
        let redis = try redis()
        let replica = try self.redis("replicaof 127.0.0.1 \(redis.port)\nrepl-diskless-sync-delay 0\n")
        #expect(
            replica.direct.ask("AUTH ADMIN-PASSWORD\r\nINFO replication", until: "master_link_status:up").contains("master_link_status:up"))
        #expect(redis.direct.ask("AUTH ADMIN-PASSWORD\r\nINFO replication", until: "state=online").contains("state=online"))
        let good = try check(try settings("a", [redis]))
        #expect(good.status == 0 && !good.text.contains("warning: share"), "\(good.text)")
        #expect(good.text.contains("The log of fleet shop is at 127.0.0.1:\(redis.port) (replicas: 127.0.0.1:\(replica.port))."))
        // Deviations of a replica are found before it becomes the primary.
        administer(replica, "ACL SETUSER cistern off")
        administer(replica, "CONFIG SET appendonly no")
        administer(replica, "CONFIG SET maxmemory-policy allkeys-lru")
        let bad = try check(try settings("a", [redis]))
        #expect(bad.status == 78 && !bad.text.contains("The settings are valid"))
        #expect(bad.text.contains("cistern: share.user: 127.0.0.1:\(replica.port) rejects the user or the password"), "\(bad.text)")
        administer(replica, "ACL SETUSER cistern on")
        let poor = try check(try settings("a", [redis]))
        #expect(poor.status == 0)
        #expect(poor.text.contains("(appendonly no) at 127.0.0.1:\(replica.port):"), "\(poor.text)")
        #expect(poor.text.contains("maxmemory-policy is allkeys-lru at 127.0.0.1:\(replica.port):"))
    }

    @Test("check names each ACL command that the user lacks, with and without a Cluster", arguments: [false, true])
    func rights(isCluster: Bool) throws {
        let redis = isCluster ? try cluster() : try redis()
        let line = try SharingPage().engine().each.split(separator: "\n").first { $0.hasPrefix("user ") }
        let all = try #require(line).split(separator: " ").filter { $0.hasPrefix("+") }.map { $0.dropFirst() }
        #expect(all.count == 16)
        // Connections work without a name too, and waits without the expiry of leases.
        for right in all where !["client|setname", "pttl"].contains(right) && (isCluster || right != "asking" && right != "cluster|slots") {
            administer(redis, "ACL SETUSER cistern -\(right)")
            let outcome = try check(try settings("a", [redis]))
            #expect(outcome.status == 78)
            let name = right.uppercased().replacing("|", with: " ")
            #expect(outcome.text.contains("the user may not use \(name) ("), "\(right): \(outcome.text)")
            administer(redis, "ACL SETUSER cistern +\(right)")
        }
        #expect(try check(try settings("a", [redis])).status == 0)
        administer(redis, "ACL SETUSER cistern -pttl")
        let slower = try check(try settings("a", [redis]))
        #expect(slower.status == 0 && slower.text.contains("the user may not use PTTL at 127.0.0.1:"), "\(slower.text)")
    }

    /// A single server with all slots.
    private func cluster() throws -> RedisProcess {
        let (each, cluster) = try SharingPage().engine()
        let redis = try RedisProcess(configuration: each + cluster, ["--cluster-port", "\(TestTools.freePort())"])
        redis.direct.ask("AUTH ADMIN-PASSWORD\r\nCLUSTER ADDSLOTSRANGE 0 16383", until: "+OK\r\n+OK")
        redis.direct.ask("AUTH ADMIN-PASSWORD\r\nCLUSTER INFO", until: "cluster_state:ok")
        return redis
    }

    // MARK: Mistakes

    @Test(
        "check rejects a wrong password and another fleet's name, and warns about an open or unreachable server"
    )
    func mistakes() throws {
        let redis = try redis()
        let denied = try check(try settings("a", [redis], password: "WRONG"))
        let rejection = "share.user: 127.0.0.1:\(redis.port) rejects the user or the password"
        #expect(denied.status == 78 && denied.text.contains(rejection), "\(denied.text)")
        let other = try check(try settings("a", [redis], fleet: "else"))
        #expect(other.status == 78)
        #expect(
            other.lines.filter { $0.contains("cistern: share") }.count == 1 && other.text.contains("its ACL needs ~cistern:else:*"),
            "\(other.text)")
        administer(redis, "CONFIG SET requirepass \"\"")
        let open = try check(try settings("a", [redis]))
        #expect(
            open.status == 0 && open.text.contains("Redis requires no password (the user default is on) at 127.0.0.1:\(redis.port)"),
            "\(open.text)")
        redis.die()
        let gone = try check(try settings("a", [redis]))
        #expect(gone.status == 0 && gone.text.contains("127.0.0.1:\(redis.port) cannot be reached"), "\(gone.text)")
    }

    @Test("a node without Redis access logs the loss and the recovery once, and its purges exit with 75")
    func denied() throws {
        let redis = try redis()
        administer(redis, "ACL SETUSER cistern off")
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }
        let node = try serve("a", try settings("a", [redis]), to: origin)
        let cause = "127.0.0.1:\(redis.port) rejects the user or the password"
        #expect(try eventually { node.text.contains("disconnected from the fleet's log: \(cause)") })
        let status = try command("share status", "a")
        #expect(status.status == 1 && status.text.contains("BLIND since the start: \(cause)"), "\(status.text)")
        #expect(try node.get("/a").status == 200)
        let why = try command("why", "a").text
        #expect(why.contains("Responses of other nodes were not looked up: Redis fails"), "\(why)")
        let purge = try command("purge /a", "a")
        #expect(purge.status == 75 && purge.text.contains("NOT notified yet"), "\(purge.text)")
        #expect(try command("share status", "a").text.contains("purges    pending: 1 not_reached: other nodes NOT notified"))
        administer(redis, "ACL SETUSER cistern on")
        #expect(try eventually { node.text.contains("connected to the fleet's log") })
        #expect(node.text.split(separator: "\n").count { $0.contains("disconnected from the fleet's log") } == 1, "\(node.text)")
        let seeing = try command("share status", "a")
        #expect(seeing.status == 0 && seeing.text.contains("engine    127.0.0.1:\(redis.port)  alone, has the log"), "\(seeing.text)")
        #expect(try eventually { try command("purge /a", "a").status == 0 })
        #expect(node.stop().status == 0)
    }

    @Test("a node that may read but not write the fleet log logs this once, and again when writes succeed")
    func refused() throws {
        let redis = try redis()
        let origin = ScriptedOrigin { _ in [.json("{}")] }
        let node = try serve("a", try settings("a", [redis]), to: origin)
        #expect(try eventually { node.text.contains("connected to the fleet's log") })
        administer(redis, "ACL SETUSER cistern -xadd")
        for _ in 0..<2 {
            let purge = try command("purge /a", "a")
            #expect(purge.status == 75 && purge.text.contains("Redis rejects the purge (refused)"), "\(purge.text)")
        }
        let warning =
            "disconnected from the fleet's log: 127.0.0.1:\(redis.port) allows reading but refuses new entries: it denies the user a required command"
        #expect(node.text.split(separator: "\n").count { $0.contains(warning) } == 1, "\(node.text)")
        let write = try node.request("PUT", "/a", content: "{}")
        #expect(write.status == 200 && write["Cache-Status"]?.hasSuffix("; detail=nodes_not_told") == true, "\(write)")
        // A purge of a target is one message per scheme.
        #expect(try command("share status", "a").text.contains("purges    pending: 2 refused: other nodes NOT notified"))
        administer(redis, "ACL SETUSER cistern +xadd")
        #expect(try eventually { node.text.split(separator: "\n").count { $0.contains("connected to the fleet's log") } == 2 })
        #expect(node.stop().status == 0)
        origin.down()
    }

    @Test(
        "the first node of a fleet reports a missing write permission or full memory as the cause",
        arguments: [false, true])
    func writesRejected(isFull: Bool) throws {
        let redis = try redis()
        if isFull {
            administer(redis, "CONFIG SET maxmemory-policy noeviction")
            administer(redis, "CONFIG SET maxmemory 1")
        } else {
            administer(redis, "ACL SETUSER cistern -set")
        }
        let node = try serve("a", try settings("a", [redis]), to: ScriptedOrigin { _ in [.json("{}")] })
        let cause = isFull ? "refuses writes" : "denies the user a required command"
        let sentence = "disconnected from the fleet's log: 127.0.0.1:\(redis.port) \(cause)"
        #expect(try eventually { node.text.contains("disconnected from the fleet's log") })
        #expect(node.text.contains(sentence), "\(node.text)")
        #expect(try command("share status", "a").text.contains("BLIND since the start: 127.0.0.1:\(redis.port) \(cause)"))
        if isFull { administer(redis, "CONFIG SET maxmemory 100mb") } else { administer(redis, "ACL SETUSER cistern +set") }
        #expect(try eventually { node.text.contains("connected to the fleet's log") })
        #expect(node.stop().status == 0)
    }

    @Test("a node with another secret is excluded and reports this; an unreadable log entry makes responses stale")
    func otherSecret() throws {
        let redis = try redis()
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }
        let one = try serve("one", try settings("one", [redis]), to: origin)
        let other = try serve("other", try settings("other", [redis], secret: "elsewhere"), to: origin)
        #expect(try eventually { one.text.contains("connected to the fleet's log") })
        let refusal = "fleet shop has another share.secret_file than this node"
        #expect(try eventually { other.text.contains("disconnected from the fleet's log: \(refusal)") })
        #expect(try command("share status", "other").text.contains("BLIND since the start: \(refusal)"))
        #expect(try one.get("/a").status == 200 && one.get("/a")["Cache-Status"]?.contains("; hit") == true)
        #expect(try command("purge /none", "other").status == 75)
        let told = try check(try settings("check", [redis], secret: "elsewhere"))
        #expect(told.status == 78 && told.text.contains("share.secret_file: fleet shop has another secret"))
        // An entry as written by a version without admission.
        func append() { administer(redis, "XADD cistern:shop:{log} * k t n 0000000000000001 s 1 v x") }
        append()
        let warning = "cannot decrypt an entry of the fleet's log: a node of fleet shop has another share.secret_file"
        #expect(try eventually { one.text.contains(warning) })
        #expect(try command("share status", "one").text.contains("could not be decrypted, the last at 2"))
        #expect(try eventually { try one.get("/a")["Cache-Status"]?.contains("; fwd=stale") == true || origin.requests.count > 1 })
        #expect(try command("why", "one").text.contains("because a node with another secret purged or changed responses"))
        #expect(try command("purge /none", "one").status == 0)
        #expect(try command("purge /none", "one").text.contains("note: a node of this fleet has another share.secret_file"))
        #expect(try !command("purge /none --json", "one").text.contains("note:"))
        #expect(try check(try settings("check", [redis])).status == 0)
        // The warning appears at most once a minute.
        for _ in 0..<3 { append() }
        #expect(try eventually { try command("share status", "one").text.contains("secret    ") })
        #expect(one.text.split(separator: "\n").count { $0.contains("cannot decrypt an entry") } == 1)
        #expect(one.stop().status == 0 && other.stop().status == 0)
    }
}
