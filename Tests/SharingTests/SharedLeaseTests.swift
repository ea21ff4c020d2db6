// Tests of leases: which node asks the upstream when several miss a target, and which nodes wait for it.

import Engine
import Fleet
import Glibc
import Reactor
import ReverseProxy
import Sharing
import TestSupport
import Testing
import Upstream

@Suite(
    "Sharing: collapsing requests across nodes", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct SharedLeaseTests {
    @Test(
        "concurrent misses of one target at two nodes cause one upstream request; a node that does not collapse requests waits for others",
        arguments: [(1, 20, true), (3, 20, true), (1, 1, false)])
    func crowd(shards: Int, size: Int, collapses: Bool) throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.open(asked), .pass(gate), .json("{\"crowd\":1}", ["Cache-Control: max-age=600"])] }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair(proxy: {
                ($0.collapsing.wait, $0.collapsing.isOn, $0.shards) = (60_000, collapses, shards)
            })
            func crowd(_ node: FleetMember) throws -> [TestClient] {
                let clients = try (0..<size).map { _ in try node.play.client() }
                for client in clients { client.send("GET /cold HTTP/1.1\r\nHost: a\r\n\r\n") }
                return clients
            }
            var clients = try crowd(one)
            asked.pass()
            let before = try other.replies
            clients += try crowd(other)
            // The other node has looked up the record and the lease twice.
            #expect(try eventually { try other.replies >= before + 4 })
            gate.open()
            for client in clients { #expect(client.readResponse()?.text == "{\"crowd\":1}") }
            #expect(fleet.asked("/cold") == 1)
            #expect(try other.explains("Another node fetched this response; it arrived after "))
            #expect(try !one.explains("Another node"))
            #expect((1...Double(shards)).contains(try other.metric("cistern_shared_leases_total{outcome=\"followed\"}")))
            #expect(try one.metric("cistern_shared_leases_total{outcome=\"won\"}") == 1)
            // The lease is released, on whichever shard it was taken and used.
            #expect(try eventually { fleet.redis.direct.ask("KEYS cistern:play:*:l").hasPrefix("*0") && fleet.calls(of: "unlink") > 0 })
        }
    }

    @Test("a lease is released only after its record was stored, whichever shards hold the lease and store the response")
    func severalShards() throws {
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair(proxy: { ($0.collapsing.wait, $0.shards) = (60_000, 3) })
            func fetches() throws -> [Double] { try [one, other].map { try $0.metric("cistern_upstream_requests_total") } }
            for number in 0..<20 {
                let before = try fetches()
                let clients = try (0..<12).map { try [one, other][$0 % 2].play.client() }
                for client in clients { client.send("GET /\(number) HTTP/1.1\r\nHost: a\r\n\r\n") }
                for client in clients { #expect(client.readResponse()?.status == 200) }
                // A node may fetch twice: the lookup of a request may precede the end of a fetch, and its join may follow it.
                #expect(try zip(before, fetches()).filter { $0 != $1 }.count == 1, "one node fetches")
            }
        }
    }

    @Test(
        "the head of an unshareable or failed response immediately releases all waiting clients on all nodes",
        arguments: ["200 OK", "503 Service Unavailable"])
    func freed(status: String) throws {
        let gates = (0..<3).map { _ in Gate() }
        let head = "HTTP/1.1 \(status)\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nContent-Length: 2\r\n\r\n"
        let origin = ScriptedOrigin { _ in [.open(gates[0]), .pass(gates[1]), .send(head), .pass(gates[2]), .send("{}")] }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair(proxy: { $0.collapsing.wait = 60_000 })
            func send(_ node: FleetMember) throws -> TestClient {
                return try node.play.client(getting: "/a")
            }
            var clients = [try send(one)]
            gates[0].pass()
            let before = try other.replies
            clients += [try send(one), try send(other), try send(other)]
            #expect(try one.reaches("cistern_collapsed_waiting", 1) && eventually { try other.replies >= before + 4 })
            gates[1].open()
            // Before the first response is complete.
            #expect(try eventually { fleet.asked("/a") == 4 })
            // The target is now known to be unshareable.
            clients += [try send(other), try send(one), try send(other)]
            #expect(try eventually { fleet.asked("/a") == 7 })
            gates[2].open()
            for client in clients { #expect(client.readResponse()?.text == "{}") }
        }
    }

    @Test(
        "clients of other nodes wait for an oversized response only until its length is known",
        arguments: [true, false])
    func lengthKnown(inHead: Bool) throws {
        let (asked, gate) = (Gate(), Gate())
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=600\r\n"
        let start = inHead ? "Content-Length: 7\r\n\r\n" : "Transfer-Encoding: chunked\r\n\r\n5\r\n[1234\r\n"
        let end = inHead ? "[12345]" : "2\r\n5]\r\n0\r\n\r\n"
        let origin = ScriptedOrigin { _ in [.send(head + start), .open(asked), .pass(gate), .send(end)] }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair({ $0.contentLimitBytes = 4 }, proxy: { $0.collapsing.wait = 60_000 })
            let clients = try [one, one, other, other].map { node in
                let client = try node.play.client(getting: "/a")
                asked.pass()
                return client
            }
            #expect(try eventually { fleet.asked("/a") == 2 })
            // Requests within each node share a fetch as usual.
            #expect(try one.reaches("cistern_collapsed_waiting", 1) && other.reaches("cistern_collapsed_waiting", 1))
            gate.open()
            for client in clients { #expect(client.readResponse()?.text == "[12345]") }
            #expect(fleet.asked("/a") == 2)
        }
    }

    @Test("a follower that disconnects does not release its node's lease")
    func followerLeft() throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.open(asked), .pass(gate), .json("{}", ["Cache-Control: max-age=600"])] }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair(proxy: { $0.collapsing.wait = 60_000 })
            let leader = try one.play.client(getting: "/a")
            asked.pass()
            var leaver: TestClient? = try one.play.client()
            leaver?.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try one.reaches("cistern_collapsed_waiting", 1))
            leaver?.endsWithReset()
            leaver = nil
            #expect(try one.play.waitFor("cistern_collapsed_waiting", 0))
            let before = try other.replies
            let waiter = try other.play.client(getting: "/a")
            #expect(try eventually { try other.replies >= before + 8 })
            gate.open()
            for client in [leader, waiter] { #expect(client.readResponse()?.text == "{}") }
            #expect(fleet.asked("/a") == 1)
        }
    }

    @Test("a waiting node uses the other node's variant even if it learns about Vary only then")
    func waitedForVariant() throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { request in
            let language = request["Accept-Language"] ?? "-"
            let response = OriginStep.json("\"\(language)\"", ["Cache-Control: max-age=600", "Vary: Accept-Language"])
            return language == "en" ? [.open(asked), .pass(gate), response] : [response]
        }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair(proxy: { $0.collapsing.wait = 60_000 })
            _ = try one.get("/a", [("Accept-Language", "de")])
            #expect(try one.gave(1))
            let (leader, waiter) = (try one.play.client(), try other.play.client())
            leader.send("GET /a HTTP/1.1\r\nHost: a\r\nAccept-Language: en\r\n\r\n")
            asked.pass()
            let before = try other.replies
            waiter.send("GET /a HTTP/1.1\r\nHost: a\r\nAccept-Language: en\r\n\r\n")
            // Look-ups of the marker and the lease, then of the variant, then of the marker and the lease again.
            #expect(try eventually { try other.replies >= before + 5 })
            gate.open()
            for client in [leader, waiter] { #expect(client.readResponse()?.text == "\"en\"") }
            #expect(fleet.asked("/a") == 2)
            #expect(try other.metric("cistern_shared_leases_total{outcome=\"followed\"}") == 1)
        }
    }

    @Test("a request with a stored response waits for another node no longer than for the upstream")
    func copyBehindLease() throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.json("{\"n\":1}", ["Cache-Control: max-age=0"])] }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair(proxy: { ($0.collapsing.wait, $0.otherRoute.rescueAfter) = (60_000, 300) })
            for node in [one, other] { _ = try node.get("/a") }
            #expect(try one.gave(1) && other.gave(1))
            for key in fleet.records { _ = fleet.redis.direct.ask("DEL \(key)") }
            origin.react { _ in [.open(asked), .pass(gate), .json("{\"n\":2}")] }
            let leader = try one.play.client(getting: "/a")
            asked.pass()
            let rescued = try other.get("/a")
            #expect(rescued.text == "{\"n\":1}" && rescued["Cache-Status"]?.hasSuffix("detail=slow") == true, "\(rescued)")
            #expect(try other.metric("cistern_shared_leases_total{outcome=\"waited_in_vain\"}") == 1)
            #expect(leader.readResponse()?.text == "{\"n\":1}")
            gate.open()
        }
    }

    @Test("the stored response of a failing key is served at once although another node is fetching it")
    func knownToFail() throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.json("{\"n\":1}", ["Cache-Control: max-age=0"])] }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair(proxy: {
                ($0.collapsing.wait, $0.otherRoute.rescueAfter) = (60_000, 0)
                $0.upstream.failure.recheck = 3_600_000
            })
            for node in [one, other] { _ = try node.get("/a") }
            #expect(try one.gave(1) && other.gave(1))
            for key in fleet.records { _ = fleet.redis.direct.ask("DEL \(key)") }
            origin.react { _ in [.close] }
            for _ in 0..<2 { #expect(try other.get("/a").text == "{\"n\":1}") }
            #expect(try eventually { fleet.redis.direct.ask("KEYS cistern:play:*:l").hasPrefix("*0") })
            origin.react { _ in [.open(asked), .pass(gate), .json("{\"n\":2}")] }
            let leader = try one.play.client(getting: "/a")
            asked.pass()
            // A waiting client would wait for a minute.
            #expect(try other.get("/a").text == "{\"n\":1}")
            #expect(try other.metric("cistern_shared_leases_total{outcome=\"waited_in_vain\"}") == 0)
            gate.open()
            #expect(leader.readResponse()?.text == "{\"n\":2}")
        }
    }

    @Test(
        "a request whose response cannot be shared takes no lease and waits for none",
        arguments: [("HEAD", ""), ("GET", "Cache-Control: no-store\r\n")])
    func useless(method: String, field: String) throws {
        let gates = [Gate(), Gate()]
        let (asked, gate) = (Gate(), Gate())
        let turn = Mutex(0)
        // The first two responses are delayed.
        let origin = ScriptedOrigin { _ in
            let number = turn.withLock { turn in
                turn += 1
                return turn
            }
            let response = OriginStep.json("{\"n\":\(number)}", ["Cache-Control: max-age=600"])
            return number <= 2 ? [.open(number == 1 ? gates[0] : asked), .pass(number == 1 ? gates[1] : gate), response] : [response]
        }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair(proxy: { $0.collapsing.wait = 60_000 })
            let useless = "\(method) /a HTTP/1.1\r\nHost: a\r\n\(field)\r\n"
            let client = try one.play.client()
            client.send(useless)
            gates[0].pass()
            #expect(fleet.redis.direct.ask("KEYS cistern:play:*:l").hasPrefix("*0"))
            let leader = try other.play.client(getting: "/a")
            asked.pass()
            #expect(fleet.redis.direct.ask("KEYS cistern:play:*:l").hasPrefix("*1"))
            let third = try one.play.client()
            third.send(useless)
            #expect(try eventually { turn.withLock { $0 } == 3 })
            gates[1].open()
            gate.open()
            #expect(leader.readResponse()?.text == "{\"n\":2}")
        }
    }

    @Test("requests do not wait for a response that could not be shared")
    func unshareable() throws {
        try FleetPlay.run(FleetPlay.numbered(["Cache-Control: no-store"])) { fleet in
            let (one, other) = try fleet.pair()
            for round in 1...3 {
                #expect(try one.get("/a").text == "{\"n\":\(2 * round - 1)}")
                // The first look-up of either node leaves a mark, which tells the other node.
                #expect(try round > 1 || eventually { !fleet.redis.direct.ask("KEYS cistern:play:*:l").hasPrefix("*0") })
                #expect(try other.get("/a").text == "{\"n\":\(2 * round)}")
            }
            for node in [one, other] {
                #expect(try node.metric("cistern_shared_leases_total{outcome=\"waited_in_vain\"}") == 0)
            }
            #expect(fleet.records.isEmpty)
        }
    }

    @Test("a response that is too long to share does not delay other nodes")
    func tooLong() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair { $0.contentLimitBytes = 3 }
            #expect(try one.get("/a").text == "{\"n\":1}")
            let lease = "KEYS cistern:play:*:l"
            #expect(try eventually { !fleet.redis.direct.ask(lease).hasPrefix("*0") && fleet.calls(of: "unlink") == 0 })
            #expect(try other.get("/a").text == "{\"n\":2}")
            #expect(try other.metric("cistern_shared_leases_total{outcome=\"alone\"}") == 1)
            #expect(fleet.records.isEmpty)
        }
    }

    @Test("a client that disconnects while it waits for another node leaks nothing, and the other clients continue")
    func left() throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.open(asked), .pass(gate), .json("{}", ["Cache-Control: max-age=600"])] }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair(proxy: { $0.collapsing.wait = 60_000 })
            let before = try other.replies
            let leader = try one.play.client(getting: "/cold")
            asked.pass()
            var leaver: TestClient? = try other.play.client()
            leaver?.send("GET /cold HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try eventually { try other.replies >= before + 2 })
            leaver?.endsWithReset()
            leaver = nil
            #expect(try other.reaches("cistern_requests_total{result=\"error\",method=\"GET\",status_class=\"4xx\"}", 1))
            let stayer = try other.play.client(getting: "/cold")
            gate.open()
            #expect(leader.readResponse()?.status == 200 && stayer.readResponse()?.status == 200)
            #expect(fleet.asked("/cold") == 1)
        }
    }

    @Test(
        "a value that is no lease, or has no expiry or a late one, delays no request",
        arguments: [("somebody", ""), ("", ""), ("0123456789abcdef", ""), ("0123456789abcdef", "600000")])
    func foreign(value: String, expiry: String) throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let node = try fleet.join(proxy: { $0.collapsing.wait = 5_000 })
            #expect(try node.sees())
            #expect(try node.get("/a").text == "{\"n\":1}" && node.gave(1))
            let record = try #require(fleet.records.first)
            let words = ["SET", record + ":l", value] + (expiry.isEmpty ? [] : ["PX", expiry])
            #expect(fleet.redis.direct.ask(words.map { Array($0.utf8) }).hasPrefix("+OK"))
            _ = try node.purge("prefix=/a")
            #expect(try node.get("/a").text == "{\"n\":2}")
            #expect(try node.metric("cistern_shared_leases_total{outcome=\"waited_in_vain\"}") == 0)
        }
    }

    @Test("without the right to read expiries, a node waits for the leases of others")
    func expiryForbidden() throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.open(asked), .pass(gate), .json("{}", ["Cache-Control: max-age=600"])] }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair(proxy: { $0.collapsing.wait = 60_000 })
            fleet.redis.direct.ask("ACL SETUSER default -pttl")
            let leader = try one.play.client(getting: "/cold")
            asked.pass()
            let before = try other.replies
            let waiter = try other.play.client(getting: "/cold")
            #expect(try eventually { try other.replies >= before + 8 })
            gate.open()
            for client in [leader, waiter] { #expect(client.readResponse()?.status == 200) }
            #expect(fleet.asked("/cold") == 1)
            #expect(try other.metric("cistern_share_engine_failures_total{reason=\"command_forbidden\"}") <= 1)
        }
    }

    @Test("a lease is renewed while the upstream request is running, and not afterwards", .slow)
    func renewed() throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.open(asked), .pass(gate), .json("{}", ["Cache-Control: max-age=600"])] }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair(proxy: { $0.collapsing.wait = 60_000 })
            let leader = try one.play.client(getting: "/cold")
            asked.pass()
            let lease = fleet.redis.direct.ask("KEYS cistern:play:*:l").split(separator: "\r\n").last.map(String.init) ?? ""
            let waiter = try other.play.client(getting: "/cold")
            // The lease is renewed at least twice within its lifetime.
            var (renewals, last) = (0, Int64(0))
            let isKept = try eventually {
                let left = Int64(fleet.redis.direct.ask("PTTL \(lease)").dropFirst().prefix { $0.isNumber }) ?? .max
                #expect(left <= LeaseTimes.expiry || left == .max)
                if left > last { renewals += 1 }
                last = left
                return renewals >= 6
            }
            #expect(isKept)
            gate.open()
            #expect(leader.readResponse()?.status == 200 && waiter.readResponse()?.status == 200)
            #expect(fleet.asked("/cold") == 1)
            #expect(try eventually { fleet.redis.direct.ask("KEYS cistern:play:*:l").hasPrefix("*0") })
        }
    }

    @Test("a client that disconnects during its lookup releases its lease, so the next node does not wait")
    func leftWithLease() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair({ $0.engine.limits = Self.patientLimits }, proxy: { $0.collapsing.wait = 60_000 })
            let before = fleet.calls(of: "unlink")
            var leaver: TestClient? = try one.play.client()
            #expect(leaver?.get("/healthz")?.status == 200)
            fleet.redis.freeze()
            leaver?.send("GET /cold HTTP/1.1\r\nHost: a\r\n\r\n")
            // The request has been read by then.
            for _ in 0..<3 { _ = try one.get("/healthz") }
            leaver?.endsWithReset()
            leaver = nil
            #expect(try one.reaches("cistern_requests_total{result=\"error\",method=\"GET\",status_class=\"4xx\"}", 1))
            fleet.redis.thaw()
            #expect(try eventually { fleet.calls(of: "unlink") == before + 1 })
            #expect(try other.get("/cold").text == "{\"n\":1}")
        }
    }

    /// Limits that never open a breaker, because the test controls all waiting.
    static var patientLimits: EngineLimits {
        var limits = EngineLimits()
        (limits.silenceMilliseconds, limits.deadMilliseconds, limits.failures) = (60_000, 60_000, 1_000)
        return limits
    }

    @Test("a node stops although clients wait for another node's response")
    func stopped() throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { _ in [.open(asked), .pass(gate), .json("{}", ["Cache-Control: max-age=600"])] }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair(proxy: { $0.collapsing.wait = 60_000 })
            let before = try other.replies
            let leader = try one.play.client(getting: "/cold")
            asked.pass()
            let waiter = try other.play.client(getting: "/cold")
            #expect(try eventually { try other.replies >= before + 2 })
            other.play.stop()
            #expect(waiter.isClosedByServer())
            gate.open()
            #expect(leader.readResponse()?.status == 200)
        }
    }
}
