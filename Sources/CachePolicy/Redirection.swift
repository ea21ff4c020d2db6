// Where a redirect leads that comes where a copy is: to another place on the same server, as when a job is done, or to elsewhere or a login page, as
// when a session or a network's own gate is in the way.

import HTTPCore

enum Redirection {
    /// Whether it leads to a resource of the same upstream that does not look like a login.
    /// - Parameters:
    ///   - upstream: nil where nobody knows its name.
    ///   - mayBePage: nor may it look like a page for people.
    static func staysWithin(
        _ upstream: UpstreamOrigin?, _ location: ArraySlice<UInt8>, from request: RequestHead, mayBePage: Bool
    ) -> Bool {
        guard let target = target(of: location, upstream, from: request) else { return false }
        let way = Way(target.prefix { !isMark($0) }, from: request.pathAndQuery.prefix { !isMark($0) })
        return !looksLikeLogin(target, way) && !(mayBePage && looksLikePage(way))
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

    // MARK: Logins and pages

    /// Where a part of a path, or an argument's name, has one of these in it, it looks like a login.
    static let loginParts = [
        "login", "log-in", "log_in", "logon", "signin", "sign-in", "sign_in", "session", "oauth", "openid", "saml", "authenticat",
        "authoriz", "authoris",
    ]
    /// The same where it is a whole word of it, since other words have it in them too (`authors`, `lessons`).
    static let loginWords = ["auth", "auth0", "sso", "oidc", "idp", "cas", "wsfed"]

    /// The same of a path alone, where a gateway or a server may have sent the client to a page of its own.
    static let pageParts = ["maintenance", "unavailable", "captcha"]
    static let pageWords = ["error", "errors", "sorry", "challenge", "blocked", "expired", "50x"]

    /// Where a redirect leads, and what was asked for.
    private struct Way {
        /// The path's segments without their percent-encoding, but for those with which both begin: they say nothing.
        let segments: [String]
        /// The target's last one; nil where it has none, or ends with a slash.
        let last: String?
        let isRoot: Bool
        let ownLast: String?

        init(_ path: ArraySlice<UInt8>, from own: ArraySlice<UInt8>) {
            let (target, own) = (Self.segments(of: path), Self.segments(of: own))
            isRoot = target.isEmpty
            last = path.last == UInt8(ascii: "/") ? nil : target.last
            ownLast = own.last
            segments = Array(target.dropFirst(zip(target, own).prefix { $0 == $1 }.count))
        }

        private static func segments(of path: ArraySlice<UInt8>) -> [String] {
            path.split(separator: UInt8(ascii: "/")).reduce(into: []) { segments, segment in
                switch plain(segment) {
                case ".": break
                case "..": _ = segments.popLast()
                case let segment: segments.append(segment)
                }
            }
        }
    }

    /// In lower case, without its percent-encoding where that can be read.
    private static func plain(_ part: ArraySlice<UInt8>) -> String {
        let bytes = Array(PercentCoding.decode(part, plusIsSpace: false)?.utf8 ?? String(decoding: part, as: UTF8.self).utf8)
        return String(decoding: bytes.map(\.asciiLowercased), as: UTF8.self)
    }

    private static func looksLikeLogin(_ target: [UInt8], _ way: Way) -> Bool {
        // Arguments, and the path that a page in the browser reads behind the mark.
        let rest = target[target.prefix { !isMark($0) }.endIndex...]
        let arguments = rest.split { isEnd($0) || $0 == UInt8(ascii: "&") || $0 == UInt8(ascii: ";") }.map(plain)
        // WS-Federation has no name of its own.
        if arguments.contains(where: { $0.hasPrefix("wa=wsignin") }) { return true }
        let names = arguments.map { String($0.prefix { $0 != "=" }) }
        return (way.segments + names).contains { has($0, loginParts, loginWords) }
    }

    /// Whether it may be a page that tells people something: of an error, or where they begin.
    private static func looksLikePage(_ way: Way) -> Bool {
        if way.isRoot { return true }
        if let last = way.last, isPage(last), !(way.ownLast.map(isPage) ?? false) { return true }
        return way.segments.contains { has($0, pageParts, pageWords) }
    }

    private static func isPage(_ segment: String) -> Bool { segment.hasSuffix(".html") || segment.hasSuffix(".htm") }

    private static func has(_ text: String, _ parts: [String], _ words: [String]) -> Bool {
        if parts.contains(where: { text.contains($0) }) { return true }
        return text.split { !($0.isASCII && ($0.isLetter || $0.isNumber)) }.contains { words.contains(String($0)) }
    }
}
