// A client that keeps cookies, and an origin that sets them and names the client in its responses.

/// Cookie handling of a client such as URLSession: stores all cookies that are set, and sends all of them with each request.
package struct CookieClient {
    package var cookies: [String: String] = [:]
    package var authorization: String?

    package init(cookies: [String: String] = [:], authorization: String? = nil) {
        (self.cookies, self.authorization) = (cookies, authorization)
    }

    package var fields: [(String, String)] {
        let cookie = cookies.isEmpty ? [] : [("Cookie", cookies.map { "\($0)=\($1)" }.shuffled().joined(separator: "; "))]
        return cookie + (authorization.map { [("Authorization", $0)] } ?? [])
    }

    package mutating func request(_ target: String, _ play: ProxyPlay, _ more: [(String, String)] = []) throws -> TestResponse {
        try request("GET", target, play, more)
    }

    package mutating func request(
        _ method: String, _ target: String, _ play: ProxyPlay, _ more: [(String, String)] = [], content: String? = nil
    ) throws -> TestResponse {
        let response = try play.request(method, target, fields + more, content: content)
        for line in response.all("Set-Cookie") {
            let pair = line.prefix { $0 != ";" }.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            cookies[String(pair[0])] = pair.count > 1 ? String(pair[1]) : ""
        }
        return response
    }
}

/// Responds with the user, and sets the cookies named by the request's Sec-Give field. Responses under /public are public. Rejects requests
/// for /reject.
package func cookieOrigin() -> ScriptedOrigin {
    ScriptedOrigin { request in
        let who = "\(CookieNames.canonical(request["Cookie"] ?? ""))|\(request["Authorization"] ?? "")"
        var fields = (request["Sec-Give"]?.split(separator: " ") ?? []).map { "Set-Cookie: \($0); Path=/" }
        if request.target.hasPrefix("/public") { fields.append("Cache-Control: public") }
        if request.target == "/reject" { return [.json("{}", status: "422 No", fields)] }
        return [.json("{\"who\":\"\(who)\",\"target\":\"\(request.target)\"}", fields)]
    }
}

package enum CookieNames {
    /// The cookies that identify a user, in order.
    package static func canonical(_ text: String) -> String {
        text.split(separator: ";").map { $0.split(separator: " ").joined() }
            .filter { !$0.hasPrefix("_ga") && !$0.hasPrefix("AWSALB") }.sorted().joined(separator: ";")
    }
}
