// What may be different for some paths.

/// What holds for a path, where some have rules of their own.
public struct PathTable<Rules: Sendable>: Sendable {
    @usableFromInline let exceptions: [(pattern: RoutePattern, rules: Rules)]
    @usableFromInline let rest: Rules

    /// - Parameters:
    ///   - exceptions: the first that fits counts.
    ///   - rest: for all other paths.
    public init(_ exceptions: [(pattern: RoutePattern, rules: Rules)] = [], rest: Rules) {
        (self.exceptions, self.rest) = (exceptions, rest)
    }

    /// Inlined, since a table of types unknown here would ask for them at each use: two thousand steps for every response.
    /// - Parameter target: made only where some path has rules of its own.
    @inlinable public func rules(for target: @autoclosure () -> ArraySlice<UInt8>) -> Rules {
        if exceptions.isEmpty { return rest }
        let target = target()
        return exceptions.first { $0.pattern.matches(target) }?.rules ?? rest
    }

    /// Whether it is so for any path.
    public func contains(where predicate: (Rules) -> Bool) -> Bool { predicate(rest) || exceptions.contains { predicate($0.rules) } }

    /// Whether no path has rules of its own.
    var isUniform: Bool { exceptions.isEmpty }

    public func map<Other: Sendable>(_ change: (Rules) -> Other) -> PathTable<Other> {
        PathTable<Other>(exceptions.map { ($0.pattern, change($0.rules)) }, rest: change(rest))
    }
}

extension PathTable where Rules: Equatable {
    /// Where all say the same, nobody has to look which it is.
    public var simplified: Self { exceptions.allSatisfy { $0.rules == rest } ? Self(rest: rest) : self }
}
