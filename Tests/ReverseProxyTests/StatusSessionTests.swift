// Sessions with the page of the state: how a browser gets one, what it sees and may do with it, and who tries to in its place.

import Addresses
import Downstream
import HTTPCore
import JSON
import ReverseProxy
import TestSupport
import Testing

@testable import Administration

@Suite("Sessions with the page of the state", .play)
struct StatusSessionTests {
    private static let token = "0123456789abcdef"

    private final class Play {
        let proxy: ProxyPlay
        /// Of the page, as the last session has it.
        var path = "/-/status"

        init(hasToken: Bool = true) throws {
            let origin = ScriptedOrigin { request in
                let kept = request.target.hasPrefix("/private") ? "Cache-Control: no-store" : "Cache-Control: max-age=60"
                let name = request.fields.first { $0.0.lowercased() == "authorization" } == nil ? "everybody" : "ann-alone"
                return [.json("{\"for\":\"\(name)\",\"password\":\"s3cr3t\"}", [kept, "Cache-Groups: \"people\""])]
            }
            proxy = try ProxyPlay(origin) { settings in
                settings.listening.adminListeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
                if hasToken { settings.admin.token = Array(StatusSessionTests.token.utf8) }
            }
        }

        var host: String { "127.0.0.1:\(proxy.adminPort)" }

        func ask(_ method: String = "GET", _ target: String = "/-/status", _ fields: [(String, String)] = [], content: String? = nil) throws
            -> TestResponse
        {
            let fields = fields.contains { $0.0 == "Host" } ? fields : [("Host", host)] + fields
            return try #require(TestClient(port: proxy.adminPort).request(method, target, fields, content: content))
        }

        func code() throws -> String { try #require(JSONValue(try proxy.admin("POST", "/-/status/code").content)?["path"]?.string) }

        /// The cookie of a new session. What else the browser has for the host is of no matter, also by that name.
        func enter() throws -> (String, String) {
            let response = try ask("GET", try code())
            let cookie = try #require(response["Set-Cookie"])
            path = try Self.path(of: response)
            return ("Cookie", "cistern-session=junk; other=1; cistern-session=; " + cookie.prefix { $0 != ";" } + "; cistern-session=0")
        }

        /// Where the page leads that gives the cookie: what that is for, and nothing else.
        static func path(of response: TestResponse) throws -> String {
            let path = try #require(response.text.split(separator: "content=\"0;url=").dropFirst().first?.prefix { $0 != "\"" })
            #expect(path.hasPrefix("/-/status/") && path.utf8.count == 42)
            #expect(response["Set-Cookie"]?.contains("; Path=\(path); ") == true)
            return String(path)
        }

        func formToken(_ cookie: (String, String)) throws -> String {
            let page = try ask("GET", path + "?prefix=/", [cookie]).text
            let piece = try #require(page.split(separator: "name=\"token\" value=\"").dropFirst().first)
            return String(piece.prefix { $0 != "\"" })
        }

        func purge(_ form: String, _ fields: [(String, String)]) throws -> TestResponse {
            try ask("POST", path + "/purge", fields + [("Content-Type", "application/x-www-form-urlencoded")], content: form)
        }

        var stored: Int { get throws { JSONValue(try proxy.admin("GET", "/-/entries").content)?["entries"]?.array?.count ?? 0 } }
    }

    private static func isPrivate(_ page: TestResponse) -> Bool { page.text.contains("The last exchanges") }

    @Test("a code becomes a cookie once, within a minute, and the session ends after an hour")
    func codes() throws {
        let play = try Play()
        let code = try play.code()
        let first = try play.ask("GET", code)
        #expect(first.status == 200)
        play.path = try Play.path(of: first)
        let cookie = try #require(first["Set-Cookie"])
        for part in ["HttpOnly", "SameSite=Strict", "Max-Age=3600"] { #expect(cookie.contains(part)) }
        let second = try play.ask("GET", code)
        #expect(second.status == 403 && second["Set-Cookie"] == nil)
        let late = try play.code()
        play.proxy.time.advance(by: .seconds(60))
        #expect(try play.ask("GET", late).status == 403)
        #expect(try play.ask("GET", "/-/status/enter?code=").status == 403)
        #expect(try play.ask("GET", "/-/status/enter").status == 403)
        let session = ("Cookie", String(cookie.prefix { $0 != ";" }))
        #expect(Self.isPrivate(try play.ask("GET", play.path, [session])))
        play.proxy.time.advance(by: .seconds(3_539))
        #expect(Self.isPrivate(try play.ask("GET", play.path, [session])))
        play.proxy.time.advance(by: .seconds(1))
        #expect(!Self.isPrivate(try play.ask("GET", play.path, [session])))
        #expect(!Self.isPrivate(try play.ask("GET", play.path, [("Cookie", "cistern-session=")])))
    }

    @Test("codes and sessions are bounded: the oldest make room")
    func bounded() throws {
        let play = try Play()
        let first = try play.code()
        for _ in 0..<8 { _ = try play.code() }
        #expect(try play.ask("GET", first).status == 403)
        let cookie = try play.enter()
        for _ in 0..<32 { _ = try play.enter() }
        #expect(!Self.isPrivate(try play.ask("GET", play.path, [cookie])))
    }

    @Test("nobody gets a code without the administrator's leave", arguments: [true, false])
    func codeAccess(hasToken: Bool) throws {
        let play = try Play(hasToken: hasToken)
        #expect(try play.ask("POST", "/-/status/code").status == (hasToken ? 401 : 200))
        #expect(try play.ask("POST", "/-/status/code", [("Authorization", "Bearer " + Self.token)]).status == 200)
        for fields in [[("Origin", "http://evil.test")], [("Host", "evil.test")]] {
            #expect(try play.ask("POST", "/-/status/code", fields).status == (hasToken ? 401 : 403))
        }
    }

    @Test("another origin, a name that was turned to lead here, and a page with another's form get nothing")
    func attacks() throws {
        let play = try Play()
        _ = try play.proxy.get("/visible")
        let cookie = try play.enter()
        let form = try play.formToken(cookie)
        let own = ("Origin", "http://" + play.host)
        #expect(try play.ask("GET", play.path, [cookie]).text.contains("/visible"))
        let foreign: [[(String, String)]] = [
            [cookie, ("Origin", "http://evil.test")], [cookie, ("Origin", "null")], [cookie, ("Origin", "https://" + play.host)],
            [cookie, ("Origin", "http://localhost:1")], [("Host", "evil.test"), cookie],
            [("Host", "evil.test:\(play.proxy.adminPort)"), cookie],
            [("Host", "127.0.0.1.evil.test"), cookie], [("Host", "localhost.evil.test"), cookie],
            [("Host", "evil.test"), cookie, ("Origin", "http://evil.test")],
            [("Cookie", "cistern-session=" + String(repeating: "0", count: 32))],
        ]
        for fields in foreign {
            let page = try play.ask("GET", play.path + "?prefix=/", fields)
            #expect(!Self.isPrivate(page) && !page.text.contains("/visible"), "\(fields)")
            #expect(try play.purge("token=\(form)&sure=yes&prefix=/&how=hard", fields).status == 403, "\(fields)")
        }
        for (content, fields) in [
            ("sure=yes&prefix=/&how=hard", [cookie, own]), ("token=&sure=yes&prefix=/&how=hard", [cookie, own]),
            ("token=\(String(form.reversed()))&sure=yes&prefix=/&how=hard", [cookie, own]),
            ("token=\(form)&sure=yes&prefix=/&how=hard", [cookie, own, ("Sec-Fetch-Site", "same-site")]),
            ("token=\(form)&sure=yes&prefix=/&how=hard", [cookie, own, ("Sec-Fetch-Site", "cross-site")]),
            ("token=\(form)&sure=yes&prefix=/&how=hard", [own]),
        ] {
            #expect(try play.purge(content, fields).status == 403, "\(content) \(fields)")
        }
        #expect(try play.purge("token=\(form)&prefix=/&how=hard", [cookie, own]).status == 400)
        // A rebound name gets no session either, and does not use the code up.
        let code = try play.code()
        #expect(try play.ask("GET", code, [("Host", "evil.test")]).status == 403)
        #expect(try play.ask("GET", code).status == 200)
        #expect(try play.stored == 1)
        for name in ["localhost", "localhost:\(play.proxy.adminPort)", "[::1]:1", "10.1.2.3", "LOCALHOST"] {
            #expect(Self.isPrivate(try play.ask("GET", play.path, [("Host", name), cookie])), "\(name)")
        }
        #expect(Self.isPrivate(try play.ask("GET", play.path, [("Authorization", "Bearer " + Self.token)])))
        #expect(!Self.isPrivate(try play.ask("GET", play.path, [("Authorization", "Bearer " + Self.token), ("Host", "evil.test")])))
    }

    @Test(
        "the host is an address, localhost, or a name of a certificate or of the settings, and the origin is the host as it was asked for",
        arguments: [
            ("admin.test", nil, true, true), ("a.admin.test:9443", "https://a.admin.test:9443", true, true),
            ("admin.test", "http://admin.test", true, false), ("admin.test.evil.test", nil, true, false), ("evil.test", nil, false, false),
            ("[::1]", "http://[::1]", false, true), ("[::1]:80", "http://[::1]", false, false), ("[evil]:1", nil, false, false),
            ("127.1", nil, false, false), ("2130706433", nil, false, false), ("localhost:abc", nil, false, false),
            ("localhost.", nil, false, false), ("127.0.0.1:1:2", nil, false, false), ("localhost", "", false, false),
            ("LocalHost:1", "http://localhost:1", false, true), ("named.test:9", "http://named.test:9", false, true),
            ("Named.Test", nil, false, true), ("a.named.test", nil, false, false), ("named.test.evil.test", nil, false, false),
            ("a.many.test", nil, false, true), ("a.b.many.test", nil, false, false), ("many.test", nil, false, false),
            ("ported.test:81", nil, false, true), ("ported.test", nil, false, false),
        ] as [(String, String?, Bool, Bool)])
    func names(host: String, origin: String?, isSecured: Bool, isTaken: Bool) {
        var fields = Fields()
        for (name, value) in [("Host", host), ("Authorization", "Bearer " + Self.token)] { fields.append(name: name, value: value) }
        if let origin { fields.append(name: "Origin", value: origin) }
        let head = RequestHead(method: .get, target: Array("/-/status".utf8)[...], version: .http11, fields: fields)
        var settings = AdminSettings()
        settings.token = Array(Self.token.utf8)
        settings.names = ServedNames(["named.test", "*.many.test", "ported.test:81"])
        let caller = StatusCaller(head, through: .network, of: nil, settings: settings, isSecured: isSecured) {
            $0 == "admin.test" || $0 == "a.admin.test"
        }
        #expect(caller.viewer(StatusSessions(), at: nil, now: 0).maySee == isTaken)
    }

    @Test("it shows targets, exchanges and stored responses, and neither secrets nor what is kept for somebody's credentials")
    func shown() throws {
        let play = try Play()
        for _ in 0..<3 { _ = try play.proxy.get("/users/1?api_key=s3cr3t") }
        _ = try play.proxy.get("/users/2", [("Authorization", "Bearer s3cr3t")])
        _ = try play.proxy.get("/private/3")
        play.proxy.origin.down()
        #expect(try play.proxy.get("/never").status >= 500)
        let cookie = try play.enter()
        let page = try play.ask("GET", play.path + "?prefix=/users", [cookie]).text
        for text in [
            "/users/1?api_key=REDACTED", "/users/2", "/private/3", "/never", "Cache-Control: no-store", "people",
            "kept for somebody&#39;s credentials", "Failed, without a copy",
        ] {
            #expect(page.contains(text), "\(text) is missing")
        }
        #expect(!page.contains("s3cr3t") && !page.contains("ann-alone"))
        let ids = page.split(separator: "?entry=").dropFirst().map { String($0.prefix(32)) }
        #expect(ids.count == 2)
        var contents: [String] = []
        for id in ids {
            let entry = try play.ask("GET", play.path + "?entry=\(id)", [cookie]).text
            #expect(!entry.contains("s3cr3t") && !entry.contains("ann-alone"))
            contents += [entry.contains("everybody") ? "shown" : "", entry.contains("credentials, and not shown") ? "not shown" : ""]
        }
        #expect(contents.filter { !$0.isEmpty }.sorted() == ["not shown", "shown"])
        #expect(try play.ask("GET", play.path + "?entry=0", [cookie]).text.contains("32 hexadecimal digits"))
        #expect(try play.ask("GET", play.path + "?prefix=users", [cookie]).text.contains("begins with a slash"))
        #expect(try play.ask("GET", play.path + "?tag=people", [cookie]).text.split(separator: "?entry=").count == 3)
    }

    @Test("secrets stay covered in links, in credential fields, and under their names in a stored content")
    func covered() throws {
        let fields = [
            "Cache-Control: max-age=60", "Link: </list?page=2&api_key=s3cr3t>; rel=\"next\"", "Content-Location: /list?api_key=s3cr3t",
            "X-Session-Token: s3cr3t",
        ]
        let content = #"{"next":"/list?page=2&api_key=s3cr3t","token":["s3cr3t"],"auth":{"key":"s3cr3t"},"name":"seen"}"#
        let proxy = try ProxyPlay(ScriptedOrigin { _ in [.json(content, fields)] }) { settings in
            settings.listening.adminListeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
            settings.admin.token = Array(StatusSessionTests.token.utf8)
        }
        #expect(try proxy.get("/list?api_key=s3cr3t").status == 200)
        let token = ("Authorization", "Bearer " + Self.token)
        let list = try #require(JSONValue(try proxy.admin("GET", "/-/entries").content))
        let id = try #require(list["entries"]?.array?.first?["id"]?.string)
        let page = try #require(TestClient(port: proxy.adminPort).get("/-/status?entry=\(id)", [token, ("Host", "localhost")])).text
        let told = try proxy.admin("GET", "/-/entries/\(id)").text
        for text in [page, told] { #expect(!text.contains("s3cr3t") && text.contains("/list?page=2&") && text.contains("X-Session-Token")) }
        #expect(page.contains("seen") && page.contains("&quot;auth&quot;:&quot;REDACTED&quot;"))
        #expect(try proxy.admin("GET", "/-/entries/\(id)?secrets=true").text.contains("api_key=s3cr3t>"))
    }

    @Test("its forms purge, softly and for good, what was shown")
    func purging() throws {
        let play = try Play()
        for target in ["/a/1", "/a/2", "/b", "/caf%C3%A9/%E2%80%AE/1"] { _ = try play.proxy.get(target) }
        let cookie = try play.enter()
        let form = try play.formToken(cookie)
        let fields = [cookie, ("Origin", "http://" + play.host), ("Sec-Fetch-Site", "same-origin")]
        let soft = try play.purge("token=\(form)&sure=yes&prefix=%2Fa%2F&how=soft", fields)
        #expect(soft.status == 303 && soft["Location"] == play.path + "?purged=2#store")
        #expect(try play.stored == 4)
        // The form says a path again as clients encode it, whatever it is made of.
        let encoded = "/caf%C3%A9/%E2%80%AE/"
        let listed = try play.ask("GET", play.path + "?prefix=" + PercentCoding.encode("/caf\u{e9}/\u{202e}/"), [cookie]).text
        #expect(listed.contains("name=\"prefix\" value=\"\(encoded)\"><label>"))
        let all = try play.purge("token=\(form)&sure=yes&prefix=\(PercentCoding.encode(encoded))&how=hard", fields)
        #expect(all["Location"] == play.path + "?purged=1#store")
        #expect(try play.stored == 3)
        #expect(try play.ask("GET", play.path + "?prefix=/" + String(repeating: "x", count: 1_024), [cookie]).text.contains("too long"))
        #expect(try play.ask("GET", play.path + "?purged=2", [cookie]).text.contains("2 stored responses were purged."))
        let page = try play.ask("GET", play.path + "?prefix=/b", [cookie]).text
        let id = try #require(page.split(separator: "?entry=").dropFirst().first?.prefix(32))
        #expect(try play.purge("token=\(form)&sure=yes&id=\(id)&how=hard", fields).status == 303)
        #expect(try play.stored == 2)
        #expect(try play.purge("token=\(form)&sure=yes&prefix=/a&all=true&how=hard", fields).status == 400)
        #expect(try play.stored == 2)
    }

    @Test("hostile targets stay text, also where they are looked for, and long ones are cut")
    func hostile() throws {
        let play = try Play()
        let targets = [
            "/%3Cscript%3Ealert(1)%3C/script%3E", "/'onmouseover='alert(1)", "/%E2%80%AE%D9%84", "/" + String(repeating: "x", count: 8_000),
        ]
        for target in targets { _ = try play.proxy.get(target) }
        let cookie = try play.enter()
        for query in ["", "?prefix=/&tag=%22%3E%3Cscript%3Ealert(2)%3C/script%3E", "?prefix=%22%3E%3Cscript%3E", "?prefix=/%E2%80%AE"] {
            let page = try play.ask("GET", play.path + query, [cookie]).text
            #expect(page.split(separator: "<script").count == 2 && page.split(separator: "</script").count == 2)
            #expect(!page.contains("'onmouse") && !page.contains("\u{202e}") && !page.contains(String(repeating: "x", count: 500)))
        }
    }
}
