// The paths that one setting can change: those of a named route, or those that the pattern of one template covers and no route matches.

import CachePolicy
import Explanation

/// The settings of a route that proposals depend on.
public struct AdvisedRoute: Sendable {
    /// Empty for all paths that match no route.
    public let name: String
    public let pattern: String
    /// Freshness lifetime in seconds of responses without one; 0 if not set.
    public let lifetime: Int64
    /// Upper bound of the lifetime; nil if not set.
    public let maximum: Int64?
    /// Milliseconds; 0 for no limit.
    public let rescueAfter: Int64
    /// Seconds for which errors are stored; 0 if they are not.
    public let negative: Int64
    /// As configured; a `*` at the end stands for any rest.
    public let ignoredArguments: [String]
    /// Whether other arguments are left out of cache keys by `arguments.only` or `drop`.
    public let omitsArguments: Bool
    public let ignoredDirectives: [String]

    public init(
        name: String = "", pattern: String = "/**", lifetime: Int64 = 0, maximum: Int64? = nil, rescueAfter: Int64 = 1_500,
        negative: Int64 = 0, ignoredArguments: [String] = [], omitsArguments: Bool = false, ignoredDirectives: [String] = []
    ) {
        (self.name, self.pattern, self.lifetime, self.maximum) = (name, pattern, lifetime, maximum)
        (self.rescueAfter, self.negative) = (rescueAfter, negative)
        (self.ignoredArguments, self.omitsArguments, self.ignoredDirectives) = (ignoredArguments, omitsArguments, ignoredDirectives)
    }

    func ignores(argument name: String) -> Bool {
        let name = name.lowercased()
        return ignoredArguments.contains { pattern in
            let wanted = pattern.lowercased()
            return wanted.hasSuffix("*") ? name.hasPrefix(wanted.dropLast()) : name == wanted
        }
    }
}

public struct AdvisedSettings: Sendable {
    /// In order; the last one is for all paths that match no other.
    public let routes: [AdvisedRoute]
    /// Milliseconds.
    public let firstByteTimeout: Int64

    public init(routes: [AdvisedRoute], firstByteTimeout: Int64) { (self.routes, self.firstByteTimeout) = (routes, firstByteTimeout) }
}

/// The evidence that a proposal needs.
public enum AdviceEvidence {
    public static let requests = 100
    public static let seconds: Int64 = 600
    /// A lifetime is proposed only if the observation was longer by this factor.
    public static let lifetimes: Int64 = 10
    /// Maximum share of responses that may be out of date, in percent: of each template with enough requests, and of each target.
    public static let outdatedPercent = 1
    public static let targetOutdatedPercent = 5
    /// Followed fetches from which on the share counts.
    public static let partRequests = 20
    /// Minimum share of saved requests, in percent.
    public static let savedPercent = 10
    /// Comparisons of responses that differ in one argument or field, on each template with it.
    public static let comparisons = 50
    /// One comparison among this many may be doubtful.
    public static let comparisonsOfDoubt = 50
    /// Failures, or repeated 404s.
    public static let failures = 10
}

/// Why no freshness lifetime is proposed.
public enum FreshnessObstacle: String, Sendable, CaseIterable {
    case stated
    case noStore = "no_store"
    case personal

    public var sentence: String {
        switch self {
        case .stated: "the upstream states the freshness of responses itself, requires their validation, or marks them as private"
        case .noStore: "responses have Cache-Control: no-store"
        case .personal: "responses belong to one user, and are not stored in a partition"
        }
    }
}

public struct AdvisedPaths: Sendable {
    public let route: AdvisedRoute
    /// Pattern of the paths.
    public let path: String
    /// Counts of the route or template.
    public let counts: ObservedCounts
    /// All templates that the pattern covers. The evidence must suffice for each of them.
    let parts: [ObservedSummary]
    /// Counts of all parts.
    let covered: ObservedCounts

    private init(_ route: AdvisedRoute, _ path: String, own: [ObservedSummary], parts: [ObservedSummary]) {
        (self.route, self.path, self.parts) = (route, path, parts)
        (counts, covered) = (Self.sum(own), Self.sum(parts))
    }

    private static func sum(_ parts: [ObservedSummary]) -> ObservedCounts {
        var counts = ObservedCounts()
        for part in parts { counts.add(part.counts) }
        return counts
    }

    /// Groups the observed paths. Paths without requests are left out.
    public static func all(_ summaries: [ObservedSummary], _ settings: AdvisedSettings) -> [AdvisedPaths] {
        let used = summaries.filter { $0.counts.requests > 0 }
        let all = settings.routes.enumerated().flatMap { index, route -> [AdvisedPaths] in
            let own = used.filter { Int($0.route) == index }
            guard route.name.isEmpty else {
                return own.isEmpty ? [] : [AdvisedPaths(route, route.pattern, own: own, parts: own)]
            }
            return own.map { one in
                let pattern = RoutePattern(one.template)
                return AdvisedPaths(
                    route, one.template, own: [one], parts: own.filter { pattern.matches(Array($0.template.utf8)[...]) })
            }
        }
        return all.sorted { ($1.counts.requests, $0.path) < ($0.counts.requests, $1.path) }
    }

    /// Whether the pattern, or a path that it covers, has a beginning.
    public func begins(with prefix: String) -> Bool { path.hasPrefix(prefix) || parts.contains { $0.template.hasPrefix(prefix) } }

    /// Whether a lifetime would have kept responses of a part, or of one target, out of date too often.
    func isOutdated(with candidate: Int) -> Bool {
        parts.contains { part in
            let (followed, outdated) = (Int(part.counts.followed), Int(part.counts.effects[candidate].outdated))
            let isOften = followed >= AdviceEvidence.partRequests && outdated * 100 > followed * AdviceEvidence.outdatedPercent
            return isOften || part.unsteady.contains(candidate)
        }
    }

    /// Arguments, or fields of Vary, that made no difference on any part with them.
    func namesWithoutEffect(areFields: Bool) -> [ComparedName] {
        var found: [ComparedName] = []
        for name in parts.flatMap(\.names) where name.isField == areFields && !found.contains(where: { $0.name == name.name }) {
            let all = parts.flatMap(\.names).filter { $0.isField == areFields && $0.name == name.name }
            guard all.allSatisfy(\.hasNoEffect) else { continue }
            found.append(
                ComparedName(
                    name.name, isField: areFields, equal: all.reduce(0) { $0 &+ $1.equal }, doubtful: all.reduce(0) { $0 &+ $1.doubtful }))
        }
        return found
    }

    public var obstacle: FreshnessObstacle? {
        if covered.unstored[.noStore] != nil { return .noStore }
        let personal: [NotStoredReason] = [
            .privateResponse, .authorized, .userUnknown, .oneTimeCredentials, .connectionUser, .setCookie,
        ]
        if personal.contains(where: { covered.unstored[$0] != nil }) { return .personal }
        return covered.stated > 0 ? .stated : nil
    }

    /// What is missing for a proposal, as a clause; nil if there is enough evidence.
    public var missingEvidence: String? {
        let seconds = covered.span / 1_000
        if covered.requests < AdviceEvidence.requests {
            return "\(AdviceEvidence.requests) requests are needed"
        }
        return seconds < AdviceEvidence.seconds
            ? "\(NumberText.span(AdviceEvidence.seconds)) between the first and the last are needed" : nil
    }

    /// `1,204 requests in 2 h 10 min`.
    public var extent: String {
        "\(NumberText.count(UInt64(covered.requests), "request", "requests")) in \(Self.span(covered.span / 1_000))"
    }

    static func span(_ seconds: Int64) -> String {
        guard seconds >= 3_600 else { return NumberText.span(seconds) }
        let minutes = seconds / 60 % 60
        return "\(seconds / 3_600) h" + (minutes == 0 ? "" : " \(minutes) min")
    }

    /// Share of the requests that a candidate would have saved, at least.
    public func savedShare(_ candidate: Int) -> Double {
        counts.requests == 0 ? 0 : Double(counts.effects[candidate].saved) / Double(counts.requests)
    }

    /// Share of the followed fetches with a response that would have been out of date.
    public func outdatedShare(_ candidate: Int) -> Double {
        counts.followed == 0 ? 0 : Double(counts.effects[candidate].outdated) / Double(counts.followed)
    }
}

extension ComparedName {
    fileprivate var hasNoEffect: Bool {
        different == 0 && Int(equal) >= AdviceEvidence.comparisons && Int(doubtful) * AdviceEvidence.comparisonsOfDoubt <= Int(equal)
    }
}
