// Which mode is for all paths, for those that begin in some way, and for those of a route.

import HTTPCore

/// Which mode is for which paths. The longest prefix that fits counts, then the path's route, then what is for all.
public struct ModeTable: Sendable, Equatable {
    public struct Rule: Sendable, Equatable {
        public let prefix: String
        public let mode: ServingMode
    }

    public private(set) var all = ServingMode.live
    /// Longest first.
    public private(set) var rules: [Rule] = []
    /// By the place of the route.
    public private(set) var routes: [Int: ServingMode] = [:]

    /// Rules are compared with each request: so many at most.
    public static let ruleLimit = 256

    /// - Parameter routes: the modes that they begin with, by their places.
    public init(all: ServingMode = .live, routes: [Int: ServingMode] = [:]) {
        self.all = all
        self.routes = routes
    }

    /// Whether there is nothing to look up.
    public var isLive: Bool { all == .live && rules.isEmpty && routes.isEmpty }

    /// How many prefixes, and how many routes, have this mode.
    public func exceptions(with mode: ServingMode) -> (prefixes: Int, routes: Int) {
        (rules.count { $0.mode == mode }, routes.values.count { $0 == mode })
    }

    /// Returns false where there are too many rules.
    /// - Parameter prefix: empty for all paths.
    public mutating func set(_ mode: ServingMode, prefix: String) -> Bool {
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
    public mutating func remove(prefix: String) -> Bool {
        let count = rules.count
        rules.removeAll { $0.prefix == prefix }
        return rules.count < count
    }

    /// - Parameter mode: nil has the route's paths as all others again; returns false where they are already.
    public mutating func set(_ mode: ServingMode?, route place: Int) -> Bool {
        guard let mode else { return routes.removeValue(forKey: place) != nil }
        routes[place] = mode
        return true
    }

    /// - Parameters:
    ///   - target: path and query as received.
    ///   - route: the place of a target's route.
    public func mode(of target: ArraySlice<UInt8>, route: (ArraySlice<UInt8>) -> Int) -> ServingMode {
        if let rule = rules.first(where: { target.starts(with: $0.prefix.utf8) }) { return rule.mode }
        return routes.isEmpty ? all : routes[route(target)] ?? all
    }
}
