// The operator's rules for freshness (a route's `freshness`, `negative`, `stale_while_revalidate`), for APIs that give no lifetime or an
// unsuitable one. They apply when a response is stored or confirmed; earlier stored responses do not change.

import Forwarding
import HTTPCore

/// A directive or field of responses that the operator may ignore.
public enum IgnoredDirective: String, Sendable, CaseIterable {
    case noStore = "no-store"
    case noCache = "no-cache"
    case privateResponse = "private"
    /// Also ignores `s-maxage`.
    case maxAge = "max-age"
    case expires
    /// Also ignores `proxy-revalidate`.
    case mustRevalidate = "must-revalidate"
    /// Ignores Vary, except `*`, Origin and credential fields.
    case vary
}

/// Origin of a response's freshness lifetime. The raw value is stored.
public enum LifetimeSource: UInt8, Sendable, CaseIterable {
    case response = 0
    /// A percentage of the time since Last-Modified.
    case heuristic
    /// `freshness.default`.
    case standard
    /// `freshness.minimum`.
    case minimum
    /// `freshness.maximum`.
    case maximum
    /// `negative`.
    case negative

    /// Name in `why` and on the administrator's pages.
    public var label: String { self == .standard ? "default" : "\(self)" }
}

public struct FreshnessRules: Sendable, Equatable {
    /// Lifetime in seconds for a response without one; nil if not set.
    public var standard: Int64?
    /// Lower bound of the lifetime in seconds; nil if not set.
    public var minimum: Int64?
    public var maximum: Int64?
    public var ignored: Set<IgnoredDirective> = []
    /// Seconds for responses without `stale-while-revalidate`; nil if not set.
    public var staleWhileRevalidate: Int64?
    /// Maximum staleness in seconds of a response served while the upstream fails; nil means no limit.
    public var staleFor: Int64?
    /// Seconds for which errors are stored. 0: the other rules apply.
    public var negative: Int64 = 0
    public var negativeStatuses: [UInt16] = [404, 410]
    /// Whether no response is stored (`cache: off`).
    public var isOff = false

    /// Names of fields that the upstream does not receive from clients (`UpstreamFieldRules.unforwarded`). Responses do not vary by them.
    public var unforwarded: [[UInt8]] = []
    /// Hashes of fields that the upstream gets from the operator (`UpstreamFieldRules.fixed`).
    public var fixed: [UInt64] = []

    public init() {}

    /// Returns the directives without the ignored ones.
    public func applied(to control: ResponseCacheControl) -> ResponseCacheControl {
        var control = control
        for directive in ignored {
            switch directive {
            case .noStore: control.noStore = false
            case .noCache: control.noCache = false
            case .privateResponse: control.isPrivate = false
            case .maxAge: (control.maxAge, control.sharedMaxAge) = (nil, nil)
            case .expires: control.hidesExpires = true
            case .mustRevalidate: (control.mustRevalidate, control.proxyRevalidate) = (false, false)
            case .vary: break
            }
        }
        return control
    }

    /// Returns the freshness lifetime in seconds; nil if every use requires validation.
    /// - Parameters:
    ///   - said: lifetime from the response, without ignored directives.
    ///   - heuristic: lifetime derived from Last-Modified.
    ///   - control: directives without the ignored ones.
    public func lifetime(
        of status: Status, said: Int64?, heuristic: Int64?, _ control: ResponseCacheControl
    ) -> (seconds: Int64?, source: LifetimeSource) {
        if let kept = negativeLifetime(of: status, said: said) { return (kept, .negative) }
        // Lifetimes of errors are set by `negative`.
        guard status.rawValue < 400 else { return bounded(said ?? heuristic, said == nil ? .heuristic : .response) }
        var (seconds, source): (Int64?, LifetimeSource) =
            if let said { (said, .response) } else if let heuristic { (heuristic, .heuristic) } else { (standard, .standard) }
        if let minimum, mayLengthen(said, control), (seconds ?? -1) < minimum { (seconds, source) = (minimum, .minimum) }
        return bounded(seconds, source)
    }

    private func bounded(_ seconds: Int64?, _ source: LifetimeSource) -> (seconds: Int64?, source: LifetimeSource) {
        guard let maximum, let seconds, seconds > maximum else { return (seconds, seconds == nil ? .response : source) }
        return (maximum, .maximum)
    }

    /// The minimum does not apply to a response that requires validation, unless that directive is ignored.
    private func mayLengthen(_ said: Int64?, _ control: ResponseCacheControl) -> Bool {
        said != 0 && !control.noCache && !control.mustRevalidate && !control.proxyRevalidate
    }

    /// nil if the status is not covered by `negative`.
    public func negativeLifetime(of status: Status, said: Int64?) -> Int64? {
        guard negative > 0, negativeStatuses.contains(status.rawValue) else { return nil }
        return min(said ?? negative, negative)
    }

    /// Returns whether an error with this status may be stored for other requests: it concerns the resource and not a single request.
    public static func mayBeNegative(_ status: UInt16) -> Bool {
        (400...599).contains(status) && !CacheableStatus.isAboutOneRequest(Status(rawValue: status))
    }

    /// Returns whether the response depends on a field named in Vary. Fields that identify users and sites always count, even if the
    /// operator's list of credentials is shorter than the default.
    /// - Parameters:
    ///   - name: in lower case.
    ///   - credentials: the operator's list.
    public func varies(by name: [UInt8], credentials: CredentialNames) -> Bool {
        if UpstreamFieldRules.contains(name.span, in: unforwarded) { return false }
        guard ignored.contains(.vary) else { return true }
        return name.elementsEqual("*".utf8) || name.elementsEqual("origin".utf8) || name.elementsEqual("proxy-authorization".utf8)
            || credentials.contains(name.span) || CredentialNames.wellKnown.contains(name.span)
    }
}

extension FreshnessRules: PathRules {
    /// Ignoring a directive is permissive, so it needs both rules; `cache: off` protects. Lifetimes come from the rule for the path as
    /// received.
    public func stricter(_ other: FreshnessRules) -> FreshnessRules {
        var rules = self
        rules.isOff = isOff || other.isOff
        rules.ignored.formIntersection(other.ignored)
        rules.unforwarded.removeAll { !other.unforwarded.contains($0) }
        rules.fixed.removeAll { !other.fixed.contains($0) }
        return rules
    }
}
