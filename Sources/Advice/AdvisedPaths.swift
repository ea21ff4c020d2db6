// The paths that one setting can change: those of a named route, or those of one template that no route matches.

import CachePolicy
import Explanation

/// The settings of a route that proposals depend on.
public struct AdvisedRoute: Sendable {
    /// Empty for all paths that match no route.
    public let name: String
    public let pattern: String
    /// Freshness lifetime in seconds of responses without one; nil if not set.
    public let lifetime: Int64?
    /// Milliseconds; 0 for no limit.
    public let rescueAfter: Int64
    /// Seconds for which errors are stored; 0 if they are not.
    public let negative: Int64
    public let ignoredArguments: [String]
    public let ignoredDirectives: [String]

    public init(
        name: String = "", pattern: String = "/**", lifetime: Int64? = nil, rescueAfter: Int64 = 1_500, negative: Int64 = 0,
        ignoredArguments: [String] = [], ignoredDirectives: [String] = []
    ) {
        (self.name, self.pattern, self.lifetime) = (name, pattern, lifetime)
        (self.rescueAfter, self.negative) = (rescueAfter, negative)
        (self.ignoredArguments, self.ignoredDirectives) = (ignoredArguments, ignoredDirectives)
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
    /// Maximum share of responses that may be out of date, in percent.
    public static let outdatedPercent = 1
    /// Minimum share of saved requests, in percent.
    public static let savedPercent = 10
    /// Comparisons of responses that differ in one argument or field.
    public static let comparisons = 50
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
    public fileprivate(set) var counts: ObservedCounts
    public fileprivate(set) var names: [ComparedName]
    fileprivate(set) var varying: Set<[UInt8]>

    /// Groups the observed paths. Paths without requests are left out.
    public static func all(_ summaries: [ObservedSummary], _ settings: AdvisedSettings) -> [AdvisedPaths] {
        var all: [AdvisedPaths] = []
        for one in summaries where one.counts.requests > 0 && settings.routes.indices.contains(Int(one.route)) {
            let route = settings.routes[Int(one.route)]
            if !route.name.isEmpty, let index = all.firstIndex(where: { $0.route.name == route.name }) {
                all[index].add(one)
            } else {
                all.append(
                    AdvisedPaths(
                        route: route, path: route.name.isEmpty ? one.template : route.pattern, counts: one.counts, names: one.names,
                        varying: Set(one.varying)))
            }
        }
        return all.sorted { ($1.counts.requests, $0.path) < ($0.counts.requests, $1.path) }
    }

    private mutating func add(_ other: ObservedSummary) {
        counts.add(other.counts)
        varying.formUnion(other.varying)
        for name in other.names {
            if let index = names.firstIndex(where: { $0.name == name.name && $0.isField == name.isField }) {
                names[index].equal &+= name.equal
                names[index].different &+= name.different
            } else {
                names.append(name)
            }
        }
    }

    public var obstacle: FreshnessObstacle? {
        if counts.unstored[.noStore] != nil { return .noStore }
        let personal: [NotStoredReason] = [
            .privateResponse, .authorized, .userUnknown, .oneTimeCredentials, .connectionUser, .setCookie,
        ]
        if personal.contains(where: { counts.unstored[$0] != nil }) { return .personal }
        return counts.stated > 0 ? .stated : nil
    }

    /// What is missing for a proposal, as a clause; nil if there is enough evidence.
    public var missingEvidence: String? {
        let seconds = counts.span / 1_000
        if counts.requests < AdviceEvidence.requests {
            return "\(AdviceEvidence.requests) requests are needed"
        }
        return seconds < AdviceEvidence.seconds
            ? "\(NumberText.span(AdviceEvidence.seconds)) between the first and the last are needed" : nil
    }

    /// `1,204 requests in 2 h 10 min`.
    public var extent: String {
        "\(NumberText.count(UInt64(counts.requests), "request", "requests")) in \(Self.span(counts.span / 1_000))"
    }

    static func span(_ seconds: Int64) -> String {
        guard seconds >= 3_600 else { return NumberText.span(seconds) }
        let minutes = seconds / 60 % 60
        return "\(seconds / 3_600) h" + (minutes == 0 ? "" : " \(minutes) min")
    }

    /// Share of the followed fetches.
    public func share(_ part: UInt32) -> Double { counts.followed == 0 ? 0 : Double(part) / Double(counts.followed) }
}
