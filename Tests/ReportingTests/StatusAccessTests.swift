// Tests access to the status page: numbers and paths for every client, exchanges for administrators only, and nothing for scripts of other
// origins.

import Addresses
import Administration
import Downstream
import HTTPCore
import JSON
import ReverseProxy
import TestSupport
import Testing

@Suite("Access to the status page", .play)
struct StatusAccessTests {
    private static let token = "0123456789abcdef"
    private static let exchanges = "/-/status/exchanges"

    private final class Play {
        let proxy: ProxyPlay

        init(hasToken: Bool = true, _ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws {
            let origin = ScriptedOrigin { request in
                [
                    .json(
                        "{\"secret\":\"upst0red\"}",
                        [request.target.hasPrefix("/private") ? "Cache-Control: no-store" : "Cache-Control: max-age=60"])
                ]
            }
            proxy = try ProxyPlay(origin) { settings in
                settings.listening.adminListeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
                if hasToken { settings.admin.token = Array(StatusAccessTests.token.utf8) }
                configure(&settings)
            }
        }

        func ask(_ method: String = "GET", _ target: String, _ fields: [(String, String)] = [], content: String? = nil) throws
            -> TestResponse
        {
            let fields = fields.contains { $0.0 == "Host" } ? fields : [("Host", "127.0.0.1:\(proxy.adminPort)")] + fields
            return try #require(TestClient(port: proxy.adminPort).request(method, target, fields, content: content))
        }
    }

    private static let bearer = ("Authorization", "Bearer " + token)

    private static func basic(_ pair: String) -> (String, String) { ("Authorization", "Basic " + Base64.encode(Array(pair.utf8))) }

    @Test("clients see numbers, states and paths on the status page, but no argument values or credentials")
    func visibleToClients() throws {
        let play = try Play { $0.admin.allowsFaults = true }
        let targets = [
            "/a?token=s3cr3t&page=s3cr3t", "/b;session=s3cr3t/x", "/private/c%3Fkey=s3cr3t", "/private/d?a=s3cr3t", "/e=s3cr3t",
            "/f#s3cr3t",
        ]
        for target in targets { _ = try play.proxy.get(target, [("Authorization", "Bearer s3cr3t"), ("Cookie", "id=s3cr3t")]) }
        play.proxy.origin.down()
        for target in targets + ["/never?user=s3cr3t"] { _ = try play.proxy.get(target) }
        #expect(try play.proxy.admin("PUT", "/-/mode?mode=replay&prefix=/held?token=s3cr3t").status == 200)
        #expect(try play.proxy.admin("POST", "/-/faults?path=/broken/**&effect=refuse&percent=20&for=120").status < 300)
        play.proxy.time.advance(by: .seconds(2))
        for fields in [[], [("Host", "localhost")], [("Host", "[::1]:1")]] as [[(String, String)]] {
            let page = try play.ask("GET", "/-/status", fields)
            for text in [
                ">/a<", ">/b<", ">/private/c<", ">/private/d<", ">/never<", ">/held<", "mode replay", ">/broken/**<", "20 % of requests",
            ] {
                #expect(page.text.contains(text), "\(text) is missing")
            }
            #expect(!page.text.contains("s3cr3t") && !page.text.contains("upst0red") && !page.text.contains("id=\"last\""))
        }
    }

    @Test("the administrator sees the last exchanges with the token, as a password or through the Unix socket")
    func administrator() throws {
        let play = try Play()
        _ = try play.proxy.get("/users/1?api_key=s3cr3t&page=7")
        let rows: [(fields: [(String, String)], status: Int)] = [
            ([Self.bearer], 200), ([Self.basic("admin:" + Self.token)], 200), ([Self.basic(":" + Self.token)], 200),
            ([("Authorization", "basic  " + Base64.encode(Array("a:\(Self.token)".utf8)))], 200), ([], 401),
            ([Self.basic(Self.token)], 401),
            ([Self.basic("\(Self.token):")], 401), ([Self.basic("a:\(Self.token)x")], 401), ([Self.basic("a:b:\(Self.token)")], 401),
            ([Self.basic("a:" + Self.token.dropLast())], 401), ([("Authorization", "Basic ====")], 401),
            ([("Authorization", "Basic")], 401),
            ([("Authorization", "Bearer " + Self.token.dropLast())], 401), ([Self.bearer, Self.basic("a:" + Self.token)], 401),
            ([Self.bearer, ("Origin", "http://evil.test")], 401), ([Self.basic("a:" + Self.token), ("Origin", "null")], 401),
        ]
        for row in rows {
            let page = try play.ask("GET", Self.exchanges, row.fields)
            #expect(page.status == row.status, "\(row.fields)")
            let basic = "Basic realm=\"cistern\", charset=\"UTF-8\""
            // A page of another origin causes no password prompt.
            let challenge = row.fields.contains { $0.0 == "Origin" } ? "Bearer realm=\"cistern\"" : basic
            #expect(page["WWW-Authenticate"] == (row.status == 401 ? challenge : nil))
            #expect(page.text.contains("/users/1?api_key=REDACTED&amp;page=7") == (row.status == 200), "\(row.fields)")
            #expect(!page.text.contains("s3cr3t") && !page.text.contains("upst0red"))
        }
        #expect(try play.proxy.admin("GET", Self.exchanges).text.contains("page=7"))
        #expect(
            try !play.ask("GET", "/-/status", [Self.bearer]).text.contains("page=7"),
            "requests for the status page do not affect its content")
        let refused = rows.filter { $0.status == 401 }.count
        let line = try play.proxy.admin("GET", "/metrics").text.split(separator: "\n").first { $0.hasPrefix("cistern_admin_refused_total") }
        #expect(line?.hasSuffix(" \(refused)") == true, "guesses are counted as those of the interface: \(line ?? "")")
    }

    @Test("a password grants no other page and no changes, so forms of other sites have no effect")
    func forms() throws {
        let play = try Play()
        _ = try play.proxy.get("/a")
        let password = Self.basic("admin:" + Self.token)
        for (method, target) in [
            ("POST", "/-/purge?prefix=/"), ("GET", "/-/why"), ("GET", "/-/entries"), ("POST", "/-/status"), ("POST", Self.exchanges),
            ("POST", "/-/reload"), ("PUT", "/-/mode?mode=offline"), ("DELETE", "/-/faults"), ("GET", "/-/stats"),
        ] {
            #expect(try play.ask(method, target, [password]).status == 401, "\(method) \(target)")
        }
        for target in ["/-/status", Self.exchanges] { #expect(try play.ask("POST", target, [Self.bearer]).status == 405) }
        for target in ["/-/status/", "/-/status/x", "/-/status/enter", Self.exchanges + "/x"] {
            #expect(try play.ask("GET", target, [Self.bearer]).status == 404)
        }
        #expect(try play.ask("POST", "/-/status/code", [Self.bearer]).status == 404)
        #expect(try play.ask("GET", "/-/status?prefix=/").status == 400)
        #expect(try play.ask("GET", "/-/status", content: "x").status == 413)
        #expect(JSONValue(try play.proxy.admin("GET", "/-/entries").content)?["entries"]?.array?.count == 1)
    }

    @Test("without a configured token only the Unix socket shows exchanges, and no password is requested")
    func noToken() throws {
        let play = try Play(hasToken: false)
        _ = try play.proxy.get("/a")
        for fields in [[], [Self.basic("a:"), Self.bearer]] as [[(String, String)]] {
            let page = try play.ask("GET", Self.exchanges, fields)
            #expect(page.status == 403 && page["WWW-Authenticate"] == nil && page.text.contains("admin.token_file"))
        }
        #expect(try play.ask("GET", "/-/status").text.contains(">/a<"))
        #expect(try play.proxy.admin("GET", Self.exchanges).text.contains("id=\"last\""))
    }

    @Test("scripts of other origins cannot read either page, also with DNS rebinding")
    func crossOrigin() throws {
        let play = try Play()
        _ = try play.proxy.get("/visible")
        for target in ["/-/status", Self.exchanges] {
            for fields in [[Self.bearer], [Self.bearer, ("Origin", "http://evil.test")]] {
                let page = try play.ask("GET", target, fields)
                for name in ["Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Set-Cookie"] { #expect(page[name] == nil) }
                #expect(page["Cache-Control"] == "no-store" && page["X-Content-Type-Options"] == "nosniff")
                if page.status == 200 {
                    #expect(page["Cross-Origin-Resource-Policy"] == "same-origin" && page["X-Frame-Options"] == "DENY")
                }
            }
        }
        let foreign: [[(String, String)]] = [
            [("Host", "evil.test")], [("Host", "evil.test:\(play.proxy.adminPort)")], [("Host", "127.0.0.1.evil.test")],
            [("Host", "localhost.evil.test")], [("Origin", "http://evil.test")], [("Origin", "null")],
        ]
        for fields in foreign {
            let page = try play.ask("GET", "/-/status", fields)
            #expect(page.status == 200 && page.text.contains("The upstream is up.") && !page.text.contains("/visible"), "\(fields)")
        }
        #expect(
            try play.ask("OPTIONS", "/-/status", [("Origin", "http://evil.test"), ("Access-Control-Request-Method", "GET")]).status == 401)
    }

    @Test(
        "paths are shown only for hosts that are addresses, localhost, or configured or certificate names",
        arguments: [
            ("admin.test", nil, true), ("a.admin.test:9443", nil, true), ("admin.test", "http://admin.test", false),
            ("admin.test.evil.test", nil, false), ("evil.test", nil, false), ("[::1]", nil, true), ("[::1]:80", nil, true),
            ("[evil]:1", nil, false), ("127.1", nil, false), ("2130706433", nil, false), ("localhost:abc", nil, false),
            ("localhost.", nil, false), ("127.0.0.1:1:2", nil, false), ("localhost", "", false), ("LocalHost:1", nil, true),
            ("named.test:9", nil, true), ("Named.Test", nil, true), ("a.named.test", nil, false), ("named.test.evil.test", nil, false),
            ("a.many.test", nil, true), ("a.b.many.test", nil, false), ("many.test", nil, false), ("ported.test:81", nil, true),
            ("ported.test", nil, false),
        ] as [(String, String?, Bool)])
    func names(host: String, origin: String?, isOwn: Bool) {
        var settings = AdminSettings()
        settings.token = Array(Self.token.utf8)
        settings.names = ServedNames(["named.test", "*.many.test", "ported.test:81"])
        for isAdministrator in [false, true] {
            var fields = Fields()
            fields.append(name: "Host", value: host)
            if let origin { fields.append(name: "Origin", value: origin) }
            if isAdministrator { fields.append(name: "Authorization", value: Self.bearer.1) }
            let head = RequestHead(method: .get, target: Array("/-/status".utf8)[...], version: .http11, fields: fields)
            let isCertified = { (name: String) in name == "admin.test" || name == "a.admin.test" }
            let expected: StatusAccess = origin != nil ? .numbers : isAdministrator ? .exchanges : isOwn ? .paths : .numbers
            #expect(StatusAccess(head, through: .network, settings: settings, isCertified: isCertified) == expected)
            #expect(StatusAccess(head, through: .unixSocket, settings: settings, isCertified: isCertified) == .exchanges)
        }
    }

    @Test("data is collected once for all viewers and again after two seconds")
    func gathered() throws {
        let play = try Play()
        func shows(_ target: String, _ page: String = "/-/status") throws -> Bool {
            try play.ask("GET", page, [Self.bearer]).text.contains(target)
        }
        _ = try play.proxy.get("/one")
        #expect(try shows("/one"))
        _ = try play.proxy.get("/two")
        play.proxy.time.advance(by: .milliseconds(1_999))
        for page in ["/-/status", Self.exchanges] { #expect(try shows("/one", page) && !shows("/two", page)) }
        play.proxy.time.advance(by: .milliseconds(1))
        for page in ["/-/status", Self.exchanges] { #expect(try shows("/two", page)) }
    }

    @Test("hostile targets are shown as text, and long ones are truncated")
    func hostile() throws {
        let play = try Play()
        let targets = [
            "/%3Cscript%3Ealert(1)%3C/script%3E", "/'onmouseover='alert(1)", "/%E2%80%AE%D9%84", "/" + String(repeating: "x", count: 8_000),
        ]
        for target in targets { _ = try play.proxy.get(target) }
        for target in ["/-/status", Self.exchanges] {
            let page = try play.ask("GET", target, [Self.bearer]).text
            #expect(page.split(separator: "<script").count == 2 && page.split(separator: "</script").count == 2)
            #expect(!page.contains("'onmouse") && !page.contains("\u{202e}") && !page.contains(String(repeating: "x", count: 500)))
        }
    }
}
