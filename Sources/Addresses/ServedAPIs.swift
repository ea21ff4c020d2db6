// Selects one of several APIs for a request. Compares the host first: exact names have priority over wildcards, and wildcards over scopes
// without names; each with a port over those without. Then compares the path: the longest prefix has priority.

import HTTPCore

public struct ServedAPIs: Sendable {
    /// The hosts and paths of one API.
    public struct Scope: Sendable {
        /// Empty matches every host.
        public var names: ServedNames
        /// Path prefix in complete segments, without a trailing slash; empty matches all paths.
        public var path: [UInt8]
        /// Whether the prefix is removed before requests are forwarded.
        public var isStripped = false

        public init(names: ServedNames = ServedNames(), path: [UInt8] = []) { (self.names, self.path) = (names, path) }
    }

    public enum Choice: Sendable, Equatable {
        /// Index of the API.
        case api(Int)
        /// No API has the host.
        case noHost
        /// No API with this host has the path.
        case noPath
    }

    private let scopes: [Scope]

    public init(_ scopes: [Scope]) { self.scopes = scopes }

    /// - Parameters:
    ///   - authority: `host[:port]`, as in a Host field.
    ///   - target: path and query.
    public func choose(_ authority: ArraySlice<UInt8>, _ target: ArraySlice<UInt8>) -> Choice {
        let choice = choice(authority) { Self.begins(target, with: $0) }
        // A path that an upstream may read as another API's path is rejected: `/a/../b` belongs neither to /a nor to /b.
        guard let readings = PathReadings(target) else { return choice }
        guard case .api(let index) = choice, !readings.isIncomplete else { return .noPath }
        let isClear = readings.all.allSatisfy { reading in
            self.choice(authority) { path in reading.starts(with: path.isEmpty ? [] : PathReadings.segments(of: path)) } == choice
        }
        guard isClear else { return .noPath }
        guard scopes[index].isStripped else { return choice }
        // The remaining path must not lead above the root: `/../orders/1` differs from `/orders/../orders/1`.
        let rest = target.withoutQuery.dropFirst(scopes[index].path.count)
        return PathReadings(rest)?.mayLeaveRoot == true ? .noPath : choice
    }

    /// Returns whether requests for a target may belong to an API, judged by path: among APIs with equal hosts, the longest prefix applies.
    public func mayBe(_ index: Int, for target: ArraySlice<UInt8>) -> Bool {
        let scope = scopes[index]
        guard Self.begins(target, with: scope.path) else { return false }
        return !scopes.contains { $0.path.count > scope.path.count && $0.names == scope.names && Self.begins(target, with: $0.path) }
    }

    /// - Parameter begins: returns whether the target begins with a scope's path.
    private func choice(_ authority: ArraySlice<UInt8>, _ begins: ([UInt8]) -> Bool) -> Choice {
        var best = (rank: 0, index: nil as Int?)
        for (index, scope) in scopes.enumerated() {
            let rank = scope.rank(of: authority)
            guard rank > 0, rank >= best.rank else { continue }
            if rank > best.rank { best = (rank, nil) }
            guard begins(scope.path) else { continue }
            if best.index.map({ scopes[$0].path.count < scope.path.count }) ?? true { best.index = index }
        }
        guard best.rank > 0 else { return .noHost }
        return best.index.map { .api($0) } ?? .noPath
    }

    private static func begins(_ target: ArraySlice<UInt8>, with path: [UInt8]) -> Bool {
        guard !path.isEmpty else { return true }
        guard target.starts(with: path) else { return false }
        let next = target.dropFirst(path.count).first
        return next == nil || next == UInt8(ascii: "/") || next == UInt8(ascii: "?")
    }
}

extension ServedAPIs.Scope {
    /// How exactly the host matches; 0 if it does not match.
    fileprivate func rank(of authority: ArraySlice<UInt8>) -> Int {
        names.isEmpty ? 1 : names.fit(authority).map { 1 + $0.rawValue } ?? 0
    }
}
