// Whose a session is, and where it ends: servers on other ports of the host, other machines and browsers, its own button, and what forms say
// once it is over.

import Addresses
import Downstream
import FaultInjection
import HTTPCore
import JSON
import ReverseProxy
import TestSupport
import Testing

@testable import Administration

@Suite("A session's bounds", .play)
struct StatusSessionBoundTests {
    private static let token = "0123456789abcdef"

    private struct Session {
        let path: String
        let cookie: (String, String)
        var form = ""
    }

    private final class Play {
        let proxy: ProxyPlay

        init(_ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws {
            proxy = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60", "Surrogate-Key: a\u{200d}b"])] }) {
                settings in
                settings.listening.adminListeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
                settings.admin.token = Array(StatusSessionBoundTests.token.utf8)
                configure(&settings)
            }
        }

        func ask(_ method: String, _ target: String, _ fields: [(String, String)] = [], content: String? = nil) throws -> TestResponse {
            let own = [("Host", "127.0.0.1:\(proxy.adminPort)"), ("Content-Type", "application/x-www-form-urlencoded")]
            return try #require(TestClient(port: proxy.adminPort).request(method, target, own + fields, content: content))
        }

        func enter(_ fields: [(String, String)] = []) throws -> Session {
            let code = try #require(JSONValue(try proxy.admin("POST", "/-/status/code").content)?["path"]?.string)
            let response = try ask("GET", code, fields)
            let path = try #require(response.text.split(separator: "content=\"0;url=").dropFirst().first?.prefix { $0 != "\"" })
            let cookie = try #require(response["Set-Cookie"]?.prefix { $0 != ";" })
            var session = Session(path: String(path), cookie: ("Cookie", String(cookie)))
            let page = try ask("GET", session.path, fields + [session.cookie]).text
            let token = page.split(separator: "name=\"token\" value=\"").dropFirst().first
            session.form = String(try #require(token).prefix { $0 != "\"" })
            return session
        }

        func sees(_ session: Session, at path: String? = nil, _ fields: [(String, String)] = []) throws -> Bool {
            try ask("GET", path ?? session.path, fields + [session.cookie]).text.contains("The last exchanges")
        }
    }

    @Test("whoever gets the cookie, or the path, has no session: it takes both, and sessions stand side by side")
    func both() throws {
        let play = try Play()
        let (first, second) = (try play.enter(), try play.enter())
        #expect(try play.sees(first) && play.sees(second))
        // What a server on another port can have a browser send to it goes along with paths that it knows.
        for path in ["/-/status", "/-/status/", "/-/status/x", second.path, "/-/status/" + String(repeating: "0", count: 32)] {
            #expect(try !play.sees(first, at: path), "\(path)")
            #expect(try play.ask("POST", path + "/purge", [first.cookie], content: "token=\(first.form)&sure=yes&prefix=/").status == 403)
        }
        #expect(try !play.ask("GET", first.path).text.contains("The last exchanges"))
        for path in ["/-/status/x", first.path + "x", first.path + "/x", first.path + "/"] {
            #expect(try play.ask("GET", path).status == 404)
        }
        // Two of the same name, as a browser sends them with both paths, and one that another server has set.
        let both = ("Cookie", "cistern-session=junk; \(second.cookie.1); \(first.cookie.1)")
        for session in [first, second] { #expect(try play.sees(Session(path: session.path, cookie: both))) }
        // Cookies' names differ in nothing.
        #expect(try play.sees(Session(path: first.path, cookie: ("Cookie", "junk=1;\(first.cookie.1)"))))
    }

    @Test("it is of one browser and of one client, and this machine is one client")
    func holder() throws {
        let play = try Play()
        let session = try play.enter([("User-Agent", "Browser/1")])
        #expect(try play.sees(session, [("User-Agent", "Browser/1")]))
        #expect(try !play.sees(session, [("User-Agent", "Other/1")]) && !play.sees(session))
        let holder = { (address: String?) in StatusHolder(address.flatMap { IPAddress($0) }, Fields()) }
        for (one, other, isSame) in [
            ("127.0.0.1", "::1", true), ("127.0.0.1", "127.9.0.1", true), ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::1", "2001:db8::2", true), ("2001:db8::1", "2001:db8:0:1::1", false), ("127.0.0.1", "192.0.2.1", false),
            ("::1", "2001:db8::1", false), ("127.0.0.1", nil, false),
        ] as [(String, String?, Bool)] {
            #expect((holder(one) == holder(other)) == isSame, "\(one) \(other ?? "-")")
        }
    }

    @Test("its button ends it, and takes the cookie away; without the form's token it goes on")
    func end() throws {
        let play = try Play()
        let (session, other) = (try play.enter(), try play.enter())
        #expect(try play.ask("GET", session.path, [session.cookie]).text.contains("End the session"))
        #expect(try play.ask("POST", session.path + "/end", [session.cookie], content: "token=").status == 403)
        #expect(try play.sees(session))
        let ended = try play.ask("POST", session.path + "/end", [session.cookie], content: "token=\(session.form)")
        #expect(ended.status == 303 && ended["Location"] == "/-/status")
        #expect(ended["Set-Cookie"]?.hasPrefix("cistern-session=; Path=\(session.path); Max-Age=0; ") == true)
        #expect(try !play.sees(session) && play.sees(other))
        #expect(!(try play.ask("GET", "/-/status", [("Authorization", "Bearer " + Self.token)]).text.contains("End the session")))
    }

    @Test("what a form cannot do, a page says: also once the session is over")
    func failures() throws {
        let play = try Play()
        let session = try play.enter()
        func purge(_ form: String) throws -> TestResponse { try play.ask("POST", session.path + "/purge", [session.cookie], content: form) }
        let asks: [(String, Status, String)] = [
            ("token=\(session.form)&prefix=/&how=hard", 400, "say that it is meant"),
            ("token=x&sure=yes&prefix=/", 403, "Here is no page for this"),
            ("token=\(session.form)&sure=yes&prefix=x", 400, "begin with a slash"), ("%", 400, "not understood"),
            (String(repeating: "a", count: 70_000), 413, "too long"),
        ]
        for (form, status, words) in asks {
            let said = try purge(form)
            #expect(
                said.status == Int(status.rawValue) && said["Content-Type"] == "text/html; charset=utf-8" && said.text.contains(words),
                "\(said.text)")
            #expect(said.text.contains("href=\"/-/status\"") && said["Content-Security-Policy"] != nil)
        }
        play.proxy.time.advance(by: .seconds(3_600))
        let over = try purge("token=\(session.form)&sure=yes&prefix=/")
        #expect(over.status == 403 && over.text.contains("has ended") && over.text.contains("href=\"/-/status\""))
    }

    @Test("it goes to no upstream: what is forwarded under its paths loses it, and other cookies stay")
    func forwarded() throws {
        let play = try Play()
        let path = "/-/status/" + String(repeating: "a", count: 32)
        let rows: [(target: String, cookie: String, sent: String?)] = [
            (path, "a=1; cistern-session=x; b=2", "a=1; b=2"), (path, "cistern-session=x", nil), (path, "a=1", "a=1"),
            ("/other", "cistern-session=x", "cistern-session=x"),
        ]
        for row in rows {
            _ = try play.proxy.get(row.target, [("Cookie", row.cookie)])
            let sent = play.proxy.origin.requests.last?.fields.first { $0.0.lowercased() == "cookie" }?.1
            #expect(sent == row.sent, "\(row)")
        }
    }

    @Test("what is shown of requests is gathered once for all sessions, and again two seconds later")
    func lately() throws {
        let play = try Play()
        let (first, second) = (try play.enter(), try play.enter())
        play.proxy.time.advance(by: .seconds(2))
        func shows(_ session: Session, _ target: String) throws -> Bool {
            try play.ask("GET", session.path, [session.cookie]).text.contains(target)
        }
        _ = try play.proxy.get("/one")
        #expect(try shows(first, "/one"))
        _ = try play.proxy.get("/two")
        play.proxy.time.advance(by: .milliseconds(1_999))
        #expect(try shows(second, "/one") && !shows(second, "/two"))
        play.proxy.time.advance(by: .milliseconds(1))
        #expect(try shows(second, "/two") && shows(first, "/two"))
    }

    @Test("prefixes with a mode of their own, and faults, are listed, and nobody else reads their paths")
    func switched() throws {
        let play = try Play { $0.admin.allowsFaults = true }
        #expect(try play.proxy.admin("PUT", "/-/mode?mode=replay&prefix=/held/back?token=s3cr3t").status == 200)
        #expect(try play.proxy.admin("POST", "/-/faults?path=/broken/**&effect=refuse&percent=20&for=120").status < 300)
        let session = try play.enter()
        let page = try play.ask("GET", session.path, [session.cookie]).text
        for text in ["/held/back", "mode replay", "/broken/**", "20 % of requests", "2 min"] { #expect(page.contains(text), "\(text)") }
        #expect(!page.contains("s3cr3t"))
        let open = try play.ask("GET", "/-/status").text
        #expect(!open.contains("/held") && !open.contains("/broken") && open.contains("1 injected"))
    }

    @Test("what is purged at once is said as a whole: by what, in which APIs, and how much it is now")
    func all() throws {
        let play = try Play()
        for number in 0..<60 { _ = try play.proxy.get("/a/\(number)") }
        _ = try play.proxy.get("/b")
        let session = try play.enter()
        func page(_ query: String) throws -> String { try play.ask("GET", session.path + query, [session.cookie]).text }
        #expect(try page("?prefix=/a").contains("I mean <bdi>every response whose path begins with /a (60 now)</bdi>"))
        #expect(try page("?prefix=/b").contains("begins with /b (1 now)"))
        #expect(try !page("?prefix=/c").contains("I mean") && !page("?prefix=/a&tag=x").contains("I mean"))
    }

    @Test("a tag with characters that nobody sees goes back as it is")
    func invisible() throws {
        let play = try Play()
        _ = try play.proxy.get("/a")
        let session = try play.enter()
        let tag = PercentCoding.encode("a\u{200d}b")
        let page = try play.ask("GET", session.path + "?tag=" + tag, [session.cookie]).text
        #expect(page.contains("with the tag a⟨U+200D⟩b (1 now)"))
        #expect(page.split(separator: "value=\"a&#8205;b\"").count == 3 && !page.contains("\u{200d}"))
        let purged = try play.ask(
            "POST", session.path + "/purge", [session.cookie], content: "token=\(session.form)&sure=yes&how=hard&tag=\(tag)")
        #expect(purged["Location"] == session.path + "?purged=1#store")
    }
}
