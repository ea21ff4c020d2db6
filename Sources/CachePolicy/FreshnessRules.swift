// What the operator says of how long responses count as fresh (a route's `freshness`, `negative`, `stale_while_revalidate`): for APIs that say
// nothing, or not what is wanted. It is applied when a response is stored or confirmed, and so to what is stored from then on.

import HTTPCore
import WellKnownNames

/// A directive or field of a response that is disregarded where the operator says so.
public enum IgnoredDirective: String, Sendable, CaseIterable {
    case noStore = "no-store"
    case noCache = "no-cache"
    case privateResponse = "private"
    /// And `s-maxage`, which says the same to us.
    case maxAge = "max-age"
    case expires
    /// And `proxy-revalidate`.
    case mustRevalidate = "must-revalidate"
    /// All of Vary but `*`, Origin and the fields that carry credentials.
    case vary
}

/// Who said how long a response counts as fresh. The raw value is stored.
public enum LifetimeSource: UInt8, Sendable, CaseIterable {
    case response = 0
    /// A share of the time since Last-Modified.
    case heuristic
    /// `freshness.default`.
    case standard
    /// `freshness.minimum`.
    case minimum
    /// `freshness.maximum`.
    case maximum
    /// `negative`.
    case negative

    /// What `why` and the administrator's pages call it.
    public var label: String { self == .standard ? "default" : "\(self)" }
}

public struct FreshnessRules: Sendable, Equatable {
    /// Seconds for a response that says nothing.
    public var standard: Int64?
    /// Seconds that bound what is said.
    public var minimum: Int64?
    public var maximum: Int64?
    public var ignored: Set<IgnoredDirective> = []
    /// Seconds, where the response does not say it.
    public var staleWhileRevalidate: Int64?
    /// Seconds for which a stale response may stand in for a failing upstream; nil: for ever.
    public var staleFor: Int64?
    /// Seconds for which errors are kept; 0: as the other rules say.
    public var negative: Int64 = 0
    public var negativeStatuses: [UInt16] = [404, 410]

    public init() {}

    /// What is left of a response's directives.
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

    /// How long a response counts as fresh, in seconds; nil: it is always asked first.
    /// - Parameters:
    ///   - said: what the response says, without what is ignored.
    ///   - heuristic: what follows from Last-Modified.
    ///   - control: without what is ignored.
    public func lifetime(
        of status: Status, said: Int64?, heuristic: Int64?, _ control: ResponseCacheControl
    ) -> (seconds: Int64?, source: LifetimeSource) {
        if let kept = negativeLifetime(of: status, said: said) { return (kept, .negative) }
        // Errors are the matter of `negative`.
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

    /// What says that it must be asked for each time is lengthened only where that is ignored.
    private func mayLengthen(_ said: Int64?, _ control: ResponseCacheControl) -> Bool {
        said != 0 && !control.noCache && !control.mustRevalidate && !control.proxyRevalidate
    }

    /// nil where the status is none of those that are kept so.
    public func negativeLifetime(of status: Status, said: Int64?) -> Int64? {
        guard negative > 0, negativeStatuses.contains(status.rawValue) else { return nil }
        return min(said ?? negative, negative)
    }

    /// Whether an error with this status may be kept for others: it is about the resource, and not about one request.
    public static func mayBeNegative(_ status: UInt16) -> Bool {
        (400...599).contains(status) && !CacheableStatus.isAboutOneRequest(Status(rawValue: status))
    }

    /// Whether the response depends on a field that Vary names. What tells users and sites apart always counts, also where the operator has a
    /// shorter list of credentials than ours.
    /// - Parameters:
    ///   - name: in lower case.
    ///   - credentials: the operator's.
    public func varies(by name: [UInt8], credentials: CredentialNames) -> Bool {
        guard ignored.contains(.vary) else { return true }
        return name.elementsEqual("*".utf8) || name.elementsEqual("origin".utf8) || name.elementsEqual("proxy-authorization".utf8)
            || credentials.contains(name.span) || CredentialNames.wellKnown.contains(name.span)
    }
}

extension FreshnessRules: PathRules {
    /// Disregarding a directive opens; times are as the path was written.
    public func stricter(_ other: FreshnessRules) -> FreshnessRules {
        var rules = self
        rules.ignored.formIntersection(other.ignored)
        return rules
    }
}
