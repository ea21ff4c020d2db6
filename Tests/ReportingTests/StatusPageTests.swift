// Tests of the status page over its address: what it shows in an outage, and what it does not reveal.

import Administration
import Downstream
import JSON
import ReverseProxy
import TestSupport
import Testing

@Suite("The status page over HTTP", .play)
struct StatusPagePlayTests {
    /// An origin with storable responses, except under /private.
    private static func play(_ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        let origin = ScriptedOrigin { request in
            [
                .json(
                    "{\"secret\":\"upst0red\"}",
                    [request.target.hasPrefix("/private") ? "Cache-Control: private" : "Cache-Control: max-age=60"])
            ]
        }
        return try ProxyPlay(origin) { settings in
            settings.listening.adminListeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
            settings.admin.token = Array("0123456789abcdef".utf8)
            configure(&settings)
        }
    }

    private static func page(_ play: ProxyPlay) throws -> TestResponse {
        let client = try TestClient(port: play.adminPort)
        return try #require(client.get("/-/status"))
    }

    @Test("the page is one document protected against other origins, and / links to it")
    func document() throws {
        let play = try Self.play()
        let page = try Self.page(play)
        #expect(page.status == 200 && page["Content-Type"] == "text/html; charset=utf-8" && page["Cache-Control"] == "no-store")
        let policy = try #require(page["Content-Security-Policy"])
        for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "connect-src 'self'"] {
            #expect(policy.contains(part))
        }
        #expect(
            page["X-Content-Type-Options"] == "nosniff" && page["Referrer-Policy"] == "no-referrer" && page["X-Frame-Options"] == "DENY")
        for outside in ["http:", "https:", "src=\"", "url(", "@import"] { #expect(!page.text.contains(outside)) }
        for part in ["<html lang=\"en\">", "<main>", "<caption>", "scope=\"col\"", "scope=\"row\"", "role=\"status\""] {
            #expect(page.text.contains(part))
        }
        let nonce = { (page: TestResponse) in page["Content-Security-Policy"]?.split(separator: "'").first { $0.hasPrefix("nonce-") } }
        let other = try Self.page(play)
        #expect(nonce(page) != nil && nonce(page) != nonce(other))
        let root = try #require(TestClient(port: play.adminPort).get("/"))
        #expect(root.status == 303 && root["Location"] == "/-/status")
        #expect(try #require(TestClient(port: play.adminPort).request("POST", "/-/status")).status == 401)
        #expect(try #require(TestClient(port: play.adminPort).get("/-/status?a=1")).status == 400)
    }

    @Test("in an outage the page shows what is down, since when and why, rescues, and unstored responses with advice")
    func outage() throws {
        let play = try Self.play()
        #expect(try Self.page(play).text.contains("The upstream has received no request yet."))
        for target in ["/a", "/a", "/private/1", "/private/2"] { #expect(try play.get(target).status == 200) }
        #expect(try Self.page(play).text.contains("The upstream is up."))
        play.time.advance(by: .seconds(100))
        _ = try Self.page(play)
        play.origin.down()
        for _ in 0..<5 { #expect(try play.get("/a").status == 200) }
        #expect(try play.get("/b").status >= 502)
        play.time.advance(by: .seconds(30))
        for _ in 0..<3 { #expect(try play.get("/a").status == 200) }
        let page = try Self.page(play)
        #expect(
            page.text.contains("The upstream has been down for 30 s (connection refused); 8 requests rescued, oldest copy 2 min, 1 failed.")
        )
        #expect(page.text.contains("stored responses are served at once, reads without one get 503"))
        #expect(page.text.contains("2 ×: the response has Cache-Control: private"))
        #expect(page.text.contains("Setting cache.role"))
        let stats = try #require(JSONValue(try play.admin("GET", "/-/stats").content))
        #expect(stats["state"]?["level"] == "down" && page.text.contains(stats["state"]?["sentence"]?.string ?? "?"))
    }

    @Test("tiles have five-minute charts with a bounded number of samples")
    func lines() throws {
        let play = try Self.play()
        for _ in 0..<80 {
            _ = try play.get("/a")
            play.time.advance(by: .seconds(5))
            _ = try Self.page(play)
        }
        let page = try Self.page(play).text
        #expect(page.contains("60 in five minutes") && page.contains("Five minutes: from 0.2/s to 0.2/s, now 0.2/s"))
        let line = page.split(separator: "class=\"line\"").dropFirst().first?.prefix { $0 != ">" } ?? ""
        #expect(line.split(separator: "L").count == 60)
    }
}
