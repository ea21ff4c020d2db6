// Tests of request IDs through the whole proxy, and of what the access log reports.

import CachePolicy
import Forwarding
import HTTPCore
import JSON
import ReverseProxy
import TestSupport
import Testing

@testable import Figures

@Suite("Request IDs and the access log", .play, .clientProtocols)
struct AccessLogTests {
    /// Responds with the request ID that it received.
    private static func origin() -> ScriptedOrigin {
        ScriptedOrigin { request in
            let name = request["X-Request-Id"] ?? "none"
            switch request.target {
            case "/long":
                return [
                    .send(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 4\r\nX-Request-Id: theirs\r\n\r\n\(name.prefix(4))"
                    )
                ]
            default: return [.json("\"\(name)\"", ["Cache-Control: max-age=60", "X-Request-Id: theirs"])]
            }
        }
    }

    private func play(_ use: RequestIDUse, _ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        try ProxyPlay(Self.origin(), accessLog: AccessField.allCases) { settings in
            settings.forwarding.requestID = use
            configure(&settings)
        }
    }

    private static func isMade(_ name: String?) -> Bool {
        name.map { $0.utf8.count == 32 && $0.utf8.allSatisfy { $0.hexValue != nil } } ?? false
    }

    @Test("a valid client request ID is forwarded, returned and logged; an invalid or missing one is replaced")
    func named() throws {
        let play = try play(.both)
        let own = try play.get("/own", [("X-Request-Id", "abc-1")])
        #expect(own.text == "\"abc-1\"" && own.all("X-Request-Id") == ["abc-1"])
        for (target, sent) in [("/bad", ["a b"]), ("/two", ["a", "b"]), ("/none", [])] {
            let response = try play.get(target, sent.map { ("X-Request-Id", $0) })
            let name = try #require(response["X-Request-Id"])
            #expect(Self.isMade(name) && response.all("X-Request-Id").count == 1 && response.text == "\"\(name)\"")
        }
        let names = try play.accessLines().filter { $0["path"] != "/healthz" }.map { $0["request_id"]?.string }
        #expect(names.count == 4 && names[0] == "abc-1" && names.dropFirst().allSatisfy(Self.isMade) && Set(names).count == 4)
    }

    @Test("repeated hits carry each request's own or a new ID and are otherwise identical")
    func repeated() throws {
        let play = try play(.both)
        func fields(_ response: TestResponse) -> [String] { response.fields.filter { $0.0.lowercased() != "x-request-id" }.map { "\($0)" } }
        for _ in 0..<3 { _ = try play.get("/a") }
        let first = try play.get("/a")
        var names: Set<String> = []
        for number in 0..<4 {
            let made = try play.get("/a")
            #expect(made.content == first.content && fields(made) == fields(first))
            #expect(Self.isMade(made["X-Request-Id"]) && made.all("X-Request-Id").count == 1)
            names.insert(made["X-Request-Id"] ?? "")
            // IDs longer and shorter than the one in the remembered response.
            let own = String(repeating: "n", count: number * 40 + 1)
            let named = try play.get("/a", [("X-Request-Id", own)])
            #expect(named["X-Request-Id"] == own && named.content == first.content && fields(named) == fields(first))
        }
        #expect(names.count == 4)
        #expect(try play.metric("cistern_repeated_hits_total") ?? 0 >= 7)
        #expect(play.origin.requests.count == 1)
        let logged = try play.accessLines().filter { $0["path"] == "/a" }.compactMap { $0["request_id"]?.string }
        #expect(Set(logged).count == 12 && names.isSubset(of: logged))
    }

    @Test("every response has the request ID: streams, proxy errors, rescues and HEAD")
    func everywhere() throws {
        let play = try play(.return)
        let named = [("X-Request-Id", "mine")]
        let head = try play.request("HEAD", "/head", named)
        #expect(head.status == 200 && head.all("X-Request-Id") == ["mine"])
        #expect(try play.get("/long", named).all("X-Request-Id") == ["mine"])
        _ = try play.get("/kept")
        play.origin.down()
        play.time.advance(by: .seconds(100))
        let rescued = try play.get("/kept", named)
        #expect(rescued.status == 200 && rescued.all("X-Request-Id") == ["mine"])
        let failed = try play.get("/unknown", named)
        #expect(failed.status == 502 && failed.all("X-Request-Id") == ["mine"])
    }

    @Test("with request IDs off, the field is passed through in both directions", arguments: [RequestIDUse.off, .send])
    func notReturned(use: RequestIDUse) throws {
        let play = try play(use)
        let response = try play.get("/a", [("X-Request-Id", "abc")])
        #expect(response.text == "\"abc\"" && response["X-Request-Id"] == "theirs")
        let odd = try play.get("/b", [("X-Request-Id", "a b")])
        #expect((odd.text == "\"a b\"") == (use == .off))
        #expect(try (play.get("/c").text == "\"none\"") == (use == .off))
        let lines = try play.accessLines().filter { $0["path"] != "/healthz" }
        #expect(lines.first?["request_id"] == "abc" && lines.dropFirst().allSatisfy { Self.isMade($0["request_id"]?.string) })
    }

    @Test("a line contains client, protocol, responder and duration of the request")
    func lineContents() throws {
        let play = try play(.off) { settings in
            var route = Route()
            (route.name, route.pattern) = ("users", RoutePattern("/users/**"))
            settings.routes = [route]
        }
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        let fields = [("User-Agent", "test/1"), ("Referer", "/r?s3cret"), ("traceparent", "00-\(trace)-00f067aa0ba902b7-00")]
        for _ in 0..<2 { _ = try play.get("/users/1?q=1&token=s3cret", fields) }
        _ = try play.get("/other")
        let lines = try play.accessLines()
        let (miss, hit, other) = (lines[0], lines[1], lines[2])
        for line in [miss, hit] {
            #expect(line["route"] == "users" && line["path"] == "/users/1" && line["query"] == "q=1&token=REDACTED")
            #expect(line["user_agent"] == "test/1" && line["referer"] == "/r" && line["trace_id"]?.string == trace)
            #expect(line["protocol"] == (ProxyPlay.clientProtocol.speaksHTTP2 ? "HTTP/2" : "HTTP/1.1"))
            #expect((line["tls"]?.string?.hasPrefix("TLSv1.") ?? false) == ProxyPlay.clientProtocol.isSecured)
        }
        #expect(miss["upstream_status"] == .integer(200) && miss["upstream_address"]?.string == "127.0.0.1:\(play.origin.port)")
        #expect(miss["upstream_connect_us"] != nil && miss["upstream_wait_us"] != nil && miss["upstream_content_us"] != nil)
        #expect(hit["result"] == "hit" && hit["upstream_status"] == nil && hit["upstream_wait_us"] == nil)
        #expect(other["route"] == nil && other["query"] == nil && other["trace_id"] == nil)
    }
}
