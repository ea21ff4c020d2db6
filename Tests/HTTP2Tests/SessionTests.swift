// Tests of client and server sessions. Without sockets.

import HTTP2
import Testing

@Suite("HTTP/2 sessions")
struct SessionTests {
    @Test("a request and its response arrive unchanged, both with content and trailers")
    func exchange() throws {
        let pair = try SessionPair()
        let stream = try #require(pair.client.session.submitRequest(SessionPair.request("/a", [("X-Case", "Kept")]), hasContent: true))
        pair.client.content[stream] = [UInt8](repeating: 1, count: 100_000)
        pair.client.trailers[stream] = SessionPair.list([("x-sum", "1")])
        pair.server.onHead = { stream in
            pair.server.session.submitInformational(SessionPair.list([(":status", "103")]), on: stream)
            pair.server.session.submitResponse(SessionPair.list([(":status", "200")]), hasContent: true, on: stream)
        }
        pair.server.content[stream] = [UInt8](repeating: 2, count: 200_000)
        pair.server.trailers[stream] = SessionPair.list([("x-sum", "2")])
        pair.exchange()
        #expect(
            pair.server.takeEvents() == [
                "head 1 :method=GET :scheme=http :authority=a :path=/a x-case=Kept", "trailers 1 x-sum=1 end", "end 1", "closed 1 NO_ERROR",
            ])
        #expect(
            pair.client.takeEvents() == [
                "head 1 :status=103", "head 1 :status=200", "trailers 1 x-sum=2 end", "end 1", "closed 1 NO_ERROR",
            ])
        #expect(pair.server.received[stream] == [UInt8](repeating: 1, count: 100_000))
        #expect(pair.client.received[stream] == [UInt8](repeating: 2, count: 200_000))
    }

    @Test("a response without content ends with its head, also with small output buffers")
    func withoutContent() throws {
        let pair = try SessionPair()
        pair.server.onHead = {
            pair.server.session.submitResponse(
                SessionPair.list([(":status", "204"), ("x-long", String(repeating: "x", count: 20_000))]), hasContent: false, on: $0)
        }
        _ = pair.client.session.submitRequest(SessionPair.request("/"), hasContent: false)
        pair.exchange(room: 100)
        let events = pair.client.takeEvents()
        #expect(events.first?.hasPrefix("head 1 :status=204 x-long=xxx") == true && events.first?.hasSuffix(" end") == true)
        #expect(events.last == "closed 1 NO_ERROR")
    }

    @Test("a head longer than 64 KiB is sent, and the stream of one that cannot be sent is reset", arguments: [100_000, 300_000])
    func longHead(bytes: Int) throws {
        let pair = try SessionPair()
        let lines = [(":status", "200")] + (0..<10).map { ("x-\($0)", String(repeating: "x", count: bytes / 10)) }
        pair.server.onHead = { pair.server.session.submitResponse(SessionPair.list(lines), hasContent: false, on: $0) }
        _ = pair.client.session.submitRequest(SessionPair.request("/"), hasContent: false)
        pair.exchange()
        let events = pair.client.takeEvents()
        if bytes == 100_000 {
            #expect(events.first?.hasPrefix("head 1 :status=200 x-0=xxx") == true && events.last == "closed 1 NO_ERROR")
        } else {
            #expect(events == ["was reset 1 INTERNAL_ERROR", "closed 1 INTERNAL_ERROR"])
        }
    }

    @Test("unconsumed content stops the sender at the window, and consuming it resumes")
    func windows() throws {
        let pair = try SessionPair()
        pair.client.consumes = false
        pair.server.onHead = { pair.server.session.submitResponse(SessionPair.list([(":status", "200")]), hasContent: true, on: $0) }
        let stream = try #require(pair.client.session.submitRequest(SessionPair.request("/"), hasContent: false))
        pair.server.content[stream] = [UInt8](repeating: 2, count: 100_000)
        pair.exchange()
        #expect(pair.client.received[stream]?.count == 65_535)
        pair.client.session.consume(65_535, on: stream)
        pair.exchange()
        #expect(pair.client.received[stream]?.count == 100_000)
    }

    @Test("late content is requested again, and failing content resets only its stream")
    func laterAndBroken() throws {
        let pair = try SessionPair()
        pair.server.onHead = { pair.server.session.submitResponse(SessionPair.list([(":status", "200")]), hasContent: true, on: $0) }
        let streams = [1, 3].compactMap { _ in pair.client.session.submitRequest(SessionPair.request("/"), hasContent: false) }
        pair.server.content = [1: [], 3: [7]]
        pair.server.unfinished = [1, 3]
        pair.exchange()
        #expect(streams == [1, 3] && pair.client.received[3] == [7])
        pair.server.content[3] = nil
        pair.server.content[1] = [8]
        pair.server.unfinished = []
        for stream in streams { pair.server.session.resumeContent(of: stream) }
        pair.exchange()
        #expect(pair.client.received[1] == [8])
        #expect(pair.client.events.contains("was reset 3 INTERNAL_ERROR") && pair.client.events.contains("closed 3 INTERNAL_ERROR"))
        #expect(pair.client.events.contains("closed 1 NO_ERROR"))
    }

    @Test("streams beyond the limit wait at the client, and a server that announced its end completes requests in flight")
    func limitsAndEnds() throws {
        var settings = HTTP2SessionSettings()
        settings.maximumStreams = 2
        let pair = try SessionPair(settings)
        #expect(pair.client.session.peerMaximumStreams == 2)
        for _ in 0..<3 { _ = pair.client.session.submitRequest(SessionPair.request("/"), hasContent: false) }
        pair.exchange()
        #expect(pair.server.takeEvents().count == 2)
        pair.server.session.announceEnd()
        pair.exchange()
        #expect(!pair.client.session.mayRequest)
        #expect(pair.client.events.contains("goaway 2147483647 NO_ERROR"))
        pair.server.session.stopAccepting()
        for stream: Int32 in [1, 3] {
            pair.server.session.submitResponse(SessionPair.list([(":status", "200")]), hasContent: false, on: stream)
        }
        pair.exchange()
        #expect(pair.client.events.filter { $0.hasPrefix("head") }.count == 2)
        #expect(pair.client.events.contains("goaway 3 NO_ERROR"))
    }

    @Test("nothing is written after the GOAWAY that ends a connection")
    func nothingAfterGoAway() throws {
        let pair = try SessionPair()
        let streams = [1, 3].compactMap { _ in pair.client.session.submitRequest(SessionPair.request("/"), hasContent: false) }
        pair.exchange()
        for stream in streams {
            pair.server.session.submitResponse(SessionPair.list([(":status", "200")]), hasContent: true, on: stream)
            pair.server.content[stream] = [UInt8](repeating: 2, count: 40_000)
        }
        pair.server.session.ping()
        pair.server.session.end(.protocolError)
        pair.server.session.reset(3, .cancel)
        let bytes = pair.server.output()
        var (position, kinds) = (0, [UInt8]())
        while position + 9 <= bytes.count {
            kinds.append(bytes[position + 3])
            position += 9 + (Int(bytes[position]) << 16 | Int(bytes[position + 1]) << 8 | Int(bytes[position + 2]))
        }
        #expect(position == bytes.count && kinds.last == 7 && kinds.count { $0 == 7 } == 1)
        #expect(pair.server.output().isEmpty)
    }

    @Test("a field section beyond the limits is reported as too large, and one far beyond them ends the connection")
    func fieldLimits() throws {
        var settings = HTTP2SessionSettings()
        settings.fieldLimits = HTTP2FieldLimits(bytes: 4_000, count: 20)
        let pair = try SessionPair(settings)
        _ = pair.client.session.submitRequest(SessionPair.request("/", (0..<30).map { ("x-\($0)", "v") }), hasContent: false)
        pair.exchange()
        #expect(pair.server.takeEvents().first?.hasSuffix("too large end") == true)
        _ = pair.client.session.submitRequest(SessionPair.request("/", (0..<100).map { ("x-\($0)", "v") }), hasContent: false)
        #expect(pair.server.receive(pair.client.output()) == .ended)
        pair.exchange()
        #expect(pair.client.takeEvents().contains { $0.hasPrefix("goaway") && $0.hasSuffix("ENHANCE_YOUR_CALM") })
    }

    @Test("input that is not HTTP/2 ends the session permanently")
    func garbage() throws {
        let server = try Side(.server)
        #expect(server.receive(Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)) == .ended)
        #expect(server.receive(Array("PRI".utf8)) == .ended)
        #expect(server.takeEvents().isEmpty)
    }

    @Test("a session abandoned during a callback reports no more events")
    func abandoned() throws {
        let pair = try SessionPair()
        for _ in 0..<3 { _ = pair.client.session.submitRequest(SessionPair.request("/"), hasContent: false) }
        pair.server.onHead = { _ in pair.server.session.abandon() }
        #expect(pair.server.receive(pair.client.output()) == .ended)
        #expect(pair.server.takeEvents().count == 1)
    }

    @Test("pings are answered")
    func ping() throws {
        let pair = try SessionPair()
        pair.client.session.ping()
        pair.exchange()
        #expect(pair.client.takeEvents() == ["pong"])
    }
}
