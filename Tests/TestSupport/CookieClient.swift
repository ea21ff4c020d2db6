// A client that keeps cookies, and an origin that sets them and names the client in its responses.

/// What a client like URLSession does with cookies: takes those that are set, sends all of them each time.
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

/// Says who asked, and sets the cookies that the request's Sec-Give names. What is under /public is public.
package func cookieOrigin() -> ScriptedOrigin {
    ScriptedOrigin { request in
        let who = "\(CookieNames.canonical(request["Cookie"] ?? ""))|\(request["Authorization"] ?? "")"
        var fields = (request["Sec-Give"]?.split(separator: " ") ?? []).map { "Set-Cookie: \($0); Path=/" }
        if request.target.hasPrefix("/public") { fields.append("Cache-Control: public") }
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
