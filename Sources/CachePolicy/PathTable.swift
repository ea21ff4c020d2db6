// What may be different for some paths.

/// What holds for a path, where some have rules of their own.
@usableFromInline package struct PathTable<Rules: Sendable & Equatable>: Sendable {
    @usableFromInline package let exceptions: [(pattern: RoutePattern, rules: Rules)]
    @usableFromInline package let rest: Rules

    /// - Parameters:
    ///   - exceptions: the first that fits counts.
    ///   - rest: for all other paths.
    package init(_ exceptions: [(pattern: RoutePattern, rules: Rules)] = [], rest: Rules) {
        // Where all say the same, nobody has to look which it is.
        self.exceptions = exceptions.allSatisfy { $0.rules == rest } ? [] : exceptions
        self.rest = rest
    }

    /// Inlined, since a table of types unknown here would ask for them at each use: two thousand steps for every response.
    @inlinable package func rules(for target: ArraySlice<UInt8>) -> Rules {
        if exceptions.isEmpty { return rest }
        return exceptions.first { $0.pattern.matches(target) }?.rules ?? rest
    }
}
