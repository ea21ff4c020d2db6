// Table tests of responses that count as upstream failures, and of responses that do not replace a good stored response.

import HTTPCore
import Testing

@testable import CachePolicy

private func held(_ change: (inout LastGood.Copy) -> Void = { $0.isJSON = true }) -> LastGood.Copy {
    var copy = LastGood.Copy()
    change(&copy)
    return copy
}

/// A request for /a?x=1, its response, the stored response, and the expected failure.
struct FaultRow: CustomTestStringConvertible, Sendable {
    let status: UInt16
    let lines: String
    let expected: UpstreamFault?
    /// For a redirect: whether its target is replaced without a crowd.
    var isPage: Bool?
    var accept = ""
    var copy = held()
    var target = "/a?x=1"
    var upstream: UpstreamOrigin?

    init(_ status: UInt16, _ lines: String, _ expected: UpstreamFault?, _ change: (inout FaultRow) -> Void = { _ in }) {
        (self.status, self.lines, self.expected) = (status, lines, expected)
        change(&self)
    }

    /// A redirect of `target`.
    static func redirect(
        _ location: String, _ status: UInt16 = 303, from target: String = "/jobs/1", isMeant: Bool,
        _ change: (inout FaultRow) -> Void = { _ in }
    ) -> Self {
        FaultRow(status, "Location: \(location)", nil) {
            ($0.target, $0.isPage) = (target, !isMeant)
            change(&$0)
        }
    }

    var testDescription: String { "\(status) \(lines) to \(target) \(accept)" }

    private var asked: RequestHead {
        request(.get, "Host: api.test:81" + (accept.isEmpty ? "" : "\nAccept: \(accept)"), target: target)
    }
    private var response: ResponseHead { ResponseHead(status: Status(rawValue: status), fields: fields(lines)) }

    func fault(_ strictness: Strictness = .rescue) -> UpstreamFault? {
        LastGood.faultOfHead(response, beside: copy, to: asked, strictness: strictness)
    }

    func surprise(_ strictness: Strictness = .rescue) -> Surprise? {
        LastGood.surprise(response, beside: copy, to: asked, at: upstream, strictness: strictness)
    }
}

@Suite("Failures and unexpected responses despite an HTTP response")
struct LastGoodTests {
    private static let json = "Content-Type: application/json"
    private static let html = "Content-Type: text/html; charset=utf-8"
    private static let csv = "Content-Type: text/csv"
    private static let plain = "Content-Type: text/plain"
    private static let problem = "Content-Type: application/problem+json; charset=utf-8"

    private static let statuses: [FaultRow] = [
        FaultRow(500, "X: 1", .serverError), FaultRow(501, "X: 1", nil), FaultRow(429, "X: 1", .rateLimited), FaultRow(404, "X: 1", nil),
        FaultRow(401, "X: 1", nil), FaultRow(301, "Location: /b", nil), FaultRow(511, "X: 1", .serverError),
        FaultRow(522, "X: 1", .serverError), FaultRow(505, "X: 1", nil), FaultRow(506, "X: 1", nil), FaultRow(999, "X: 1", .serverError),
        FaultRow(204, "X: 1", nil), FaultRow(206, "X: 1", .unexpectedStatus),
        FaultRow(206, "Content-Range: bytes 0-1/9", .unexpectedStatus), FaultRow(206, "Content-Range: items 0-1/9", nil),
        FaultRow(206, "Content-Range: 0-1/9", nil), FaultRow(304, "X: 1", .unexpectedStatus),
    ]

    private static let types: [FaultRow] = [
        FaultRow(200, html, .unexpectedType), FaultRow(200, json, nil), FaultRow(200, "X: 1", nil), FaultRow(200, plain, .unexpectedType),
        FaultRow(200, json + "\nContent-Encoding: compress", .undecodable), FaultRow(200, json + "\nContent-Encoding: gzip", nil),
        // A web page instead of an image.
        FaultRow(200, html, .unexpectedType) { $0.copy = held { $0.isHTML = false } },
        FaultRow(200, "Content-Type: application/xhtml+xml", .unexpectedType) { $0.copy = held { $0.isHTML = false } },
        FaultRow(200, html, nil) { $0.copy = held { $0.isHTML = true } }, FaultRow(200, html, nil) { $0.copy = held { _ in } },
        FaultRow(200, csv, nil) { $0.copy = held { $0.isHTML = false } },
        // Media types that the client requests explicitly.
        FaultRow(200, csv, nil) { $0.accept = "text/csv" }, FaultRow(200, csv + "; header=present", nil) { $0.accept = "Text/CSV;q=0.1" },
        FaultRow(200, csv, nil) { $0.accept = "application/json, text/csv" },
        FaultRow(200, csv, .unexpectedType) { $0.accept = "text/csv;q=0, application/json" },
        FaultRow(200, csv, .unexpectedType) { $0.accept = "text/*" }, FaultRow(200, csv, .unexpectedType) { $0.accept = "*/*" },
        FaultRow(200, csv, .unexpectedType) { $0.accept = "application/json" },
        FaultRow(200, "Content-Type: */*", .unexpectedType) { $0.accept = "*/*" },
        FaultRow(200, html, .unexpectedType) { $0.accept = "text/html, application/json" },
        FaultRow(200, html, .unexpectedType) { ($0.accept, $0.copy) = ("text/html", held { $0.isHTML = false }) },
        FaultRow(200, plain, nil) { $0.accept = "text/plain" },
        // An Accept field that many clients send by default.
        FaultRow(200, plain, .unexpectedType) { $0.accept = "application/json, text/plain, */*" },
        // Files, such as the result of a job.
        FaultRow(200, "Content-Type: application/pdf", nil), FaultRow(200, "Content-Type: Image/PNG", nil) { $0.accept = "*/*" },
        FaultRow(200, "Content-Type: application/zip", nil), FaultRow(200, "Content-Type: application/octet-stream", .unexpectedType),
        FaultRow(200, csv + "\nContent-Disposition: attachment; filename=a.csv", nil),
        FaultRow(200, plain + "\nContent-Disposition: Attachment", nil),
        FaultRow(200, csv + "\nContent-Disposition: inline", .unexpectedType),
        FaultRow(200, html + "\nContent-Disposition: attachment", .unexpectedType),
        FaultRow(200, problem + "\nContent-Disposition: attachment", .unexpectedType),
        // The description of an error is no success, whatever the client accepts.
        FaultRow(200, problem, .unexpectedType),
        FaultRow(200, problem, .unexpectedType) { $0.accept = "application/json, application/problem+json" },
        FaultRow(404, problem, nil), FaultRow(403, problem, nil), FaultRow(200, problem, nil) { $0.copy = held { $0.isProblem = true } },
    ]

    private static let upstream = UpstreamOrigin(
        Array("http://inner.test:8000".utf8), basePath: Array("/auth-api".utf8), others: [UpstreamOrigin(Array("https://spare.test".utf8))])

    private static let redirects: [FaultRow] = [
        .redirect("/login", 302, isMeant: false), .redirect("http://o/jobs/1?x=1", 302, isMeant: true),
        .redirect("/results/1", isMeant: true), .redirect("http://API.test:81/results/1", isMeant: true),
        .redirect("https://api.test:81/results/1", isMeant: true), .redirect("//api.test:81/results/1", isMeant: true),
        .redirect("../results/1", isMeant: true), .redirect("1/result", isMeant: true), .redirect("?state=done", isMeant: true),
        .redirect("", isMeant: true), .redirect("/authors/7", isMeant: true), .redirect("/lessons/1", isMeant: true),
        .redirect("/results/1?author=7", isMeant: true),
        // Other origins and schemes.
        .redirect("http://api.test/results/1", isMeant: true), .redirect("https://other.test/results/1", isMeant: true),
        .redirect("//other.test/results/1", isMeant: true), .redirect("/\\other.test/results/1", isMeant: true),
        .redirect("http://api.test:81@other.test/", isMeant: true), .redirect("app:results", isMeant: true),
        .redirect("ftp://api.test:81/results/1", isMeant: true), .redirect("http:results/1", isMeant: true),
        .redirect("https://files.test/b/1.json?X-Amz-Signature=ab&X-Amz-Security-Token=c", 302, isMeant: true),
        .redirect("https://files.test/b/1?sv=2024&sig=a%2Fb&se=2026", 307, isMeant: true),
        .redirect("https://login.test/", isMeant: false), .redirect("https://sso.corp.test/x", isMeant: false),
        .redirect("https://other.test/login", isMeant: false), .redirect("https://other.test/", 302, isMeant: false),
        .redirect("https://other.test/maintenance", 302, isMeant: false), .redirect("http://portal.test", 307, isMeant: false),
        // Login pages.
        .redirect("/login", isMeant: false), .redirect("/users/SignIn?next=/jobs/1", isMeant: false),
        .redirect("/account/log-in", isMeant: false), .redirect("/auth", isMeant: false), .redirect("/auth-service/start", isMeant: true),
        .redirect("/sso.php", isMeant: false), .redirect("/oauth2/authorize", isMeant: false), .redirect("/saml2/redirect", isMeant: false),
        .redirect("/session_expired", isMeant: false), .redirect("/start?session=new", isMeant: false),
        .redirect("/?login", isMeant: false), .redirect("/#/login", isMeant: false), .redirect("login.html", isMeant: false),
        .redirect("http://api.test:81/logon", isMeant: false),
        // A prefix that both paths share does not count.
        .redirect("/sessions/1/result", from: "/sessions/1", isMeant: true),
        .redirect("/oauth/results/1", from: "/oauth/jobs/1", isMeant: true),
        .redirect("/jobs/login", from: "/jobs/1", isMeant: false),
        // Host names and base path of the upstream.
        .redirect("http://inner.test:8000/auth-api/results/1", isMeant: true) { $0.upstream = upstream },
        .redirect("/auth-api/results/1", isMeant: true) { $0.upstream = upstream },
        .redirect("https://spare.test:443/results/1", isMeant: true) { $0.upstream = upstream },
        .redirect("http://inner.test/results/1", isMeant: true) { $0.upstream = upstream },
        .redirect("/auth-api/login", isMeant: false) { $0.upstream = upstream },
    ]

    private static let errorPages: [FaultRow] =
        [
            "/maintenance", "/Maintenance-Mode", "/m%61intenance", "/error", "/errors/503", "/service_unavailable", "/sorry", "/captcha/1",
            "/cdn-cgi/challenge-platform/h", "/blocked", "/link-expired", "/50x", "/50x.html", "/start.html", "/start.HTM?x=1",
            "/index%2Ehtml", "/", "/?x=1", "/#/start", "http://api.test:81/", "http://api.test:81", "../", "/results/..",
        ].flatMap { location in
            [302, 307].map { .redirect(location, $0, isMeant: false) } + [.redirect(location, isMeant: true)]
        } + [
            .redirect("/terrors/1", 302, isMeant: true), .redirect("/challenges/1", 302, isMeant: true),
            .redirect("/results/503", 302, isMeant: true), .redirect("/results/1?error=1", 302, isMeant: true),
            .redirect("/results/1.html.json", 302, isMeant: true), .redirect("/results/", 302, isMeant: true),
            // A prefix or an ending that both paths share does not count.
            .redirect("/errors/2", 302, from: "/errors/1", isMeant: true), .redirect("/b.html", 302, from: "/a.htm", isMeant: true),
            .redirect("/maintenance", 302, isMeant: true) { $0.copy = held { $0.status = 302 } },
        ]

    private static let logins: [FaultRow] = [
        .redirect("/cas/start", isMeant: false), .redirect("/wsfed", isMeant: false), .redirect("/cassettes/1", isMeant: true),
        .redirect("/adfs/ls?wtrealm=x&wa=wsignin1.0", isMeant: false), .redirect("/results/1?wa=wide", isMeant: true),
        .redirect("/l%6Fgin", isMeant: false), .redirect("/%73so", 302, isMeant: false),
        .redirect("/start?%73ession=expired", isMeant: false),
        .redirect("/users/../login", isMeant: false), .redirect("/results/1%", isMeant: true),
    ]

    /// Login and error pages of frameworks, servers and gateways.
    private static let knownPages: [FaultRow] =
        [
            "/login", "/login/", "/login.html", "/login.php?x=1", "/login/index.php", "/login;jsessionid=1A", "/login/github",
            "/Account/Login", "/users/sign_in", "/signin", "/session/new", "/user_sessions/new", "/session/expired", "/auth/login",
            "/accounts/login/?next=/jobs/1", "/wp-login.php", "/oauth/authorize", "/oauth2/authorization/google",
            "/oauth2/start?rd=%2Fjobs%2F1", "/sso", "/sso/start", "/saml", "/saml/init",
            "/auth/realms/a/protocol/openid-connect/auth?client_id=1",
            "/welcome?next=/jobs/1",
            "/welcome?return_to=%2Fjobs%2F1%3Fx%3D1", "/welcome?ReturnUrl=http%3A%2F%2Fapi.test%3A81%2Fjobs%2F1", "/welcome?SAMLRequest=ab",
            "https://accounts.test/o/oauth2/v2/auth?a=1", "https://auth-eu.test/x", "https://a.auth0.com/u/start", "/app#!/login",
        ].map { .redirect($0, isMeant: false) }
        + [
            "/error", "/error.jsp", "/errors/500", "/errors/404.html", "/static/503.html", "/500.html", "/maintenance", "/maintenance.html",
            "/static/maintenance.html", "/under-maintenance", "/index.html", "/errors/index.html",
        ].map { .redirect($0, 302, isMeant: false) }

    /// Redirects to other resources, with words of login and error pages in their names.
    private static let resources: [FaultRow] = [
        "/courses/designing-apis", "/tasks/assigning/5", "/blogindex", "/catalogin/5", "/obsession/5", "/obsession", "/users/5/sessions/9",
        "/events/1/sessions/keynote", "/yoga-sessions/5", "/next-session/3", "/sessions/9", "/session", "/oauth-apps/5",
        "/oauth/applications/5", "/docs/authorization", "/audit/auth/2026", "/stats/login/2026", "/posts/error-handling",
        "/posts/how-to-login", "/crash/errors/77", "/crash/errors/503", "/maintenance-windows/3", "/maintenance/3", "/reports/index.html",
        "/results/1.html", "/results/1.HTM?x=1", "/results/1?next=/jobs/2", "/results/1?job=/jobs/1", "/results/1?session=5",
        "/results/1?sessionId=5", "/results/1?authorId=5",
        "https://pipelines.test/1/signedlogcontent?urlExpires=x&urlSigningMethod=HMACV1&urlSignature=x", "https://files.test/1?auth=ab",
        "https://files.test/f?token=ABC", "https://designing.test/1", "https://catalogin.test/1",
    ].map { .redirect($0, 302, isMeant: true) }

    @Test(
        "a failure is recognized by status, content type and redirect target",
        arguments: statuses + types + redirects + errorPages + logins + knownPages + resources)
    func faults(_ row: FaultRow) {
        #expect(row.fault() == row.expected)
        #expect(row.fault(.strict) == (row.status == 500 ? .serverError : nil))
        #expect(row.surprise(.strict) == nil)
        guard let isPage = row.isPage else { return }
        if case .page = row.surprise() { #expect(isPage) } else { #expect(!isPage) }
    }

    @Test(
        "beside a stored response, some statuses and content types are unexpected",
        arguments: [
            (404, "Content-Type: text/html", held(), .notFound), (404, json, held(), .notFound), (404, json, held { $0.status = 404 }, nil),
            (410, json, held(), nil), (401, json, held(), nil), (204, "X: 1", held(), nil), (205, "X: 1", held(), nil),
            (403, html, held(), .forbidden), (403, "X: 1", held(), .forbidden),
            (403, json, held(), nil), (403, html, held { $0.isHTML = false }, .forbidden), (403, html, held { $0.isHTML = true }, nil),
            (301, "Location: /b", held(), nil), (302, "X: 1", held(), nil), (302, "Location: /a?x=2", held(), nil),
            (302, "Location: /login", held { $0.status = 302 }, nil), (200, json, held(), nil), (503, json, held(), nil),
        ] as [(UInt16, String, LastGood.Copy, Surprise?)])
    func surprises(status: UInt16, lines: String, copy: LastGood.Copy, expected: Surprise?) {
        #expect(FaultRow(status, lines, nil) { $0.copy = copy }.surprise() == expected)
    }

    @Test("a redirect is identified by the origin and path of its target, without arguments")
    func addresses() {
        func address(_ location: String, from target: String = "/a") -> Surprise? {
            FaultRow.redirect(location, 302, from: target, isMeant: true).surprise()
        }
        #expect(address("https://files.test/b?sig=1") == address("https://Files.test/b?sig=2#c", from: "/d"))
        #expect(address("https://files.test/b") != address("https://files.test/c"))
        #expect(address("https://files.test/b") != address("https://other.test/b") && address("/b") != address("https://other.test/b"))
        #expect(address("/b?x=1") == address("http://api.test:81/b", from: "/d"))
    }

    @Test("whether the stored response is HTML is read from its head")
    func isHTML() {
        func isHTML(_ type: String, beside response: String) -> Bool? {
            let stored = stored(type)
            let head = ResponseHead(status: 200, fields: fields(response))
            return LastGood.Copy(stored.metadata, head: stored.bytes.span, beside: head).isHTML
        }
        #expect(isHTML("Content-Type: image/png", beside: Self.html) == false)
        #expect(isHTML("Content-Type: text/html", beside: Self.html) == true)
        #expect(isHTML("X: 1", beside: Self.html) == nil)
        // Not determined, because the decision does not need it.
        #expect(isHTML("Content-Type: image/png", beside: Self.csv) == nil)
    }

    @Test(
        "a worse response does not replace a good stored response",
        arguments: [
            (404, html, held(), .status), (405, json, held(), .status), (301, "Location: /login", held(), .status),
            (308, "Location: /b", held(), .status), (300, json, held(), .status), (501, json, held(), .status),
            (505, json, held(), .status),
            (410, json, held(), .status), (403, json, held(), .status), (200, json, held(), nil), (203, json, held(), nil),
            (200, "X: 1", held(), nil), (200, csv, held(), .contentType), (200, html, held(), .contentType),
            (204, "X: 1", held(), .noContent), (201, json, held(), .status), (202, json, held(), .status),
            (202, json, held { $0.status = 203 }, .status), (202, json, held { $0.status = 202 }, nil),
            (200, json, held { $0.status = 202 }, nil), (200, html, held { $0.isHTML = false }, .contentType),
            (200, html, held { $0.isHTML = true }, nil),
            (200, csv, held { $0.isHTML = false }, nil), (204, "X: 1", held { $0.status = 204 }, nil),
            // A stored response without a success status may be replaced.
            (404, html, held { $0.status = 404 }, nil), (200, html, held { ($0.status, $0.isJSON) = (404, true) }, nil),
            (301, "Location: /b", held { $0.status = 301 }, nil),
        ] as [(UInt16, String, LastGood.Copy, NotStoredReason?)])
    func obstacles(status: UInt16, lines: String, copy: LastGood.Copy, expected: NotStoredReason?) {
        let response = ResponseHead(status: Status(rawValue: status), fields: fields(lines))
        #expect(LastGood.obstacle(response, replacing: copy, strictness: .rescue) == expected)
        #expect(LastGood.obstacle(response, replacing: copy, strictness: .strict) == nil)
    }

    @Test("JSON that violates RFC 8259 does not replace valid JSON")
    func lenient() {
        let response = ResponseHead(status: 200, fields: fields(Self.json))
        for (copy, expected) in [
            (held(), NotStoredReason.invalidJSON), (held { ($0.isJSON, $0.isLenient) = (true, true) }, nil), (held { _ in }, nil),
        ] {
            #expect(LastGood.obstacle(response, isLenient: true, replacing: copy, strictness: .rescue) == expected)
            #expect(LastGood.obstacle(response, replacing: copy, strictness: .rescue) == nil)
        }
        #expect(LastGood.Worth.lenientJSON < .json && .other < LastGood.Worth.lenientJSON)
    }
}
