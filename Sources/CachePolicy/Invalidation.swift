// What an unsafe request makes invalid (RFC 9111 §4.4).

import HTTPCore

/// Where the upstream is, to tell its own URIs from others'.
public struct UpstreamOrigin: Sendable {
    /// Scheme and authority in lower case, as in `http://api.example.com:8000`.
    public let bytes: [UInt8]
    /// What is put before each target; without a slash at its end.
    public let basePath: [UInt8]

    /// What is taken off clients' paths before the upstream is asked; without a slash at its end.
    public let strippedPath: [UInt8]

    /// The upstream's other addresses.
    public let others: [UpstreamOrigin]

    public init(_ bytes: [UInt8], basePath: [UInt8] = [], strippedPath: [UInt8] = [], others: [UpstreamOrigin] = []) {
        self.others = others
        self.bytes = bytes
        self.basePath = basePath
        self.strippedPath = strippedPath
    }

    /// The target that an absolute path of the upstream is; nil where it lies outside the base path.
    func target(_ path: ArraySlice<UInt8>) -> [UInt8]? {
        guard path.first == UInt8(ascii: "/") else { return nil }
        guard !basePath.isEmpty else { return strippedPath + path }
        guard path.starts(with: basePath), path.dropFirst(basePath.count).first == UInt8(ascii: "/") else { return nil }
        return strippedPath + path.dropFirst(basePath.count)
    }
}

public enum Invalidation {
    /// What the response to an unsafe request does to stored responses.
    public enum Effect: Sendable, Equatable {
        case nothing
        /// They are older than a change.
        case takesOut
        /// They become stale and stay: a login or a captive portal has answered, so nobody knows whether the upstream got the request.
        case makesStale
    }

    public static func effect(
        of response: ResponseHead, to request: RequestHead, origin: UpstreamOrigin, _ settings: CachePolicySettings
    ) -> Effect {
        guard isSuccess(response, to: request.method) else { return .nothing }
        guard settings.strictness == .rescue else { return .takesOut }
        if response.status.isRedirection {
            guard let location = response.fields.first(.location),
                !Redirection.staysWithin(origin, location, from: request)
            else { return .takesOut }
            return .makesStale
        }
        // An API that keeps nothing but JSON responds with no web page, unless the client names one.
        guard !settings.keepsAny, !response.status.forbidsContent, let type = MediaType(of: response.fields), type.isHTML,
            !Accepting.names(type, in: request.fields)
        else { return .takesOut }
        return .makesStale
    }

    private static func isSuccess(_ response: ResponseHead, to method: Method) -> Bool {
        !method.isSafe && (response.status.isSuccessful || response.status.isRedirection)
    }

    /// The targets whose stored responses are to be dropped after this response: the request's own, and those that Location and
    /// Content-Location name on the same origin. Empty where nothing is.
    public static func targets(method: Method, target: ArraySlice<UInt8>, response: ResponseHead, origin: UpstreamOrigin) -> [[UInt8]] {
        guard isSuccess(response, to: method) else { return [] }
        var targets = [Array(target)]
        for field in [KnownField.location, .contentLocation] {
            if let value = response.fields.first(field), let path = path(of: value, from: target, origin: origin), !targets.contains(path) {
                targets.append(path)
            }
        }
        return targets
    }

    /// Whether a Content-Location names the target itself.
    public static func isSame(_ reference: ArraySlice<UInt8>, as target: ArraySlice<UInt8>, origin: UpstreamOrigin) -> Bool {
        path(of: reference, from: target, origin: origin).map { $0[...] == target } ?? false
    }

    /// `/users` for `/users/1`: what a write to a member changes too. nil where the target is no member of anything.
    public static func collection(of target: ArraySlice<UInt8>) -> [UInt8]? {
        let path = target.withoutQuery
        guard let slash = path.lastIndex(of: UInt8(ascii: "/")), slash > path.startIndex, slash < path.endIndex - 1 else { return nil }
        return Array(path[..<slash])
    }

    /// Path and query of a URI reference on the same origin (RFC 3986 §5.2): absolute, or a path, also one beside the target's.
    private static func path(of reference: ArraySlice<UInt8>, from target: ArraySlice<UInt8>, origin: UpstreamOrigin) -> [UInt8]? {
        let rest = reference.prefix { $0 != UInt8(ascii: "#") }
        for one in [origin] + origin.others where rest.starts(with: one.bytes, by: { $0.asciiLowercased == $1 }) {
            let path = rest.dropFirst(one.bytes.count)
            // `http://a.test:80` is no beginning of `http://a.test:8080`.
            if let next = path.first, next != UInt8(ascii: "/") { continue }
            return one.target(path)
        }
        if rest.first == UInt8(ascii: "/") { return rest.dropFirst().first == UInt8(ascii: "/") ? nil : origin.target(rest) }
        // A scheme, dots to resolve, or nothing at all: worth no mistake.
        let first = rest.prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        guard !first.isEmpty, !first.contains(UInt8(ascii: ":")), first.first != UInt8(ascii: ".") else { return nil }
        let path = target.withoutQuery
        guard let slash = path.lastIndex(of: UInt8(ascii: "/")) else { return nil }
        return Array(path[...slash]) + rest
    }
}
