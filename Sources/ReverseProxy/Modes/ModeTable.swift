// Which mode is for all paths, for those that begin in some way, and for those of a route.

import CachePolicy
import HTTPCore

/// Which mode is for which paths. The longest prefix that fits counts, then the path's route, then what is for all.
struct ModeTable: Sendable, Equatable {
    struct Rule: Sendable, Equatable {
        let prefix: String
        let mode: ServingMode
    }

    private(set) var all = ServingMode.live
    /// Longest first.
    private(set) var rules: [Rule] = []
    /// By the place of the route.
    private(set) var routes: [Int: ServingMode] = [:]

    /// Rules are compared with each request: so many at most.
    static let ruleLimit = 256

    /// - Parameter routes: with the modes that they begin with.
    init(all: ServingMode = .live, routes: Routes? = nil) {
        self.all = all
        for (place, route) in (routes?.all.dropLast() ?? []).enumerated() {
            if let mode = route.mode { self.routes[place] = mode }
        }
    }

    /// Whether there is nothing to look up.
    var isLive: Bool { all == .live && rules.isEmpty && routes.isEmpty }

    /// How many prefixes, and how many routes, have this mode.
    func exceptions(with mode: ServingMode) -> (prefixes: Int, routes: Int) {
        (rules.count { $0.mode == mode }, routes.values.count { $0 == mode })
    }

    /// Returns false where there are too many rules.
    /// - Parameter prefix: empty for all paths.
    mutating func set(_ mode: ServingMode, prefix: String) -> Bool {
        guard !prefix.isEmpty else {
            all = mode
            return true
        }
        rules.removeAll { $0.prefix == prefix }
        guard rules.count < Self.ruleLimit else { return false }
        let place = rules.firstIndex { $0.prefix.utf8.count < prefix.utf8.count } ?? rules.endIndex
        rules.insert(Rule(prefix: prefix, mode: mode), at: place)
        return true
    }

    /// The paths that begin so are as all others again. Returns false where there was no rule for them.
    mutating func remove(prefix: String) -> Bool {
        let count = rules.count
        rules.removeAll { $0.prefix == prefix }
        return rules.count < count
    }

    /// - Parameter mode: nil has the route's paths as all others again; returns false where they are already.
    mutating func set(_ mode: ServingMode?, route place: Int) -> Bool {
        guard let mode else { return routes.removeValue(forKey: place) != nil }
        routes[place] = mode
        return true
    }

    /// - Parameters:
    ///   - target: path and query as received.
    ///   - known: the routes of the table.
    func mode(of target: ArraySlice<UInt8>, _ known: Routes) -> ServingMode {
        if let rule = rules.first(where: { target.starts(with: $0.prefix.utf8) }) { return rule.mode }
        return routes.isEmpty ? all : routes[known.place(of: target)] ?? all
    }
}
