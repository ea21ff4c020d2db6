// Classifies redirects that arrive where a stored response exists. They lead to another resource (a finished job, a signed URL), or to a
// login, an error page or a captive portal.

import HTTPCore

enum Redirection {
    /// Returns whether a reference leads to a resource of this upstream that does not look like a login.
    static func staysWithin(_ upstream: UpstreamOrigin, _ location: ArraySlice<UInt8>, from request: RequestHead) -> Bool {
        guard let target = target(of: location, upstream, from: request) else { return false }
        return !looksLikeLogin(target, Way(target.prefix { !isMark($0) }, from: request.pathAndQuery.prefix { !isMark($0) }), [])
    }

    /// Classifies a redirect. Returns nil if it has no Location, or if it leads to the requested path, possibly with another host or other
    /// arguments.
    static func surprise(_ response: ResponseHead, to request: RequestHead, at upstream: UpstreamOrigin?) -> Surprise? {
        guard let location = response.fields.first(.location), leads(location, elsewhereThan: request.pathAndQuery) else { return nil }
        let own = target(of: location, upstream, from: request)
        let target = own ?? foreignTarget(of: location)
        let path = target.prefix { !isMark($0) }
        let way = Way(path, from: request.pathAndQuery.prefix { !isMark($0) })
        let origin = own == nil ? location.dropLast(target.count).map(\.asciiLowercased) : []
        // 303 means that the response to this request is elsewhere (RFC 9110 §15.4.4). Servers do not use it for error pages.
        let isPage = looksLikeLogin(target, way, origin) || (response.status != 303 && looksLikePage(way))
        var hasher = Hasher()
        hasher.combine(origin)
        hasher.combine(path)
        let address = UInt64(truncatingIfNeeded: hasher.finalize())
        return isPage ? .page(address: address) : .redirect(address: address)
    }

    /// Returns path and query of another origin's URI.
    private static func foreignTarget(of location: ArraySlice<UInt8>) -> [UInt8] {
        let scheme = location.prefix { !isEnd($0) && $0 != UInt8(ascii: ":") }
        var rest = location.dropFirst(scheme.count)
        if rest.first == UInt8(ascii: ":") { rest = rest.dropFirst() }
        guard rest.starts(with: Array("//".utf8)) || rest.starts(with: Array("/\\".utf8)) else { return Array(rest) }
        return Array(rest.dropFirst(2).drop { !isEnd($0) })
    }

    private static func leads(_ location: ArraySlice<UInt8>, elsewhereThan path: ArraySlice<UInt8>) -> Bool {
        var target = location
        if let scheme = target.firstIndex(of: UInt8(ascii: ":")), target[scheme...].starts(with: Array("://".utf8)) {
            target = target[(scheme + 3)...]
            target = target[(target.firstIndex(of: UInt8(ascii: "/")) ?? target.endIndex)...]
        }
        return !target.prefix { !isMark($0) }.elementsEqual(path.prefix { !isMark($0) })
    }

    // MARK: Same origin

    /// Resolves a reference to the client-side target (RFC 3986 §5.2); nil if it belongs to another origin.
    private static func target(of location: ArraySlice<UInt8>, _ upstream: UpstreamOrigin?, from request: RequestHead) -> [UInt8]? {
        // Browsers treat a backslash as a slash.
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

    /// Returns whether the authority is the upstream's, or the host that the client used. The scheme does not matter: an upstream reached
    /// without TLS may have `https` URLs.
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

    // MARK: Login and error pages

    /// A path segment or an argument name that contains one of these looks like a login.
    static let loginParts = [
        "login", "log-in", "log_in", "logon", "signin", "sign-in", "sign_in", "session", "oauth", "openid", "saml", "authenticat",
        "authoriz", "authoris",
    ]
    /// Words that indicate a login only as whole words, because other words contain them (`authors`, `lessons`).
    static let loginWords = ["auth", "auth0", "sso", "oidc", "idp", "cas", "wsfed"]

    /// Parts and words in paths that indicate a page of a gateway or a server, for example an error page.
    static let pageParts = ["maintenance", "unavailable", "captcha"]
    static let pageWords = ["error", "errors", "sorry", "challenge", "blocked", "expired", "50x"]

    /// The path of a redirect compared with the requested path.
    private struct Way {
        /// The redirect's path segments, percent-decoded, without those that both paths begin with.
        let segments: [String]
        /// Last segment of the redirect's path; nil if there is none or the path ends with a slash.
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

    /// Returns the text in lower case, percent-decoded if its encoding is valid.
    private static func plain(_ part: ArraySlice<UInt8>) -> String {
        let bytes = Array(PercentCoding.decode(part, plusIsSpace: false)?.utf8 ?? String(decoding: part, as: UTF8.self).utf8)
        return String(decoding: bytes.map(\.asciiLowercased), as: UTF8.self)
    }

    /// - Parameter origin: another upstream's origin; its host name may also indicate a login. Empty for the own upstream.
    private static func looksLikeLogin(_ target: [UInt8], _ way: Way, _ origin: [UInt8]) -> Bool {
        // Arguments, and the fragment, which single-page applications use as a path.
        let rest = target[target.prefix { !isMark($0) }.endIndex...]
        let arguments = rest.split { isEnd($0) || $0 == UInt8(ascii: "&") || $0 == UInt8(ascii: ";") }.map(plain)
        // WS-Federation has no distinctive argument name.
        if arguments.contains(where: { $0.hasPrefix("wa=wsignin") }) { return true }
        let names = arguments.map { String($0.prefix { $0 != "=" }) }
        return (way.segments + names + [plain(origin[...])]).contains { has($0, loginParts, loginWords) }
    }

    /// Returns whether the target may be a page for people: an error page or a start page.
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
