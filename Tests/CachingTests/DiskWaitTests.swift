// Tests of stored responses that are not in memory: a worker thread reads them while the event loop continues. Changes that happen during
// the read take effect.

import Administration
import CSystem
import CacheStore
import ContentCodings
import Glibc
import HTTPCore
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Stored responses that are not in memory", .play, .clientProtocols)
struct DiskWaitTests {
    private func play(_ residency: ScriptedResidency, _ fields: [String] = ["Cache-Control: max-age=60", "ETag: \"1\""]) throws -> ProxyPlay
    {
        let origin = ScriptedOrigin { request in [.json("{\"path\":\"\(request.target)\"}", fields)] }
        return try ProxyPlay(origin) { $0.store?.residency = residency }
    }

    /// Stores a response, writes it to the disk and removes it from memory.
    private func storeAway(_ target: String, _ play: ProxyPlay, _ residency: ScriptedResidency, until gate: Gate? = nil) throws {
        #expect(try play.get(target).status == 200)
        play.flushStore()
        residency.takeAway(until: gate)
    }

    /// A client that waits for the disk until the gate opens.
    private func clientWaiting() throws -> (play: ProxyPlay, client: TestClient, gate: Gate) {
        let residency = ScriptedResidency()
        let play = try play(residency)
        let gate = Gate()
        try storeAway("/a", play, residency, until: gate)
        let client = try play.client(getting: "/a")
        #expect(try play.waitFor("cistern_store_disk_reads_total", 1))
        return (play, client, gate)
    }

    @Test(
        "a hit whose response is on disk waits for the read and counts as a hit",
        arguments: [
            ("GET", [], 200, "{\"path\":\"/a\"}"), ("HEAD", [], 200, ""), ("GET", [("If-None-Match", "\"1\"")], 304, ""),
            ("GET", [("Range", "bytes=2-5")], 206, "path"),
        ] as [(String, [(String, String)], Int, String)])
    func hit(method: String, fields: [(String, String)], status: Int, content: String) throws {
        let residency = ScriptedResidency()
        let play = try play(residency)
        try storeAway("/a", play, residency)
        let response = try play.request(method, "/a", fields)
        #expect(response.status == status && response.text == content)
        #expect(response["Cache-Status"]?.contains("hit") == true)
        #expect(play.origin.requests.count == 1)
        #expect(residency.reads > 0)
        #expect(try play.metric("cistern_store_disk_reads_total") == 1)
    }

    @Test("other clients are served while one request waits for the disk")
    func others() throws {
        let (play, waiting, gate) = try clientWaiting()
        #expect(try play.get("/b").text == "{\"path\":\"/b\"}")
        gate.open()
        #expect(waiting.readResponse()?.text == "{\"path\":\"/a\"}")
    }

    @Test("a variant is found through its marker when both are on disk")
    func variant() throws {
        let residency = ScriptedResidency()
        let play = try play(residency, ["Cache-Control: max-age=60", "Vary: X-Kind"])
        #expect(try play.get("/a", [("X-Kind", "1")]).status == 200)
        play.flushStore()
        residency.takeAway()
        let response = try play.get("/a", [("X-Kind", "1")])
        #expect(response["Cache-Status"]?.contains("hit") == true && play.origin.requests.count == 1)
        #expect(try play.metric("cistern_store_disk_reads_total") == 2)
    }

    @Test("a stored response on disk rescues, also if it was evicted from memory during the fetch", arguments: [true, false])
    func rescue(whileAsking: Bool) throws {
        let residency = ScriptedResidency()
        let play = try play(residency, ["Cache-Control: max-age=1"])
        #expect(try play.get("/a").status == 200)
        play.flushStore()
        play.time.advance(by: .seconds(5))
        let gate = Gate()
        play.origin.react { _ in [.pass(gate), .json("{}", status: "500 Internal Server Error")] }
        if !whileAsking { residency.takeAway() }
        let client = try play.client(getting: "/a")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        if whileAsking { residency.takeAway() }
        gate.open()
        let response = try #require(client.readResponse())
        #expect(response.status == 200 && response.text == "{\"path\":\"/a\"}")
        #expect(residency.reads > 0)
        #expect(try play.metric("cistern_requests_total{result=\"rescued\",method=\"GET\",status_class=\"2xx\"}") == 1)
    }

    @Test("a confirmed response evicted from memory during validation is served now and on the next request")
    func validation() throws {
        let residency = ScriptedResidency()
        let play = try play(residency, ["Cache-Control: max-age=1", "ETag: \"1\""])
        #expect(try play.get("/a").status == 200)
        play.flushStore()
        play.time.advance(by: .seconds(5))
        let gate = Gate()
        play.origin.react { _ in [.pass(gate), .send("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nCache-Control: max-age=60\r\n\r\n")] }
        let client = try play.client(getting: "/a")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        residency.takeAway()
        gate.open()
        #expect(client.readResponse()?.text == "{\"path\":\"/a\"}")
        play.flushStore()
        let again = try play.get("/a")
        #expect(again.text == "{\"path\":\"/a\"}" && again["Cache-Status"]?.contains("hit") == true)
        #expect(play.origin.requests.count == 2)
    }

    @Test("followers of one fetch receive its response, in memory or on disk")
    func followers() throws {
        let residency = ScriptedResidency()
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.pass(gate), .json("1", ["Cache-Control: max-age=60"])] }
        let play = try ProxyPlay(origin) { $0.store?.residency = residency }
        residency.takeAway()
        let clients = try (0..<20).map { _ in
            return try play.client(getting: "/a")
        }
        #expect(try play.waitFor("cistern_collapsed_waiting", 19))
        gate.open()
        for client in clients { #expect(client.readResponse()?.text == "1") }
        #expect(origin.requests.count == 1)
    }

    @Test("followers whose response is only on disk receive it from there")
    func followersFromDisk() throws {
        let residency = ScriptedResidency()
        let play = try play(residency, ["ETag: \"1\""])
        #expect(try play.get("/a").status == 200)
        play.flushStore()
        play.time.advance(by: .seconds(1))
        let gate = Gate()
        // The 304 changes nothing, so nothing is written: the followers' response is on the disk only.
        play.origin.react { _ in [.pass(gate), .send("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n")] }
        let clients = try (0..<5).map { _ in
            return try play.client(getting: "/a")
        }
        #expect(try play.waitFor("cistern_collapsed_waiting", 4))
        residency.takeAway(isForgetful: true)
        gate.open()
        for client in clients { #expect(client.readResponse()?.text == "{\"path\":\"/a\"}") }
        #expect(play.origin.requests.count == 2)
        // Each client looks until it is allowed to wait for the disk.
        #expect(residency.reads >= 5 * 8)
        let why = String(decoding: try play.admin("GET", "/-/why?path=/a&last=5").content, as: UTF8.self)
        #expect(why.contains("it was read from the disk") && why.contains("served_response_of_another_request"))
    }

    @Test("every response is served although memory is too short to keep any", .slow, arguments: [[], ["gzip"]])
    func shortOfMemory(codings: [String]) throws {
        let residency = ScriptedResidency()
        let long = "[" + (0..<60_000).map { "\($0)" }.joined(separator: ",") + "]"
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(long, ["Cache-Control: max-age=60"])] }) { settings in
            settings.store?.residency = residency
            settings.content.compressFromBytes = 1
        }
        #expect(try play.get("/a").status == 200)
        play.flushStore()
        residency.takeAway(isForgetful: true)
        let response = try play.get("/a", codings.map { ("Accept-Encoding", $0) })
        #expect(response["Cache-Status"]?.contains("hit") == true)
        #expect((response["Content-Encoding"] == "gzip") == (codings == ["gzip"]))
        let content =
            codings.isEmpty ? response.content : try ContentDecoder.decode(response.content, .gzip, limit: long.utf8.count)
        #expect(content == Array(long.utf8))
    }

    @Test("disk reads are explained only for requests that needed one")
    func explained() throws {
        let residency = ScriptedResidency()
        let origin = ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=60"])] }
        let play = try ProxyPlay(origin) { settings in
            settings.store?.residency = residency
            settings.ownFields.allowsWhy = true
        }
        try storeAway("/a", play, residency)
        #expect(try play.get("/a", [("Cistern-Why", "?1")])["Cistern-Why"]?.contains("; disk-reads=1;") == true)
        for _ in 0..<4 { #expect(try play.get("/a")["Cache-Status"]?.contains("hit") == true) }
        let why = try #require(JSONValue(play.admin("GET", "/-/why?path=/a&last=6").content)?["exchanges"]?.array)
        #expect(why.map { $0["disk_reads"]?.integer } == [0, 0, 0, 0, 1, 0])
    }

    @Test("disk reads in progress are reported as a gauge")
    func waiting() throws {
        let (play, client, gate) = try clientWaiting()
        #expect(try play.waitFor("cistern_store_disk_reads_waiting", 1))
        gate.open()
        #expect(client.readResponse()?.status == 200)
        #expect(try play.waitFor("cistern_store_disk_reads_waiting", 0))
    }

    @Test("a client that disconnects during a disk read is counted and affects no other request")
    func leaves() throws {
        let residency = ScriptedResidency()
        let play = try play(residency)
        let gate = Gate()
        try storeAway("/a", play, residency, until: gate)
        do {
            let client = try play.client()
            client.endsWithReset()
            client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try play.waitFor("cistern_store_disk_reads_total", 1))
        }
        #expect(try play.waitFor("cistern_requests_total{result=\"error\",method=\"GET\",status_class=\"4xx\"}", 1))
        gate.open()
        #expect(try play.get("/a")["Cache-Status"]?.contains("hit") == true)
        #expect(play.origin.requests.count == 1)
    }

    @Test("a response purged while it is read from disk is not served")
    func purged() throws {
        let (play, client, gate) = try clientWaiting()
        #expect(try play.admin("POST", "/-/purge?target=/a").status == 200)
        gate.open()
        #expect(client.readResponse()?["Cache-Status"]?.contains("fwd=uri-miss") == true)
        #expect(play.origin.requests.count == 2)
    }

    @Test("a damaged stored response is detected, and the upstream is asked")
    func damaged() throws {
        let (play, client, gate) = try clientWaiting()
        let file = csystem_open(play.directory + "/segment-0000000000000001", O_RDWR, 0)
        #expect(pwrite(file, [UInt8](repeating: 0, count: 4_096), 4_096, 0) == 4_096)
        close(file)
        gate.open()
        #expect(client.readResponse()?.text == "{\"path\":\"/a\"}")
        #expect(play.origin.requests.count == 2)
        #expect(try play.metric("cistern_store_removals_total{cause=\"damaged\"}") == 1)
    }

    @Test("a client disconnect or shutdown while the gone record is read from disk is harmless", arguments: [true, false])
    func leavesInOutage(clientLeaves: Bool) throws {
        let residency = ScriptedResidency()
        let play = try play(residency, ["ETag: \"1\""])
        #expect(try play.get("/a").status == 200)
        play.origin.react { _ in [.json("{}", status: "404 Not Found")] }
        #expect(try play.get("/a").status == 404)
        play.flushStore()
        let gate = Gate()
        let asked = Gate()
        play.origin.react { _ in [.pass(asked), .json("{}", status: "500 Internal Server Error")] }
        do {
            let client = try play.client()
            client.endsWithReset()
            client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try play.waitFor("cistern_upstream_active_requests", 1))
            residency.takeAway(until: gate)
            asked.open()
            #expect(try play.waitFor("cistern_store_disk_reads_waiting", 1))
            if !clientLeaves {
                play.stop()
                #expect(client.isClosedByServer())
            }
        }
        if clientLeaves {
            #expect(try play.waitFor("cistern_requests_total{result=\"error\",method=\"GET\",status_class=\"4xx\"}", 1))
        }
        gate.open()
        if !clientLeaves { try play.start() }
        play.origin.down()
        #expect(try play.get("/a").status == 404)
    }

    @Test("shutdown does not wait for a disk that does not respond")
    func end() throws {
        let (play, client, gate) = try clientWaiting()
        play.stop()
        #expect(client.isClosedByServer())
        gate.open()
    }
}
