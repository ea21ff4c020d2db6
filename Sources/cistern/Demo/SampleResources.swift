// Responses of the sample API of `cistern demo`: users, posts by user, a sum service, a login with personal data, and an HTML page. CORS
// permits one other origin.

import Glibc
import HTTPCore
import Identity

final class SampleResources {
    /// Origin of the web app that CORS permits.
    static let appOrigin = "https://app.example"

    let login: SampleLogin
    private static let users = [("Ada", "ada@example.com"), ("Grace", "grace@example.com"), ("Barbara", "barbara@example.com")]

    init() throws { login = try SampleLogin() }

    func respond(to request: SampleRequest) -> SampleResponse {
        var response = request.method == "OPTIONS" ? Self.preflight(request) : resource(request)
        guard request.field("origin") == Self.appOrigin else { return response }
        response.lines += "Access-Control-Allow-Origin: \(Self.appOrigin)\r\nVary: Origin\r\n"
        return response
    }

    private func resource(_ request: SampleRequest) -> SampleResponse {
        let path = request.path.split(separator: "/").map(String.init)
        switch (request.method, path.first) {
        case ("POST", "login"): return login.logIn(request.form)
        case ("POST", "token"): return login.refresh(request)
        case ("GET", "me"): return ownData(request)
        case ("GET", ".well-known"): return SampleResponse(json: login.keySet)
        case ("GET", "users"): return Self.users(path)
        case ("GET", "posts"): return Self.posts(request.arguments)
        case ("GET", "sum"): return Self.sum(request.arguments)
        case ("GET", nil), ("GET", "index.html"):
            return SampleResponse(
                type: "text/html", text: "<h1>Sample API</h1><p>/users /posts?userId=1 /sum?a=2&amp;b=4 /login /token /me</p>\n")
        case ("GET", _): return SampleResponse(404, json: "{\"error\":\"not found\"}")
        default: return SampleResponse(405, json: "{\"error\":\"only GET, and POST to /login and /token\"}")
        }
    }

    private static func preflight(_ request: SampleRequest) -> SampleResponse {
        var response = SampleResponse(text: "")
        response.lines =
            "Access-Control-Allow-Methods: GET, POST\r\nAccess-Control-Allow-Headers: authorization\r\nAccess-Control-Max-Age: 600\r\n"
        return response
    }

    private func ownData(_ request: SampleRequest) -> SampleResponse {
        guard let name = login.user(of: request), let user = Self.users.firstIndex(where: { $0.0.lowercased() == name }) else {
            return SampleResponse(401, json: "{\"error\":\"log in first\"}", "WWW-Authenticate: Bearer\r\n")
        }
        return SampleResponse(json: Self.user(user + 1), "Cache-Control: private, no-cache\r\n")
    }

    static func isUser(_ name: String) -> Bool { users.contains { $0.0.lowercased() == name } }

    private static func user(_ number: Int) -> String {
        "{\"id\":\(number),\"name\":\"\(users[number - 1].0)\",\"email\":\"\(users[number - 1].1)\"}"
    }

    private static func users(_ path: [String]) -> SampleResponse {
        if path.count == 1 { return SampleResponse(json: "[\((1...users.count).map(user).joined(separator: ","))]") }
        guard path.count == 2, let number = Int(path[1]), (1...users.count).contains(number) else {
            return SampleResponse(404, json: "{\"error\":\"no such user\"}")
        }
        return SampleResponse(json: user(number))
    }

    private static func posts(_ arguments: [(name: String, value: String)]) -> SampleResponse {
        let user = arguments.first { $0.name == "userId" }.flatMap { Int($0.value) }
        let posts = (1...6).filter { user == nil || ($0 - 1) / 2 + 1 == user }
            .map { "{\"id\":\($0),\"userId\":\(($0 - 1) / 2 + 1),\"title\":\"Post \($0)\"}" }.joined(separator: ",")
        return SampleResponse(json: "[\(posts)]", "Cache-Control: max-age=60\r\n")
    }

    private static func sum(_ arguments: [(name: String, value: String)]) -> SampleResponse {
        let numbers = arguments.compactMap { Double($0.value) }
        guard numbers.count == arguments.count, !numbers.isEmpty else { return SampleResponse(400, json: "{\"error\":\"numbers only\"}") }
        return SampleResponse(json: "{\"sum\":\(numbers.reduce(0, +))}")
    }
}

/// Logins of the sample API: signed tokens with a short lifetime, and their refresh.
final class SampleLogin {
    struct NoKey: Error, CustomStringConvertible {
        let description = "no key for the sample API's tokens can be made"
    }

    static let issuer = "https://sample.example"
    static let audience = "sample"
    private static let lifetime = 60
    /// Maximum number of known tokens. At the limit all are forgotten, and users must log in again.
    private static let limit = 1_000

    private let signer: TokenSigner
    private var issued: [String: (user: String, end: Int)] = [:]
    private var count = 0

    init() throws(NoKey) {
        guard let signer = TokenSigner() else { throw NoKey() }
        self.signer = signer
    }

    var keySet: String { signer.keySet }

    func logIn(_ form: [(name: String, value: String)]) -> SampleResponse {
        guard let user = form.first(where: { $0.name == "user" })?.value, SampleResources.isUser(user) else {
            return SampleResponse(401, json: "{\"error\":\"user is one of ada, grace and barbara\"}")
        }
        return issue(to: user)
    }

    /// Issues a new token for a known one, also for an expired one. The token thus doubles as a refresh token.
    func refresh(_ request: SampleRequest) -> SampleResponse {
        guard let known = issued[Self.token(request)] else { return SampleResponse(401, json: "{\"error\":\"log in first\"}") }
        return issue(to: known.user)
    }

    /// The user of the request's token; nil if it has no valid token.
    func user(of request: SampleRequest) -> String? {
        guard let known = issued[Self.token(request)], time(nil) < known.end else { return nil }
        return known.user
    }

    private func issue(to user: String) -> SampleResponse {
        let now = time(nil)
        count += 1
        let claims = """
            {"iss":"\(Self.issuer)","aud":"\(Self.audience)","sub":"\(user)","iat":\(now),"exp":\(now + Self.lifetime),"jti":"\(count)"}
            """
        guard let token = signer.token(claims) else { return SampleResponse(500, json: "{\"error\":\"no token can be signed\"}") }
        if issued.count >= Self.limit { issued = [:] }
        issued[token] = (user, now + Self.lifetime)
        let content = "{\"access_token\":\"\(token)\",\"token_type\":\"Bearer\",\"expires_in\":\(Self.lifetime)}"
        return SampleResponse(json: content, "Cache-Control: no-store\r\n")
    }

    private static func token(_ request: SampleRequest) -> String {
        String((request.field("authorization") ?? "").drop { $0 != " " }.dropFirst())
    }
}
