// Tests of freshness that the operator configures: what the upstream and the clients receive.

import CachePolicy
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Freshness rules of the operator, end to end", .play)
struct FreshnessPlayTests {
    /// An origin that numbers its responses.
    private func numbered(_ fields: [String], status: String = "200 OK") -> ScriptedOrigin {
        let counter = Counter()
        return ScriptedOrigin { _ in [.json("{\"n\":\(counter.next())}", status: status, fields)] }
    }

    private func why(_ play: ProxyPlay) throws -> JSONValue {
        try #require(JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first)
    }

    private func start(_ origin: ScriptedOrigin, _ change: @escaping (inout Route) -> Void) throws -> ProxyPlay {
        try ProxyPlay(origin) { change(&$0.otherRoute) }
    }

    @Test(
        "the upstream is asked once a minute, whatever response and request directives say",
        arguments: ["no-cache", "max-age=0", "max-age=5, no-cache", "max-age=3600"])
    func onceAMinute(said: String) throws {
        let play = try start(numbered(["Cache-Control: \(said)", "Expires: 0"])) {
            $0.freshness.minimum = 60
            $0.freshness.ignored = [.noCache, .maxAge, .expires]
            $0.usesClientDirectives = false
        }
        for minute in 1...3 {
            for second in 0..<6 {
                let fields = second == 3 ? [("Cache-Control", "no-cache")] : second == 4 ? [("Pragma", "no-cache")] : []
                let response = try play.get("/a", fields)
                #expect(response.text == "{\"n\":\(minute)}", "minute \(minute), second \(second * 10)")
                // The client receives the upstream's Cache-Control unchanged.
                #expect(response["Cache-Control"] == said)
                play.time.advance(by: .seconds(10))
            }
        }
        #expect(try play.metric("cistern_client_directives_ignored_total") == 6)
    }

    @Test("each ignored client directive is counted, also for repeated hits")
    func countedEachTime() throws {
        let play = try start(numbered(["Cache-Control: max-age=60"])) { $0.usesClientDirectives = false }
        _ = try play.get("/a")
        for _ in 1...8 { #expect(try play.get("/a", [("Cache-Control", "no-cache")]).text == "{\"n\":1}") }
        #expect(try play.metric("cistern_client_directives_ignored_total") == 8)
        #expect(try play.metric("cistern_repeated_hits_total") ?? 0 > 0)
    }

    @Test("no-store and only-if-cached in requests still apply when other client directives are ignored")
    func alwaysApplied() throws {
        let play = try start(numbered(["Cache-Control: max-age=60"])) { $0.usesClientDirectives = false }
        #expect(try play.get("/b", [("Cache-Control", "no-store")]).text == "{\"n\":1}")
        #expect(try play.get("/b").text == "{\"n\":2}")
        #expect(try play.get("/c", [("Cache-Control", "only-if-cached")]).status == 504)
    }

    @Test("why reports the source of the freshness lifetime and the ignored directives")
    func explained() throws {
        let play = try start(numbered(["Cache-Control: no-cache"])) {
            $0.freshness.minimum = 60
            $0.freshness.ignored = [.noCache]
            $0.usesClientDirectives = false
        }
        _ = try play.get("/a")
        _ = try play.get("/a", [("Cache-Control", "max-age=0")])
        let exchange = try why(play)
        #expect(exchange["freshness"]?["lifetime_source"] == "minimum")
        let sentences = exchange["explanation"]?.array?.compactMap { $0.string } ?? []
        let text = sentences.joined(separator: " ")
        #expect(text.contains("freshness.minimum") && text.contains("freshness.ignore") && text.contains("client_directives"))
    }

    @Test("with private ignored, requests without credentials share the response; requests with credentials do not")
    func privateIgnored() throws {
        let play = try start(numbered(["Cache-Control: private, max-age=60"])) { $0.freshness.ignored = [.privateResponse] }
        #expect(try play.get("/a").text == "{\"n\":1}")
        #expect(try play.get("/a").text == "{\"n\":1}")
        let (ann, bob) = ([("Authorization", "Bearer ann")], [("Authorization", "Bearer bob")])
        #expect(try play.get("/a", ann).text == "{\"n\":2}")
        #expect(try play.get("/a", bob).text == "{\"n\":3}")
        #expect(try play.get("/a", ann).text == "{\"n\":2}")
    }

    @Test("a configured Vary is ignored, except for Origin and *")
    func varyIgnored() throws {
        let counter = Counter()
        let origin = ScriptedOrigin { request in
            let vary = request.target.hasPrefix("/star") ? "*" : request.target.hasPrefix("/origin") ? "Origin" : "Accept-Language"
            return [.json("{\"n\":\(counter.next())}", ["Cache-Control: max-age=60", "Vary: \(vary)"])]
        }
        let play = try start(origin) { $0.freshness.ignored = [.vary] }
        #expect(try play.get("/a", [("Accept-Language", "de")]).text == play.get("/a", [("Accept-Language", "fr")]).text)
        #expect(try play.get("/star").text != play.get("/star").text)
        #expect(try play.get("/origin", [("Origin", "https://a")]).text != play.get("/origin", [("Origin", "https://b")]).text)
    }

    @Test("stale_for limits the age of a rescued response")
    func staleFor() throws {
        let origin = numbered(["Cache-Control: max-age=10"])
        let play = try start(origin) { $0.freshness.staleFor = 100 }
        #expect(try play.get("/a").status == 200)
        origin.down()
        play.time.advance(by: .seconds(110))
        #expect(try play.get("/a").status == 200)
        play.time.advance(by: .seconds(1))
        let refused = try play.get("/a")
        #expect(refused.status >= 502)
        let exchange = try why(play)
        #expect(exchange["advice"]?.array?.contains { $0["setting"] == "cache.stale_for" } == true)
    }

    @Test("stale_while_revalidate applies to responses without the directive")
    func staleWhileRevalidate() throws {
        let play = try start(numbered(["Cache-Control: max-age=10"])) { $0.freshness.staleWhileRevalidate = 30 }
        #expect(try play.get("/a").text == "{\"n\":1}")
        play.time.advance(by: .seconds(20))
        let stale = try play.get("/a")
        #expect(stale.text == "{\"n\":1}")
        #expect(play.origin.waitForRequests(2))
    }

    // MARK: Errors that are stored briefly

    @Test("a 404 is served from the cache during freshness.negative and never rescues a failing upstream")
    func negative() throws {
        let origin = numbered([], status: "404 Not Found")
        let play = try start(origin) { $0.freshness.negative = 10 }
        for _ in 1...3 {
            let missing = try play.get("/a")
            #expect(missing.status == 404 && missing.text == "{\"n\":1}")
        }
        play.time.advance(by: .seconds(10))
        #expect(try play.get("/a").text == "{\"n\":2}")
        play.time.advance(by: .seconds(10))
        origin.down()
        #expect(try play.get("/a").status >= 502)
    }

    @Test("a fresh stored 404 does not rescue a no-cache request")
    func negativeDoesNotRescue() throws {
        let origin = numbered([], status: "404 Not Found")
        let play = try start(origin) { $0.freshness.negative = 60 }
        #expect(try play.get("/a").status == 404)
        origin.down()
        #expect(try play.get("/a", [("Cache-Control", "no-cache")]).status >= 502)
        #expect(try play.get("/a").status == 404)
    }

    @Test("a 404 is served briefly although a good response is stored; that response returns once the upstream has it again")
    func negativeWithStoredResponse() throws {
        let (counter, isGone) = (Counter(), Flag())
        let origin = ScriptedOrigin { _ in
            let number = counter.next()
            return isGone.isOn ? [.json("{\"gone\":\(number)}", status: "404 Not Found")] : [.json("{\"n\":\(number)}")]
        }
        let play = try start(origin) { $0.freshness.negative = 10 }
        #expect(try play.get("/a").text == "{\"n\":1}")
        isGone.set(true)
        for _ in 1...3 { #expect(try play.get("/a").text == "{\"gone\":2}") }
        isGone.set(false)
        play.time.advance(by: .seconds(10))
        #expect(try play.get("/a").text == "{\"n\":3}")
        #expect(try play.get("/a").text == "{\"n\":4}")
        // The last good response was kept.
        origin.down()
        #expect(try play.get("/a").text == "{\"n\":4}")
    }

    @Test("a write invalidates a stored 404")
    func write() throws {
        let counter = Counter()
        let origin = ScriptedOrigin { request in
            if request.method == "PUT" { return [.json("{}")] }
            let number = counter.next()
            return number == 1 ? [.json("{\"n\":1}", status: "404 Not Found")] : [.json("{\"n\":\(number)}")]
        }
        let play = try start(origin) { $0.freshness.negative = 60 }
        #expect(try play.get("/a").status == 404)
        #expect(try play.request("PUT", "/a", content: "{}").status == 200)
        #expect(try play.get("/a").status == 200)
    }
}

/// A switch that origin scripts read.
private final class Flag: Sendable {
    private let value = Mutex(false)
    var isOn: Bool { value.withLock { $0 } }
    func set(_ isOn: Bool) { value.withLock { $0 = isOn } }
}
