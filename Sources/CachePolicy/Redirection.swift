// Classifies redirects that arrive where a stored response exists. They lead to another resource (a finished job, a signed URL), or to a
// login, an error page or a captive portal.

import HTTPCore

enum Redirection {
    /// Returns whether a redirect in response to a write leads to a resource of this upstream that does not look like a login, an error page
    /// or a start page. A redirect to the requested path leads to no page. A 303 is the usual response to a write, not that of a gateway.
    static func staysWithin(
        _ upstream: UpstreamOrigin, _ location: ArraySlice<UInt8>, from request: RequestHead, status: Status
    ) -> Bool {
        guard let target = target(of: location, upstream, from: request) else { return false }
        let (path, own) = (target.prefix { !isMark($0) }, request.pathAndQuery.prefix { !isMark($0) })
        let way = Way(path, from: own)
        guard !looksLikeLogin(target, way, [], from: request, upstream) else { return false }
        return status == 303 || !looksLikePage(way) || path == own
    }

    /// Returns whether a redirect leads to a login or a start page.
    static func isLogin(_ response: ResponseHead, to request: RequestHead, at upstream: UpstreamOrigin?) -> Bool {
        guard let (target, origin) = destination(of: response, from: request, upstream) else { return false }
        let way = Way(target.prefix { !isMark($0) }, from: request.pathAndQuery.prefix { !isMark($0) })
        return looksLikeLogin(target, way, origin, from: request, upstream) || way.isRoot && response.status != 303
    }

    /// Classifies a redirect. Returns nil if it has no Location, or if it leads to the requested path, possibly with another host or other
    /// arguments.
    static func surprise(_ response: ResponseHead, to request: RequestHead, at upstream: UpstreamOrigin?) -> Surprise? {
        guard let (target, origin) = destination(of: response, from: request, upstream) else { return nil }
        let path = target.prefix { !isMark($0) }
        let way = Way(path, from: request.pathAndQuery.prefix { !isMark($0) })
        // 303 means that the response to this request is elsewhere (RFC 9110 §15.4.4). Servers do not use it for error pages.
        let isPage = looksLikeLogin(target, way, origin, from: request, upstream) || (response.status != 303 && looksLikePage(way))
        var hasher = Hasher()
        hasher.combine(origin)
        hasher.combine(path)
        let address = UInt64(truncatingIfNeeded: hasher.finalize())
        return isPage ? .page(address: address) : .redirect(address: address)
    }

    /// Returns the target and the origin of a redirect's Location; the origin is empty for this upstream. nil if there is no Location, or if
    /// it leads to the requested path.
    private static func destination(
        of response: ResponseHead, from request: RequestHead, _ upstream: UpstreamOrigin?
    ) -> (target: [UInt8], origin: [UInt8])? {
        guard let location = response.fields.first(.location), leads(location, elsewhereThan: request.pathAndQuery) else { return nil }
        if let own = target(of: location, upstream, from: request) { return (own, []) }
        let target = foreignTarget(of: location)
        return (target, location.dropLast(target.count).map(\.asciiLowercased))
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

    /// Names of login pages: last path segments without hyphens and underscores, names of arguments, and parts of host names. Other
    /// resources have names that only contain these words, such as `/designing-apis` and `/docs/authorization`.
    private static let logins: Set<String> = [
        "login", "logon", "signin", "signon", "relogin", "userlogin", "adminlogin", "servicelogin", "wplogin", "loginform", "loginpage",
        "signinpage", "auth", "auth0", "authenticate", "authentication", "authorize", "authorise", "oauth", "oauth2", "openid", "oidc",
        "saml", "saml2", "sso", "idp", "cas", "adfs", "wsfed", "sessionexpired", "sessiontimeout",
    ]
    /// First path segments of login services. All of their resources count.
    private static let loginServices: Set<String> = [
        "login", "signin", "oauth2", "openid", "openidconnect", "oidc", "saml", "saml2", "simplesaml", "shibboleth.sso", "sso", "idp",
        "cas", "adfs", "auth0", "wsfed",
    ]
    /// Last two path segments of a form for a new session.
    private static let sessions: Set<String> = ["session", "sessions", "usersession", "usersessions"]
    private static let newSessions: Set<String> = ["new", "expired", "timeout"]
    /// Names of arguments with the URI to which a login page returns.
    private static let returns: Set<String> = [
        "next", "return", "returnto", "returnurl", "returnuri", "returnpath", "redirect", "redirectto", "redirecturl", "redirecturi",
        "continue", "continueurl", "continueto", "goto", "rd", "backurl", "backto", "dest", "destination", "originalurl", "origurl",
        "targeturl", "relaystate", "wctx",
    ]

    /// Names of pages of a gateway or a server, for example an error page: last path segments without hyphens and underscores.
    private static let pages: Set<String> = [
        "maintenance", "maintenancemode", "maintenancepage", "undermaintenance", "unavailable", "serviceunavailable",
        "temporarilyunavailable", "outage", "captcha", "challenge", "error", "errors", "errorpage", "sorry", "blocked", "accessblocked",
        "expired", "linkexpired", "50x",
    ]
    /// First path segments of a gateway's own pages.
    private static let pageServices: Set<String> = ["captcha", "cdncgi"]
    private static let errors: Set<String> = ["error", "errors"]

    /// The path of a redirect compared with the requested path.
    private struct Way {
        /// The redirect's path segments as words, without those that both paths begin with.
        let segments: [String]
        /// Whether `segments` are the whole path.
        let isWhole: Bool
        /// Whether the path has one segment only.
        let isShort: Bool
        let isRoot: Bool
        /// Whether the path ends with the name of an HTML file, and the requested path does not.
        let isHTML: Bool

        init(_ path: ArraySlice<UInt8>, from own: ArraySlice<UInt8>) {
            let (target, own) = (Self.segments(of: path), Self.segments(of: own))
            let common = zip(target, own).prefix { $0 == $1 }.count
            (isWhole, isShort, isRoot) = (common == 0, target.count == 1, target.isEmpty)
            isHTML =
                path.last != UInt8(ascii: "/") && target.last.map(Self.isHTML) ?? false && !(own.last.map(Self.isHTML) ?? false)
            var rest = target.dropFirst(common).map { word($0) }
            if let last = rest.popLast() { rest.append(Self.withoutEnding(last)) }
            // The index of a directory is the directory.
            if rest.count > 1, rest.last == "index" { rest.removeLast() }
            segments = rest
        }

        private static func segments(of path: ArraySlice<UInt8>) -> [String] {
            path.split(separator: UInt8(ascii: "/")).reduce(into: []) { segments, segment in
                // Java servers append path parameters, such as a session's identifier.
                switch plain(segment.prefix { $0 != UInt8(ascii: ";") }) {
                case ".": break
                case "..": _ = segments.popLast()
                case let segment: segments.append(segment)
                }
            }
        }

        private static func isHTML(_ segment: String) -> Bool { segment.hasSuffix(".html") || segment.hasSuffix(".htm") }

        private static func withoutEnding(_ segment: String) -> String {
            segment.lastIndex(of: ".").map { String(segment[..<$0]) } ?? segment
        }
    }

    /// Returns the text in lower case, percent-decoded if its encoding is valid.
    private static func plain(_ part: ArraySlice<UInt8>) -> String {
        let bytes = Array(PercentCoding.decode(part, plusIsSpace: false)?.utf8 ?? String(decoding: part, as: UTF8.self).utf8)
        return String(decoding: bytes.map(\.asciiLowercased), as: UTF8.self)
    }

    /// Returns the text without hyphens and underscores: `sign_in` is `signin`.
    private static func word(_ text: some StringProtocol) -> String { String(text.filter { $0 != "-" && $0 != "_" }) }

    /// - Parameter origin: another upstream's origin; its host name may also indicate a login. Empty for the own upstream.
    private static func looksLikeLogin(
        _ target: [UInt8], _ way: Way, _ origin: [UInt8], from request: RequestHead, _ upstream: UpstreamOrigin?
    ) -> Bool {
        if let last = way.segments.last {
            if logins.contains(last) { return true }
            if way.segments.count > 1, newSessions.contains(last), sessions.contains(way.segments[way.segments.count - 2]) { return true }
        }
        if way.isWhole, let first = way.segments.first, loginServices.contains(first) { return true }
        // Parts of a host name: `sso.example.com`, `auth-eu.example.com`.
        if plain(origin[...]).split(whereSeparator: { !($0.isLetter || $0.isNumber) }).contains(where: { logins.contains(String($0)) }) {
            return true
        }
        // Arguments, and the fragment, which single-page applications use as a path.
        let rest = target[target.prefix { !isMark($0) }.endIndex...]
        let arguments = rest.split { isMark($0) || $0 == UInt8(ascii: "&") || $0 == UInt8(ascii: ";") }
        return arguments.contains { argument in
            let name = argument.prefix { $0 != UInt8(ascii: "=") }
            let value = argument.dropFirst(name.count + 1)
            if name.split(separator: UInt8(ascii: "/")).contains(where: { isLogin(plain($0), hasValue: !value.isEmpty) }) { return true }
            let plainValue = plain(value)
            switch word(plain(name)) {
            // WS-Federation has no distinctive argument name.
            case "wa": return plainValue.hasPrefix("wsignin")
            case "session": return newSessions.contains(plainValue)
            case let name: return returns.contains(name) && leadsBack(Array(plainValue.utf8), to: request.pathAndQuery, upstream)
            }
        }
    }

    /// Whether an argument or a part of a fragment indicates a login. A signed URL may have a value for `auth`.
    private static func isLogin(_ name: String, hasValue: Bool) -> Bool {
        let word = word(name)
        if !hasValue { return logins.contains(word) }
        return ["login", "logon", "signin", "samlrequest"].contains(word) || name.hasPrefix("openid.")
    }

    /// Whether a URI names the requested path. A login page returns there.
    private static func leadsBack(_ reference: [UInt8], to target: ArraySlice<UInt8>, _ upstream: UpstreamOrigin?) -> Bool {
        let own = plain(target.prefix { !isMark($0) })
        let path = foreignTarget(of: reference[...]).prefix { !isMark($0) }
        return own != "/" && (plain(path) == own || plain(Self.path(path, upstream)[...]) == own)
    }

    /// Returns whether the target may be a page for people: an error page or a start page.
    private static func looksLikePage(_ way: Way) -> Bool {
        guard let last = way.segments.last else { return way.isRoot }
        if pages.contains(last) { return true }
        if way.isHTML, way.isShort || isErrorStatus(last) { return true }
        guard way.isWhole, let first = way.segments.first else { return false }
        return pageServices.contains(first) || way.segments.count == 2 && errors.contains(first) && isErrorStatus(last)
    }

    private static func isErrorStatus(_ segment: String) -> Bool {
        segment.count == 3 && (400...599).contains(Int(segment) ?? 0)
    }
}
