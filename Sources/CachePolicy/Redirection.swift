// Where a redirect leads that comes where a copy is: to another place on the same server, as when a job is done, or to elsewhere or a login page, as
// when a session or a network's own gate is in the way.

import HTTPCore

enum Redirection {
    /// Whether it leads to another resource of the same upstream that does not look like a login.
    /// - Parameter upstream: nil where nobody knows its name.
    static func staysWithin(_ upstream: UpstreamOrigin?, _ location: ArraySlice<UInt8>, from request: RequestHead) -> Bool {
        guard let target = target(of: location, upstream, from: request) else { return false }
        return !looksLikeLogin(target, beside: request.pathAndQuery)
    }

    // MARK: The same origin

    /// The target, in the client's terms, that a reference names (RFC 3986 §5.2); nil where it is another's.
    private static func target(of location: ArraySlice<UInt8>, _ upstream: UpstreamOrigin?, from request: RequestHead) -> [UInt8]? {
        // Browsers take one for a slash.
        guard !location.contains(UInt8(ascii: "\\")) else { return nil }
        let scheme = location.prefix { !isEnd($0) && $0 != UInt8(ascii: ":") }
        let hasScheme = location.dropFirst(scheme.count).first == UInt8(ascii: ":")
        guard !hasScheme || scheme.equalsIgnoringCase("http") || scheme.equalsIgnoringCase("https") else { return nil }
        let rest = hasScheme ? location.dropFirst(scheme.count + 1) : location
        if rest.starts(with: Array("//".utf8)) {
            let authority = rest.dropFirst(2).prefix { !isEnd($0) }
            guard isOwn(authority, upstream, host: request.host) else { return nil }
            return path(rest.dropFirst(2 + authority.count), upstream)
        }
        guard !hasScheme else { return nil }
        if rest.first == UInt8(ascii: "/") { return path(rest, upstream) }
        let own = request.pathAndQuery.prefix { !isMark($0) }
        guard let first = rest.first, !isMark(first) else { return Array(own) + rest }
        return Array(own.prefix(through: own.lastIndex(of: UInt8(ascii: "/")) ?? own.startIndex)) + rest
    }

    private static func path(_ path: ArraySlice<UInt8>, _ upstream: UpstreamOrigin?) -> [UInt8] {
        upstream?.target(path) ?? Array(path)
    }

    /// The upstream's name and port, or those by which the client came. Either scheme will do: what speaks to us without TLS may be called by `https`.
    private static func isOwn(_ authority: ArraySlice<UInt8>, _ upstream: UpstreamOrigin?, host: ArraySlice<UInt8>) -> Bool {
        guard !authority.isEmpty else { return false }
        let name = withoutDefaultPort(authority)
        if name.equalsIgnoringCase(withoutDefaultPort(host)) { return true }
        guard let upstream else { return false }
        return ([upstream] + upstream.others).contains { own in
            let behind = own.bytes.drop { $0 != UInt8(ascii: "/") }.dropFirst(2)
            return name.equalsIgnoringCase(withoutDefaultPort(behind))
        }
    }

    private static func withoutDefaultPort(_ authority: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        if authority.suffix(3).equalsIgnoringCase(":80") { return authority.dropLast(3) }
        return authority.suffix(4).equalsIgnoringCase(":443") ? authority.dropLast(4) : authority
    }

    private static func isMark(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#") }
    private static func isEnd(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "/") || isMark(byte) }

    // MARK: Logins

    /// Where a part of a path, or an argument's name, has one of these in it, it looks like a login.
    static let loginParts = [
        "login", "log-in", "log_in", "logon", "signin", "sign-in", "sign_in", "session", "oauth", "openid", "saml", "authenticat",
        "authoriz", "authoris",
    ]
    /// The same where it is a whole word of it, since other words have it in them too (`authors`, `lessons`).
    static let loginWords = ["auth", "auth0", "sso", "oidc", "idp"]

    /// - Parameter own: what was asked for: the parts of its path with which both begin say nothing.
    private static func looksLikeLogin(_ target: [UInt8], beside own: ArraySlice<UInt8>) -> Bool {
        let slash = UInt8(ascii: "/")
        let path = target.prefix { !isMark($0) }
        var parts = path.split(separator: slash)
        for segment in own.prefix(while: { !isMark($0) }).split(separator: slash) {
            guard let first = parts.first, first.elementsEqual(segment) else { break }
            parts.removeFirst()
        }
        // Arguments, and the path that a page in the browser reads behind the mark.
        for argument in target[path.endIndex...].split(whereSeparator: { isEnd($0) || $0 == UInt8(ascii: "&") || $0 == UInt8(ascii: ";") })
        {
            parts.append(argument.prefix { $0 != UInt8(ascii: "=") })
        }
        return parts.contains { isLoginPart($0.map(\.asciiLowercased)) }
    }

    private static func isLoginPart(_ part: [UInt8]) -> Bool {
        let text = String(decoding: part, as: UTF8.self)
        if loginParts.contains(where: { text.contains($0) }) { return true }
        return text.split { !($0.isASCII && ($0.isLetter || $0.isNumber)) }.contains { loginWords.contains(String($0)) }
    }
}
