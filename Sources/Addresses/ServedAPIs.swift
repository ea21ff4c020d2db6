// For which of several APIs a request is: its host says it first, the most exact name before a star and a star before none, each with its port
// before without; then its path, the longest beginning before shorter ones.

import HTTPCore

public struct ServedAPIs: Sendable {
    /// What one API is for.
    public struct Scope: Sendable {
        /// Empty for any.
        public var names: ServedNames
        /// What paths begin with, in whole segments and without a slash at the end; empty for all.
        public var path: [UInt8]
        /// Whether the upstream is asked without that.
        public var isStripped = false

        public init(names: ServedNames = ServedNames(), path: [UInt8] = []) { (self.names, self.path) = (names, path) }
    }

    public enum Choice: Sendable, Equatable {
        /// Its place.
        case api(Int)
        /// None has the host.
        case noHost
        /// None of those that have the host has the path.
        case noPath
    }

    private let scopes: [Scope]

    public init(_ scopes: [Scope]) { self.scopes = scopes }

    /// - Parameters:
    ///   - authority: `host[:port]`, as in a Host field.
    ///   - target: path and query.
    public func choose(_ authority: ArraySlice<UInt8>, _ target: ArraySlice<UInt8>) -> Choice {
        let choice = choice(authority) { Self.begins(target, with: $0) }
        // A path that an upstream may read as another API's must not lead there from here: `/a/../b` is neither /a's nor /b's.
        guard let readings = PathReadings(target) else { return choice }
        guard case .api(let place) = choice, !readings.isIncomplete else { return .noPath }
        let isClear = readings.all.allSatisfy { reading in
            self.choice(authority) { path in reading.starts(with: path.isEmpty ? [] : PathReadings.segments(of: path)) } == choice
        }
        guard isClear else { return .noPath }
        guard scopes[place].isStripped else { return choice }
        // What is left of it must not lead above its beginning: `/../orders/1` is not what `/orders/../orders/1` is.
        let rest = target.withoutQuery.dropFirst(scopes[place].path.count)
        return PathReadings(rest)?.mayLeaveRoot == true ? .noPath : choice
    }

    /// Whether requests for a target can be for an API, as far as paths tell: where others have the same hosts, the longest counts.
    public func mayBe(_ place: Int, for target: ArraySlice<UInt8>) -> Bool {
        let scope = scopes[place]
        guard Self.begins(target, with: scope.path) else { return false }
        return !scopes.contains { $0.path.count > scope.path.count && $0.names == scope.names && Self.begins(target, with: $0.path) }
    }

    /// - Parameter begins: whether the target begins with a scope's path.
    private func choice(_ authority: ArraySlice<UInt8>, _ begins: ([UInt8]) -> Bool) -> Choice {
        var best = (rank: 0, place: nil as Int?)
        for (place, scope) in scopes.enumerated() {
            let rank = scope.rank(of: authority)
            guard rank > 0, rank >= best.rank else { continue }
            if rank > best.rank { best = (rank, nil) }
            guard begins(scope.path) else { continue }
            if best.place.map({ scopes[$0].path.count < scope.path.count }) ?? true { best.place = place }
        }
        guard best.rank > 0 else { return .noHost }
        return best.place.map { .api($0) } ?? .noPath
    }

    private static func begins(_ target: ArraySlice<UInt8>, with path: [UInt8]) -> Bool {
        guard !path.isEmpty else { return true }
        guard target.starts(with: path) else { return false }
        let next = target.dropFirst(path.count).first
        return next == nil || next == UInt8(ascii: "/") || next == UInt8(ascii: "?")
    }
}

extension ServedAPIs.Scope {
    /// How exactly the host is meant; 0 where it is not.
    fileprivate func rank(of authority: ArraySlice<UInt8>) -> Int {
        names.isEmpty ? 1 : names.fit(authority).map { 1 + $0.rawValue } ?? 0
    }
}
