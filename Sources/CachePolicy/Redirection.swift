// Where a redirect leads that comes where a stored response is: to another resource, as when a job is done or a file has a signed URL, or to a login, an
// error page or a network's own gate.

import HTTPCore

enum Redirection {
    /// Whether a reference leads to a resource of the same upstream that does not look like a login.
    static func staysWithin(_ upstream: UpstreamOrigin, _ location: ArraySlice<UInt8>, from request: RequestHead) -> Bool {
        guard let target = target(of: location, upstream, from: request) else { return false }
        return !looksLikeLogin(target, Way(target.prefix { !isMark($0) }, from: request.pathAndQuery.prefix { !isMark($0) }), [])
    }

    /// nil if the redirect leads to the same resource, by another name or with other arguments, or nowhere.
    static func surprise(_ response: ResponseHead, to request: RequestHead, at upstream: UpstreamOrigin?) -> Surprise? {
        guard let location = response.fields.first(.location), leads(location, elsewhereThan: request.pathAndQuery) else { return nil }
        let own = target(of: location, upstream, from: request)
        let target = own ?? foreignTarget(of: location)
        let path = target.prefix { !isMark($0) }
        let way = Way(path, from: request.pathAndQuery.prefix { !isMark($0) })
        let origin = own == nil ? location.dropLast(target.count).map(\.asciiLowercased) : []
        // 303 says that the response to the request follows (RFC 9110 §15.4.4): no server has that for a page of its own.
        let isPage = looksLikeLogin(target, way, origin) || (response.status != 303 && looksLikePage(way))
        var hasher = Hasher()
        hasher.combine(origin)
        hasher.combine(path)
        let address = UInt64(truncatingIfNeeded: hasher.finalize())
        return isPage ? .page(address: address) : .redirect(address: address)
    }

    /// The path and the arguments of another origin's URI.
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

    /// - Parameter origin: of another upstream; its host may be called so too.
    private static func looksLikeLogin(_ target: [UInt8], _ way: Way, _ origin: [UInt8]) -> Bool {
        // Arguments, and the path that a page in the browser reads behind the mark.
        let rest = target[target.prefix { !isMark($0) }.endIndex...]
        let arguments = rest.split { isEnd($0) || $0 == UInt8(ascii: "&") || $0 == UInt8(ascii: ";") }.map(plain)
        // WS-Federation has no name of its own.
        if arguments.contains(where: { $0.hasPrefix("wa=wsignin") }) { return true }
        let names = arguments.map { String($0.prefix { $0 != "=" }) }
        return (way.segments + names + [plain(origin[...])]).contains { has($0, loginParts, loginWords) }
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
