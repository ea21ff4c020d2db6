// Serving modes: for all paths, for path prefixes, and for routes.

import HTTPCore

/// Serving modes by path. The longest matching prefix applies, then the path's route, then the global mode.
public struct ModeTable: Sendable, Equatable {
    public struct Rule: Sendable, Equatable {
        public let prefix: String
        public let mode: ServingMode
    }

    public private(set) var all = ServingMode.live
    /// Sorted by length, longest first.
    public private(set) var rules: [Rule] = []
    /// Modes by index of the route.
    public private(set) var routes: [Int: ServingMode] = [:]

    /// Maximum number of rules: they are compared with each request.
    public static let ruleLimit = 256

    /// - Parameter routes: initial modes by index of the route.
    public init(all: ServingMode = .live, routes: [Int: ServingMode] = [:]) {
        self.all = all
        self.routes = routes
    }

    /// True if all paths have the mode `live`.
    public var isLive: Bool { all == .live && rules.isEmpty && routes.isEmpty }

    /// Returns how many prefixes and how many routes have this mode.
    public func exceptions(with mode: ServingMode) -> (prefixes: Int, routes: Int) {
        (rules.count { $0.mode == mode }, routes.values.count { $0 == mode })
    }

    /// Sets a mode. Returns false if there are too many rules.
    /// - Parameter prefix: empty for all paths.
    public mutating func set(_ mode: ServingMode, prefix: String) -> Bool {
        guard !prefix.isEmpty else {
            all = mode
            return true
        }
        rules.removeAll { $0.prefix == prefix }
        guard rules.count < Self.ruleLimit else { return false }
        let index = rules.firstIndex { $0.prefix.utf8.count < prefix.utf8.count } ?? rules.endIndex
        rules.insert(Rule(prefix: prefix, mode: mode), at: index)
        return true
    }

    /// Removes the rule for a prefix. Returns false if there was none.
    public mutating func remove(prefix: String) -> Bool {
        let count = rules.count
        rules.removeAll { $0.prefix == prefix }
        return rules.count < count
    }

    /// Sets the mode of a route, or removes it. Returns false if there was no mode to remove.
    /// - Parameter mode: nil removes the route's mode.
    public mutating func set(_ mode: ServingMode?, route index: Int) -> Bool {
        guard let mode else { return routes.removeValue(forKey: index) != nil }
        routes[index] = mode
        return true
    }

    /// - Parameters:
    ///   - target: path and query as received.
    ///   - route: returns the index of a target's route.
    public func mode(of target: ArraySlice<UInt8>, route: (ArraySlice<UInt8>) -> Int) -> ServingMode {
        if let rule = rules.first(where: { target.starts(with: $0.prefix.utf8) }) { return rule.mode }
        return routes.isEmpty ? all : routes[route(target)] ?? all
    }
}
