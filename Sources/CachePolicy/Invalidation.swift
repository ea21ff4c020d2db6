// Decides which stored responses an unsafe request invalidates (RFC 9111 §4.4). The cache performs the invalidation.

import Forwarding
import HTTPCore

/// The upstream's origin, to distinguish its URIs from those of other origins.
public struct UpstreamOrigin: Sendable {
    /// Scheme and authority in lower case, for example `http://api.example.com:8000`.
    public let bytes: [UInt8]
    /// Path prefix added to each target; without a trailing slash.
    public let basePath: [UInt8]

    /// Path prefix removed from client paths before they are forwarded; without a trailing slash.
    public let strippedPath: [UInt8]

    /// The upstream's other addresses.
    public let others: [UpstreamOrigin]

    public init(_ bytes: [UInt8], basePath: [UInt8] = [], strippedPath: [UInt8] = [], others: [UpstreamOrigin] = []) {
        self.others = others
        self.bytes = bytes
        self.basePath = basePath
        self.strippedPath = strippedPath
    }

    /// Returns the client-side target of an upstream path; nil if the path is outside the base path.
    func target(_ path: ArraySlice<UInt8>) -> [UInt8]? {
        LocationRewriting.path(path, below: basePath).map { strippedPath + $0 }
    }

    /// The client-side target, and its form without dot segments if it has any (RFC 3986 §6.2.2.3). The upstream receives the former and
    /// may treat it as the latter.
    public func spellings(of target: ArraySlice<UInt8>) -> [[UInt8]] {
        let path = basePath + target.dropFirst(strippedPath.count)
        let own = Array(target)
        guard !PathReadings.isPlain(target), let resolved = self.target(path[...]), resolved != own else { return [own] }
        return [own, resolved]
    }
}

public enum Invalidation {
    /// The effect of a response to an unsafe request on stored responses.
    public enum Effect: Sendable, Equatable {
        case nothing
        /// Stored responses are removed, because they predate a change.
        case takesOut
        /// Stored responses become stale and remain. The response may come from a login page, a captive portal or a failing gateway, so it is
        /// unknown whether the upstream received the request. Or it may have performed the write although it failed. Or it refused the write,
        /// may not know its method, or may have performed a read that a field names.
        case makesStale
    }

    /// - Parameters:
    ///   - response: nil if none arrived, although a part of the request was sent.
    ///   - isRefused: whether the content reports errors in place of a result.
    public static func effect(
        of response: ResponseHead?, isRefused: Bool = false, to request: RequestHead, origin: UpstreamOrigin,
        _ settings: CachePolicySettings
    ) -> Effect {
        guard let response, !isUnclear(response.status) else { return isWrite(request.method) ? .makesStale : .nothing }
        guard isSuccess(response, to: request.method) else { return .nothing }
        if namesOtherRead(request) { return .makesStale }
        guard settings.strictness == .rescue else { return .takesOut }
        if isRefused { return .makesStale }
        // Many servers respond to a method that they do not know as to GET, so nothing may have changed, unless the response names targets.
        if case .other = request.method, !response.fields.containsAny(of: [.location, .contentLocation]),
            !response.fields.contains(named: "cache-group-invalidation")
        {
            return .makesStale
        }
        let location = response.status.isRedirection ? response.fields.first(.location) : nil
        if let location, !Redirection.staysWithin(origin, location, from: request, status: response.status) { return .makesStale }
        return LastGood.isAmbiguous(response, to: request, keepsAny: settings.keepsAny) ? .makesStale : .takesOut
    }

    private static func isSuccess(_ response: ResponseHead, to method: Method) -> Bool {
        isWrite(method) && (response.status.isSuccessful || response.status.isRedirection)
    }

    /// Returns whether a method may change data.
    public static func isWrite(_ method: Method) -> Bool { !method.isSafe && !registeredSafe.contains(method) }

    /// Returns whether a field names another method that may be a read, such as GET. Clients that may not write can send such a POST.
    private static func namesOtherRead(_ request: RequestHead) -> Bool {
        let writes: [StaticString] = ["POST", "PUT", "PATCH", "DELETE", "MERGE"]
        return request.fields.containsAny(of: UpstreamRequestFields.methodOverrides)
            && request.fields.entries.contains { entry in
                guard UpstreamRequestFields.methodOverrides.holds(entry) else { return false }
                return !writes.contains { request.fields.bytes[entry.valueRange].equalsIgnoringCase($0) }
            }
    }

    /// Whether the upstream may have performed the request although it failed: errors of servers and gateways, those of CDNs (520 to 530),
    /// and statuses that do not exist (598 and above).
    private static func isUnclear(_ status: Status) -> Bool {
        switch status.rawValue {
        case 500, 502...504, 520...530, 598...: true
        default: false
        }
    }

    /// Methods that the IANA registry lists as safe, and that Cistern forwards like any other method.
    private static let registeredSafe = ["PROPFIND", "REPORT", "SEARCH"].map { Method.other(Array($0.utf8)) }

    /// Returns the targets to invalidate after this response: the request's target, and those that Location and Content-Location name on
    /// the upstream's origin. Empty if nothing is to be invalidated.
    /// - Parameter sparingTarget: whether the request's own target is left out.
    public static func targets(
        method: Method, target: ArraySlice<UInt8>, response: ResponseHead, origin: UpstreamOrigin, sparingTarget: Bool = false
    ) -> [[UInt8]] {
        guard isSuccess(response, to: method) else { return [] }
        let own = origin.spellings(of: target)
        var targets = own
        for field in [KnownField.location, .contentLocation] {
            guard let value = response.fields.first(field), let path = path(of: value, from: target, origin: origin) else { continue }
            targets += origin.spellings(of: path[...]).filter { !targets.contains($0) }
        }
        return Array(targets.dropFirst(sparingTarget ? own.count : 0))
    }

    /// Returns whether a Content-Location names the target itself.
    public static func isSame(_ reference: ArraySlice<UInt8>, as target: ArraySlice<UInt8>, origin: UpstreamOrigin) -> Bool {
        path(of: reference, from: target, origin: origin).map { $0[...] == target } ?? false
    }

    /// Returns `/users` for `/users/1`, since a write to a member also changes its collection. nil if the target has no parent path.
    public static func collection(of target: ArraySlice<UInt8>) -> [UInt8]? {
        let path = target.withoutQuery
        guard let slash = path.lastIndex(of: UInt8(ascii: "/")), slash > path.startIndex, slash < path.endIndex - 1 else { return nil }
        return Array(path[..<slash])
    }

    /// Returns path and query of a URI reference on the upstream's origin (RFC 3986 §5.2). It may be an absolute URI, an absolute path, or
    /// a path relative to the target. Returns nil for other references.
    private static func path(of reference: ArraySlice<UInt8>, from target: ArraySlice<UInt8>, origin: UpstreamOrigin) -> [UInt8]? {
        let rest = reference.prefix { $0 != UInt8(ascii: "#") }
        for one in [origin] + origin.others where rest.starts(with: one.bytes, by: { $0.asciiLowercased == $1 }) {
            if let target = one.target(rest.dropFirst(one.bytes.count)) { return target }
        }
        if rest.first == UInt8(ascii: "/") { return rest.dropFirst().first == UInt8(ascii: "/") ? nil : origin.target(rest) }
        // References with a scheme or without a path are not resolved.
        let first = rest.prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        guard !first.isEmpty, !first.contains(UInt8(ascii: ":")) else { return nil }
        let path = target.withoutQuery
        guard let slash = path.lastIndex(of: UInt8(ascii: "/")) else { return nil }
        return Array(path[...slash]) + rest
    }
}
