// Tests that nodes find each other's responses, which are fetched once, and that invalid records are never used.

import Engine
import Glibc
import Reactor
import ReverseProxy
import Sharing
import TestSupport
import Testing

@Suite(
    "Sharing responses", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct SharedResponseTests {
    @Test(
        "a response stored by one node is served by another with its age, without an upstream request, and then stored there",
        .clientProtocols)
    func found() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            let first = try one.get("/a")
            #expect(try one.gave(1))
            for _ in 0..<2 {
                let second = try other.get("/a")
                #expect(second.text == first.text && second["Cache-Status"]?.contains("; hit") == true, "\(second)")
                #expect(second["Age"].flatMap { Int($0) }.map { $0 < 10 } == true)
            }
            #expect(fleet.origin.requests.count == 1)
            #expect(try other.found() == 1 && other.metric("cistern_shared_lookups_total{outcome=\"missing\"}") == 0)
            // A record that was taken is not shared again.
            #expect(try other.metric("cistern_shared_offers_total{outcome=\"sent\"}") == 0)
            // The other direction.
            _ = try other.get("/b")
            #expect(try other.gave(1))
            #expect(try one.get("/b")["Cache-Status"]?.contains("; hit") == true)
            #expect(fleet.asked("/b") == 1)
            // HEAD is answered as well.
            _ = try other.get("/c")
            #expect(try other.gave(2))
            let head = try one.play.request("HEAD", "/c")
            #expect(head.status == 200 && head["Cache-Status"]?.contains("; hit") == true)
            #expect(fleet.asked("/c") == 1)
        }
    }

    @Test("neither content, target nor credentials are readable in Redis")
    func sealed() throws {
        try FleetPlay.run(ScriptedOrigin { _ in [.json("{\"hidden\":1}", ["Cache-Control: max-age=600"])] }) { fleet in
            let (one, _) = try fleet.pair()
            _ = try one.get("/hidden", [("X-API-Key", "hidden")])
            #expect(try one.gave(1))
            #expect(fleet.records.count == 1)
            for key in fleet.records {
                let value = fleet.redis.direct.value(of: key)
                #expect(!value.isEmpty && value.firstRange(of: Array("hidden".utf8)) == nil && !key.contains("hidden"))
                // The record expires.
                let end = Int(fleet.redis.direct.ask("PTTL \(key)").dropFirst().prefix { $0.isNumber }) ?? 0
                #expect((1...604_800_000).contains(end))
            }
        }
    }

    @Test("clocks that differ by an hour do not change the age", arguments: [Duration.seconds(3_600), .seconds(-3_600)])
    func clocks(ahead: Duration) throws {
        try FleetPlay.run(FleetPlay.numbered(["Cache-Control: max-age=600", "Age: 100"])) { fleet in
            let (one, other) = (try fleet.join(), try fleet.join(ahead: ahead))
            #expect(try one.sees() && other.sees())
            for (from, to, target) in [(one, other, "/a"), (other, one, "/b")] {
                _ = try from.get(target)
                #expect(try from.gave(1))
                let age = try to.get(target)["Age"].flatMap { Int($0) } ?? 0
                #expect((100..<130).contains(age), "\(target)")
                #expect(fleet.asked(target) == 1)
            }
        }
    }

    @Test("a hit from another node has detail=other_node in Cache-Status, and the next hit does not")
    func cacheStatus() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            _ = try one.get("/a")
            #expect(try one.gave(1))
            #expect(try other.get("/a")["Cache-Status"]?.hasSuffix("; detail=other_node") == true)
            for node in [one, other] { #expect(try node.get("/a")["Cache-Status"]?.contains("detail") == false) }
        }
    }

    @Test("each variant is fetched from the upstream once for all nodes")
    func variants() throws {
        let origin = ScriptedOrigin { request in
            [.json("\"\(request["Accept-Language"] ?? "-")\"", ["Cache-Control: max-age=600", "Vary: Accept-Language"])]
        }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair()
            _ = try other.get("/else", [("Accept-Language", "de")])
            var given = 0.0
            for language in ["de", "en"] {
                #expect(try one.get("/a", [("Accept-Language", language)]).text == "\"\(language)\"")
                given += 1
                #expect(try one.gave(given))
                #expect(try other.get("/a", [("Accept-Language", language)]).text == "\"\(language)\"")
            }
            #expect(fleet.asked("/a") == 2)
            #expect(try other.get("/a", [("Accept-Language", "fr")]).text == "\"fr\"")
            #expect(try other.reaches("cistern_shared_offers_total{outcome=\"sent\"}", 2))
            #expect(try one.get("/a", [("Accept-Language", "fr")]).text == "\"fr\"")
            #expect(fleet.asked("/a") == 3)
        }
    }

    @Test("a user's responses are shared between nodes and never served to other users")
    func users() throws {
        let origin = ScriptedOrigin { request in [.json("\"\(request["X-API-Key"] ?? "nobody")\"", ["Cache-Control: max-age=600"])] }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair()
            #expect(try one.get("/me", [("X-API-Key", "alice")]).text == "\"alice\"")
            #expect(try one.gave(1))
            #expect(try other.get("/me", [("X-API-Key", "bob")]).text == "\"bob\"")
            #expect(try other.get("/me").text == "\"nobody\"")
            #expect(fleet.asked("/me") == 3)
            let alice = try other.get("/me", [("X-API-Key", "alice")])
            #expect(alice.text == "\"alice\"" && alice["Cache-Status"]?.contains("; hit") == true)
            #expect(fleet.asked("/me") == 3)
        }
    }

    @Test("a shared response that the upstream confirmed is shared again")
    func confirmed() throws {
        let origin = ScriptedOrigin { request in
            let fields = ["Cache-Control: max-age=1", "ETag: \"v\""]
            return request["If-None-Match"] == nil
                ? [.json("{}", fields)] : [.send("HTTP/1.1 304 Not Modified\r\n" + fields.joined(separator: "\r\n") + "\r\n\r\n")]
        }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair()
            _ = try one.get("/a")
            #expect(try one.gave(1))
            // The response becomes stale after a second.
            #expect(try eventually { try other.get("/a").status == 200 && fleet.asked("/a") == 2 })
            #expect(try other.gave(1))
        }
    }

    // MARK: Rejected records

    @Test("a record that is tampered with, truncated, swapped, or of another key or kind is rejected without failures")
    func tampered() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, _) = try fleet.pair()
            _ = try one.get("/a")
            #expect(try one.gave(1))
            let first = fleet.records
            _ = try one.get("/b")
            #expect(try one.gave(2))
            let (a, b) = (try #require(first.first), try #require(fleet.records.first { $0 != first.first }))
            let (good, swapped) = (fleet.redis.direct.value(of: a), fleet.redis.direct.value(of: b))
            var flipped = good
            flipped[good.count / 2] ^= 1
            let values: [[UInt8]] = [
                flipped, Array(good.dropLast()), good + [0], swapped, [], [1], [0] + good.dropFirst(),
                [UInt8](repeating: 1, count: 100_000),
            ]
            var asked = 2
            for value in values {
                #expect(fleet.redis.direct.ask([Array("SET".utf8), Array(a.utf8), value]).contains("OK"))
                let fresh = try fleet.join()
                #expect(try fresh.sees())
                asked += 1
                #expect(try fresh.get("/a").text == "{\"n\":\(asked)}")
                #expect(try fresh.refused("unreadable") == 1)
                #expect(try fresh.gave(1))
                fresh.play.stop()
            }
            // A value of another type, for which the engine returns an error.
            fleet.redis.direct.ask("DEL \(a)")
            fleet.redis.direct.ask("LPUSH \(a) x")
            let fresh = try fleet.join()
            #expect(try fresh.sees())
            #expect(try fresh.get("/a").text == "{\"n\":\(asked + 1)}")
            #expect(try fresh.gave(1))
            // The node's own record has replaced the value.
            let last = try fleet.join()
            #expect(try last.sees())
            #expect(try last.get("/a").text == "{\"n\":\(asked + 1)}")
        }
    }

    @Test("a node with another secret neither uses shared responses nor provides usable ones")
    func otherSecret() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = (try fleet.join(), try fleet.join(secret: String(repeating: "else", count: 8)))
            #expect(try one.sees())
            #expect(try other.reaches("cistern_share_blind{cause=\"other_secret\"}", 1))
            _ = try one.get("/a")
            #expect(try one.gave(1))
            #expect(try other.get("/a").text == "{\"n\":2}")
            #expect(try other.reaches("cistern_shared_offers_total{outcome=\"unplaced\"}", 1))
            let third = try fleet.join()
            #expect(try third.sees())
            #expect(try third.get("/a").text == "{\"n\":1}")
        }
    }

    @Test("during secret rotation, nodes with either order of secrets find each other's records")
    func rotation() throws {
        let (old, new) = (String(repeating: "old!", count: 8), String(repeating: "new!", count: 8))
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let before = try fleet.join(secret: "\(old)\n\(new)")
            let after = try fleet.join(secret: "\(new)\n\(old)")
            #expect(try before.sees() && after.sees())
            let alice = [("X-API-Key", "alice")]
            _ = try before.get("/a", alice)
            #expect(try before.gave(1))
            #expect(try after.get("/a", alice).text == "{\"n\":1}")
            _ = try after.get("/b", alice)
            #expect(try after.gave(1))
            #expect(try before.get("/b", alice).text == "{\"n\":2}")
            // Purges are applied as well.
            let applied = try before.applied
            _ = try after.purge("target=/b")
            #expect(try before.comes(to: "{\"n\":3}", "/b", alice))
            #expect(try before.applied > applied)
            #expect(try before.metric("cistern_share_log_entries_unopened_total") == 0)
        }
    }

    @Test("two fleets on one Redis server do not affect each other")
    func twoFleets() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = (try fleet.join(), try fleet.join(name: "else"))
            #expect(try one.sees() && other.sees())
            _ = try one.get("/a")
            #expect(try one.gave(1))
            #expect(try other.get("/a").text == "{\"n\":2}")
            _ = try one.purge("all=true")
            _ = try other.purge("target=/none")
            #expect(try other.get("/a").text == "{\"n\":2}")
            #expect(try other.applied == 0 && one.applied == 0)
        }
    }

    @Test("a node with a wrong password works alone and reports the reason")
    func wrongPassword() throws {
        try FleetPlay.run(FleetPlay.numbered(), redis: ["--requirepass", "right"]) { fleet in
            let alone = try fleet.join({ $0.engine.passwordFile = TestTools.file("wrong") })
            let well = try fleet.join({ $0.engine.passwordFile = TestTools.file("right") })
            #expect(try well.sees())
            #expect(try alone.get("/a").text == "{\"n\":1}" && alone.get("/a").text == "{\"n\":1}")
            #expect(try eventually { try alone.play.admin("GET", "/-/share").text.contains("\"denied\"") })
            #expect(try alone.metric("cistern_share_seeing") == 0)
            let answer = try alone.purge("target=/a")
            #expect(answer.status == 202 && answer.text.contains("not_reached"))
            #expect(try alone.get("/a").text == "{\"n\":2}")
            #expect(try well.get("/a").text == "{\"n\":3}")
        }
    }

    // MARK: Without the engine

    @Test("an unresponsive Redis server costs only the lookup timeout and no response, and is used again after recovery", .slow)
    func frozen() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair { $0.timeout = 50 }
            _ = try one.get("/a")
            #expect(try one.gave(1))
            fleet.redis.freeze()
            #expect(try other.get("/a").text == "{\"n\":2}")
            #expect(try other.metric("cistern_shared_lookups_total{outcome=\"late\"}") == 1)
            for number in 3..<20 { #expect(try other.get("/\(number)").text == "{\"n\":\(number)}") }
            #expect(try other.isDisconnected())
            // The breaker is open: no look-ups are made.
            let looked = try other.metric("cistern_shared_lookups_total{outcome=\"late\"}")
            for number in 20..<30 { #expect(try other.get("/\(number)").text == "{\"n\":\(number)}") }
            #expect(try other.metric("cistern_shared_lookups_total{outcome=\"late\"}") == looked)
            fleet.redis.thaw()
            #expect(try one.sees() && other.sees())
            _ = try one.get("/again")
            #expect(try one.gave(2))
            #expect(try eventually { try other.metric("cistern_share_servers{state=\"failing\"}") == 0 })
            #expect(try other.get("/again").text == "{\"n\":30}")
        }
    }

    @Test("a request that joins an abandoned lookup does not wait for it")
    func joinedLate() throws {
        try FleetPlay.run(FleetPlay.numbered(["Cache-Control: max-age=0"])) { fleet in
            let (one, _) = try fleet.pair { settings in
                settings.timeout = 20
                settings.engine.limits = SharedLeaseTests.patientLimits
            }
            fleet.redis.freeze()
            defer { fleet.redis.thaw() }
            let clients = try (0..<5).map { _ in try one.play.client() }
            for client in clients { #expect(client.get("/a")?.status == 200) }
            #expect(try one.metric("cistern_shared_lookups_total{outcome=\"late\"}") == 5)
        }
    }
}
