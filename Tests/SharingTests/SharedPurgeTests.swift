// Tests that a purge or write at one node affects all nodes: at once, after a disconnection, and after the engine has lost its data.

import Addresses
import Administration
import CacheStore
import Downstream
import Engine
import Fleet
import Forwarding
import Glibc
import Reactor
import ResponseCache
import ReverseProxy
import Server
import TestSupport
import Testing

@testable import Sharing

@Suite(
    "Purges and writes on all nodes", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct SharedPurgeTests {
    /// A purge, and the targets that it affects.
    struct PurgeRow: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let arguments: String
        /// Those of "/a/1", "/a/2" and "/b" that are fetched again.
        let gone: [String]

        init(_ sentence: String, _ arguments: String, _ gone: [String]) {
            (testDescription, self.arguments, self.gone) = (sentence, arguments, gone)
        }
    }

    private static let targets = ["/a/1", "/a/2", "/b"]

    /// Both nodes store all targets.
    private func fill(_ one: FleetMember, _ other: FleetMember) throws {
        for target in Self.targets { _ = try one.get(target) }
        #expect(try one.gave(Double(Self.targets.count)))
        for target in Self.targets { #expect(try other.get(target)["Cache-Status"]?.contains("; hit") == true) }
    }

    @Test(arguments: [
        PurgeRow("a target", "target=/a/1", ["/a/1"]), PurgeRow("a prefix", "prefix=/a/", ["/a/1", "/a/2"]),
        PurgeRow("a tag", "tag=b", ["/b"]), PurgeRow("all", "all=true", targets),
        PurgeRow("a target, soft", "target=/a/2&soft=true", ["/a/2"]), PurgeRow("a prefix, soft", "prefix=/a&soft=true", ["/a/1", "/a/2"]),
        PurgeRow("a tag, soft", "tag=a&soft=true", ["/a/1", "/a/2"]), PurgeRow("all, soft", "all=true&soft=true", targets),
    ])
    func purged(_ row: PurgeRow) throws {
        let origin = ScriptedOrigin { request in
            [.json("{}", ["Cache-Control: max-age=600", "Cache-Tag: \(request.target.dropFirst().prefix(1))"])]
        }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair()
            try fill(one, other)
            #expect(fleet.origin.requests.count == 3)
            let answer = try one.purge(row.arguments)
            #expect(answer.status == 202 && answer.text.contains("\"no_replica\""), "\(answer.text)")
            for target in row.gone {
                #expect(try eventually { try other.get(target)["Cache-Status"]?.contains("; hit") != true || fleet.asked(target) == 2 })
            }
            for target in Self.targets { #expect(try one.get(target).status == 200 && other.get(target).status == 200) }
            // The first node to miss fetches the target, and the other gets its record.
            for target in Self.targets { #expect(fleet.asked(target) <= (row.gone.contains(target) ? 3 : 1), "\(target)") }
            for target in row.gone { #expect(fleet.asked(target) >= 2, "\(target)") }
            // A new node does not find purged responses either, only newer ones.
            let late = try fleet.join()
            #expect(try late.sees())
            let before = fleet.origin.requests.count
            for target in Self.targets where !row.gone.contains(target) { #expect(try late.get(target).status == 200) }
            #expect(fleet.origin.requests.count == before)
        }
    }

    @Test("a target is purged on all nodes, also for an API that the requested node does not serve")
    func purgedElsewhere() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            func serving(_ names: String...) -> (inout ProxySettings) -> Void {
                { settings in
                    settings.apis = names.map { [settings] name in
                        var api = settings
                        (api.apiName, api.scope.path) = (name, Array("/\(name)".utf8))
                        return api
                    }
                }
            }
            let (one, other) = (try fleet.join(proxy: serving("a")), try fleet.join(proxy: serving("a", "b")))
            #expect(try one.sees() && other.sees())
            let former = try other.get("/b/1").text
            #expect(try other.gave(1) && other.get("/b/1").text == former)
            #expect(try one.purge("target=/b/1").status == 202)
            #expect(try eventually { try other.get("/b/1").text != former })
            #expect(fleet.asked("/b/1") == 2)
        }
    }

    @Test("a node that joins later does not use a purged record that is still in Redis")
    func purgedRecord() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, _) = try fleet.pair()
            for target in Self.targets { _ = try one.get(target) }
            #expect(try one.gave(3))
            _ = try one.purge("prefix=/a/")
            // A node that has read the whole log does not lag, however old the last entry is.
            let late = try fleet.join(ahead: .seconds(60))
            #expect(try late.sees())
            #expect(try late.metric("cistern_share_log_lag_seconds") == 0)
            for (target, text) in [("/b", "{\"n\":3}"), ("/a/1", "{\"n\":4}"), ("/a/2", "{\"n\":5}")] {
                #expect(try late.get(target).text == text)
            }
            #expect(try late.refused("selected") == 2)
            _ = try one.purge("all=true")
            let last = try fleet.join()
            #expect(try last.sees())
            #expect(try last.get("/b").text == "{\"n\":6}")
            #expect(try last.refused("purged_all") == 1)
        }
    }

    @Test("a purge that a replica acknowledged is answered with 200", .slow)
    func durable() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let replica = try RedisProcess(["--replicaof", "127.0.0.1", "\(fleet.redis.port)", "--repl-diskless-sync-delay", "0"])
            #expect(replica.direct.ask("INFO replication", until: "master_link_status:up").contains("master_link_status:up"))
            #expect(fleet.redis.direct.ask("INFO replication", until: "connected_slaves:1").contains("connected_slaves:1"))
            let (one, other) = try fleet.pair()
            _ = try one.get("/a")
            #expect(try one.gave(1))
            _ = try other.get("/a")
            // The replica's first acknowledgement may take a second.
            #expect(fleet.redis.direct.ask("INFO replication", until: "state=online").contains("state=online"))
            let answer = try one.purge("target=/a")
            #expect([200, 202].contains(answer.status))
            #expect(try eventually { try one.pendingPurges() == 0 })
            #expect(try eventually { try one.purge("target=/none").status == 200 })
            #expect(try other.comes(to: "{\"n\":2}", "/a"))
            // Without a replica no purge is durable. Purges are kept and sent again once there is a replica.
            replica.freeze()
            #expect(try one.purge("prefix=/a").status == 202)
            #expect(try one.pendingPurges() >= 1)
            replica.thaw()
            #expect(try eventually { try one.pendingPurges() == 0 })
            #expect(replica.direct.ask("PING").contains("PONG"))
        }
    }

    @Test(
        "a response requested before a purge or write at another node is not stored when it arrives later",
        arguments: ["target=/a", "prefix=/", "all=true", "all=true&soft=true", "a write"])
    func inFlight(arguments: String) throws {
        let (asked, gate) = (Gate(), Gate())
        let count = Mutex(0)
        let origin = ScriptedOrigin { request in
            guard request.method == "GET" else { return [.json("{}")] }
            let number = count.withLock { count in
                count += 1
                return count
            }
            let response = OriginStep.json("{\"n\":\(number)}", ["Cache-Control: max-age=600"])
            return number == 1 ? [.open(asked), .pass(gate), response] : [response]
        }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair()
            let client = try other.play.client(getting: "/a")
            asked.pass()
            if arguments == "a write" { _ = try one.play.request("PUT", "/a", content: "{}") } else { _ = try one.purge(arguments) }
            #expect(try other.hasObeyed(fleet))
            gate.open()
            #expect(client.readResponse()?.text == "{\"n\":1}")
            #expect(try other.get("/a").text == "{\"n\":2}")
            #expect(try one.get("/a").text != "{\"n\":1}")
        }
    }

    // MARK: Disconnected for a while

    /// Purges while a node is stopped, and starts the node once the fleet's log has the purge.
    private func purge(_ arguments: String, by one: FleetMember, whileAway other: FleetMember, _ fleet: FleetPlay) throws {
        // The node has written its position in the log to the disk.
        other.play.flushStore()
        other.play.stop()
        let before = fleet.logLength
        #expect(try one.purge(arguments).status == 202)
        #expect(try eventually { fleet.logLength > before })
        try other.play.start()
    }

    @Test("a restarted node applies purges from its absence before its first hit")
    func restarted() throws {
        // A softly purged response may still rescue a request: on a busy machine a healthy upstream may exceed rescue_after.
        let waits: @Sendable (inout ProxySettings) -> Void = { $0.otherRoute.rescueAfter = 0 }
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair(proxy: waits)
            var number = 0
            for arguments in ["target=/a", "prefix=/a", "all=true", "all=true&soft=true"] {
                let text = try other.get("/a").text
                #expect(try other.get("/b").status == 200)
                try purge(arguments, by: one, whileAway: other, fleet)
                let now = try other.get("/a")
                #expect(now.text != text, "\(arguments)")
                #expect(try other.sees())
                #expect(try other.get("/a").text != text, "\(arguments)")
                number += 1
            }
            #expect(number == 4)
        }
    }

    @Test(
        "a restarted node does not rescue with responses that were hard-purged during its absence",
        arguments: [("target=/a", false), ("prefix=/a", false), ("all=true", false), ("all=true&soft=true", true)])
    func restartedWhileDown(arguments: String, isRescued: Bool) throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            #expect(try other.get("/a").text == "{\"n\":1}")
            try purge(arguments, by: one, whileAway: other, fleet)
            #expect(try other.sees())
            fleet.origin.down()
            let response = try other.get("/a")
            #expect(response.status == (isRescued ? 200 : 502) && (response.text == "{\"n\":1}") == isRescued, "\(response.text)")
        }
    }

    @Test("a purge without Redis gets 202, survives a restart, and is applied by other nodes when Redis returns")
    func pending() throws {
        try FleetPlay.run(FleetPlay.numbered(), redis: ["--appendonly", "yes", "--appendfsync", "always"]) { fleet in
            let (one, other) = try fleet.pair()
            _ = try one.get("/a")
            #expect(try one.gave(1))
            #expect(try other.get("/a").text == "{\"n\":1}")
            fleet.redis.die()
            #expect(try one.isDisconnected() && other.isDisconnected())
            // The log's connection fails, even without a request.
            let asked = EngineFailure.unreachable.rawValue
            #expect(try eventually { try other.metric("cistern_share_engine_failures_total{reason=\"\(asked)\"}") > 0 })
            let answer = try one.purge("prefix=/a")
            #expect(answer.status == 202 && answer.text.contains("\"not_reached\""), "\(answer.text)")
            #expect(try one.get("/a").text == "{\"n\":2}")
            #expect(try other.get("/a").text == "{\"n\":1}")
            try one.play.restart()
            #expect(try eventually { try one.pendingPurges(.notReached) == 1 })
            try fleet.redis.revive()
            #expect(try one.sees() && other.sees())
            #expect(try eventually { try other.get("/a").text != "{\"n\":1}" })
            // Purged targets can be shared again after a new fetch.
            let given = try other.metric("cistern_shared_offers_total{outcome=\"sent\"}")
            _ = try other.get("/a/new")
            #expect(try other.gave(given + 1))
            #expect(try one.get("/a/new")["Cache-Status"]?.contains("; hit") == true)
            for node in [one, other] {
                for gap in ["epoch", "trimmed", "lost_entries"] {
                    #expect(try node.metric("cistern_share_gaps_total{cause=\"\(gap)\"}") == 0, "\(gap)")
                }
            }
        }
    }

    @Test("pending purges left by a previous process are sent, and end when Redis without replicas accepts them")
    func leftPending() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            #expect(try other.get("/a").text == "{\"n\":1}")
            one.play.stop()
            let files = FleetFiles(beside: StoreLocation(directory: one.play.directory, capacityBytes: 16 << 20))
            #expect(files.keep(pending: [PendingMessage(message: LogMessage(.all))], isLeft: true))
            try one.play.start()
            #expect(try other.comes(to: "{\"n\":2}", "/a"))
            #expect(try eventually { files.pendingPurges().isEmpty && files.takeLeftPurges().isEmpty })
        }
    }

    @Test("a purge in progress is kept when its node stops", .slow)
    func stoppedWhilePurging() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            _ = try one.get("/a")
            #expect(try one.gave(1))
            #expect(try other.get("/a").text == "{\"n\":1}")
            fleet.redis.freeze()
            let client = try TestClient(.unix(path: one.play.adminSocket))
            client.send("POST /-/purge?target=/a HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try one.comes(to: "{\"n\":2}", "/a"))
            one.play.stop()
            #expect(access(one.play.directory + "/fleet-pending", F_OK) == 0)
            fleet.redis.thaw()
            try one.play.start()
            #expect(try one.sees() && other.sees())
            #expect(try eventually { try other.get("/a").text != "{\"n\":1}" })
        }
    }

    @Test(
        "after FLUSHALL all stored responses become stale, or are dropped, and then sharing recovers", .slow,
        arguments: [FleetLogLink.AfterGap.stale, .drop])
    func flushed(afterGap: FleetLogLink.AfterGap) throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair { $0.afterGap = afterGap }
            _ = try one.get("/a")
            #expect(try one.gave(1))
            _ = try other.get("/a")
            fleet.redis.direct.ask("FLUSHALL")
            for node in [one, other] {
                #expect(try node.reaches("cistern_share_gaps_total{cause=\"epoch\"}", 1))
                #expect(try node.sees())
            }
            // A stale response serves a rescue; a dropped one does not.
            fleet.origin.down()
            #expect(try other.get("/a").status == (afterGap == .stale ? 200 : 502))
            fleet.origin.up()
            #expect(try eventually { try other.get("/a").text == "{\"n\":2}" })
            #expect(try other.gave(1))
            #expect(try eventually { try one.get("/a").text == "{\"n\":2}" })
            // Purges are received again.
            _ = try other.purge("target=/a")
            #expect(try eventually { try one.get("/a").text != "{\"n\":2}" })
            for node in [one, other] { #expect(try node.metric("cistern_share_gaps_total{cause=\"epoch\"}") == 1) }
        }
    }

    @Test("a log trimmed beyond an absent node's position makes its stored responses stale, and then sharing recovers")
    func trimmed() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            #expect(try other.get("/a").text == "{\"n\":1}")
            _ = try one.purge("target=/x")
            #expect(try other.hasObeyed(fleet))
            other.play.stop()
            for _ in 0..<3 { _ = try one.purge("prefix=/a") }
            fleet.redis.direct.ask("XTRIM cistern:play:{log} MAXLEN 0")
            try other.play.start()
            #expect(try other.sees())
            #expect(try other.metric("cistern_share_gaps_total{cause=\"trimmed\"}") == 1)
            #expect(try other.get("/a").text == "{\"n\":2}" && other.get("/a").text == "{\"n\":2}")
            _ = try one.purge("target=/a")
            #expect(try eventually { try other.get("/a").text != "{\"n\":2}" })
        }
    }

    @Test(
        "forged log entries only make stored responses stale; a key of another type blinds nodes until it is removed",
        .slow)
    func forged() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            _ = try one.get("/a")
            #expect(try one.gave(1))
            _ = try other.get("/a")
            let entries = [
                "k t v x n 0000000000000001 s 1", "k a", "x y", "k a v x n zz s -1", "k h n 0000000000000001 s 99999999999999999999",
                "k f v 99999999999999-0",
            ]
            for entry in entries { #expect(fleet.redis.direct.ask("XADD cistern:play:{log} * \(entry)").hasPrefix("$")) }
            for node in [one, other] {
                #expect(try node.reaches("cistern_share_log_entries_unopened_total", Double(entries.count)))
                #expect(try node.hasObeyed(fleet))
            }
            fleet.origin.down()
            #expect(try one.get("/a").text == "{\"n\":1}")
            #expect(try one.metric("cistern_requests_total{result=\"rescued\",method=\"GET\",status_class=\"2xx\"}") == 1)
            fleet.origin.up()
            #expect(try other.comes(to: "{\"n\":2}", "/a"))
            fleet.redis.direct.ask("SET cistern:play:{log} x")
            #expect(try one.isDisconnected() && other.isDisconnected())
            #expect(try one.purge("target=/a").status == 202)
            #expect(try one.get("/b").status == 200 && other.get("/c").status == 200)
            fleet.redis.direct.ask("DEL cistern:play:{log}")
            #expect(try one.sees() && other.sees())
            #expect(try eventually { try other.get("/a").text != "{\"n\":2}" })
        }
    }

    @Test("with a full Redis server nodes work alone, report it, and share again when memory is available", .slow)
    func full() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            fleet.redis.direct.ask("CONFIG SET maxmemory 1")
            #expect(try one.get("/a").text == "{\"n\":1}" && other.get("/a").text == "{\"n\":2}")
            #expect(try one.reaches("cistern_shared_offers_total{outcome=\"failed\"}", 1))
            let answer = try one.purge("target=/a")
            #expect(answer.status == 202 && answer.text.contains("\"refused\""), "\(answer.text)")
            #expect(try one.get("/a").text == "{\"n\":3}" && other.get("/a").text == "{\"n\":2}")
            fleet.redis.direct.ask("CONFIG SET maxmemory 0")
            #expect(try eventually { try other.get("/a").text != "{\"n\":2}" })
            #expect(try one.sees() && other.sees())
            _ = try one.get("/b")
            #expect(try eventually { try other.get("/b").status == 200 && other.found() >= 1 })
        }
    }

    @Test("without the log a stored response is fresh until blind_limit, and then only used for rescue")
    func disconnected() throws {
        try FleetPlay.run(FleetPlay.numbered(["Cache-Control: max-age=86400"])) { fleet in
            let (one, other) = try fleet.pair()
            _ = try one.get("/a")
            #expect(try one.gave(1))
            #expect(try other.get("/a").text == "{\"n\":1}")
            other.time.shift(by: .seconds(3_600))
            #expect(try other.sees())
            #expect(try other.get("/a").text == "{\"n\":1}")
            fleet.redis.die()
            #expect(try other.isDisconnected())
            #expect(try other.get("/a").text == "{\"n\":2}")
            // The response was confirmed in the meantime.
            other.time.shift(by: .seconds(20))
            #expect(try other.get("/a").text == "{\"n\":2}")
            other.time.shift(by: .seconds(11))
            fleet.origin.down()
            #expect(try other.get("/a").text == "{\"n\":2}")
            #expect(try other.metric("cistern_requests_total{result=\"rescued\",method=\"GET\",status_class=\"2xx\"}") == 1)
        }
    }

    @Test("after a machine was suspended for an hour, a node serves nothing as fresh before it has read the log")
    func stopped() throws {
        try FleetPlay.run(FleetPlay.numbered(["Cache-Control: max-age=86400"])) { fleet in
            let (one, other) = try fleet.pair()
            for node in [one, other] { _ = try node.get("/a") }
            fleet.redis.freeze()
            other.time.shift(by: .seconds(3_600))
            #expect(try other.get("/a").text == "{\"n\":2}")
            #expect(try one.get("/a").text == "{\"n\":1}")
            fleet.redis.thaw()
            #expect(try one.sees() && other.sees())
            _ = try one.purge("target=/a")
            #expect(try other.comes(to: "{\"n\":3}", "/a"))
        }
    }

    @Test("a settings reload keeps the node's connection to the log")
    func reloaded() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            _ = try one.get("/a")
            #expect(try one.gave(1))
            _ = try other.get("/a")
            #expect(other.play.reload { $0.settings.forwarding.name = "new" }?.label == "applied")
            #expect(try other.metric("cistern_share_seeing") == 1)
            let hit = try other.get("/a")
            #expect(hit["Cache-Status"]?.hasPrefix("new; hit") == true)
            _ = try one.get("/b")
            #expect(try one.gave(2))
            #expect(try other.get("/b").text == "{\"n\":2}")
            _ = try one.purge("target=/a")
            #expect(try eventually { try other.get("/a").text != "{\"n\":1}" })
            _ = try other.play.request("PUT", "/b", content: "{}")
            #expect(try eventually { try one.get("/b").text != "{\"n\":2}" })
        }
    }

    @Test("a stopped node releases all its resources, whatever was in progress", .slow, arguments: [false, true])
    func gone(isFrozen: Bool) throws {
        let gate = Gate()
        try FleetPlay.run(ScriptedOrigin { $0.target == "/held" ? [.pass(gate)] : [.json("{}", ["Cache-Control: max-age=600"])] }) {
            fleet in
            let (one, other) = try fleet.pair()
            _ = try one.get("/a")
            let clients = try (0..<3).map { _ in try one.play.client() }
            for client in clients { client.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n") }
            if isFrozen { fleet.redis.freeze() }
            for number in 0..<5 { clients[0].send("GET /cold/\(number) HTTP/1.1\r\nHost: a\r\n\r\n") }
            _ = try other.get("/a")
            _ = try one.purge("prefix=/")
            one.play.stop()
            #expect(try eventually { one.play.formerServer == nil })
            fleet.redis.thaw()
            gate.open()
            #expect(clients[0].isClosedByServer())
        }
    }

    @Test("hundreds of purges during restarts of a node lose nothing and cause no failure", .slow)
    func busy() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            for round in 0..<5 {
                for number in 0..<20 { _ = try one.purge(number % 2 == 0 ? "prefix=/\(number)" : "target=/\(number)") }
                _ = try other.get("/\(round)")
                if round % 2 == 0 { try other.play.restart() }
            }
            let text = try other.get("/last").text
            _ = try one.purge("target=/last")
            #expect(try eventually { try other.get("/last").text != text })
            #expect(try other.sees())
        }
    }
}
