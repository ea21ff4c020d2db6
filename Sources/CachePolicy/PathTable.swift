// What may be different for some paths, and what follows where servers read a path in several ways.

import HTTPCore

/// Rules that may be different for some paths.
public protocol PathRules: Sendable {
    /// The rules for a path that servers may read as one of these rules' or as one of the other's. A rule that protects holds if either has it; a rule
    /// that opens holds if both do. All others are as these say.
    func stricter(_ other: Self) -> Self
}

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

    /// The rules for a path as it was written: for what neither protects nor opens.
    public func rulesAsWritten(for target: ArraySlice<UInt8>) -> Rules { at(index(of: target)) }

    /// Whether it is so for a reading of the path: for rules that protect.
    public func holdsForAny(_ target: ArraySlice<UInt8>, _ isSo: (Rules) -> Bool) -> Bool {
        if exceptions.isEmpty { return isSo(rest) }
        return indices(of: target).contains { isSo(at($0)) }
    }

    /// Whether it is so for every reading of the path: for rules that open.
    public func holdsForAll(_ target: ArraySlice<UInt8>, _ isSo: (Rules) -> Bool) -> Bool { !holdsForAny(target) { !isSo($0) } }

    /// Whether it is so for any path.
    public func contains(where predicate: (Rules) -> Bool) -> Bool { predicate(rest) || exceptions.contains { predicate($0.rules) } }

    /// Whether no path has rules of its own.
    var isUniform: Bool { exceptions.isEmpty }

    public func map<Other: Sendable>(_ change: (Rules) -> Other) -> PathTable<Other> {
        PathTable<Other>(exceptions.map { ($0.pattern, change($0.rules)) }, rest: change(rest))
    }

    private func at(_ index: Int) -> Rules { index < exceptions.count ? exceptions[index].rules : rest }

    private func index(of target: ArraySlice<UInt8>) -> Int {
        exceptions.firstIndex { $0.pattern.matches(target) } ?? exceptions.count
    }

    /// The places of the rules that the readings of a path have, each once. The path as it was written comes first.
    private func indices(of target: ArraySlice<UInt8>) -> [Int] {
        var found = [index(of: target)]
        guard let readings = PathReadings(target) else { return found }
        if readings.isIncomplete { return found + (0...exceptions.count).filter { $0 != found[0] } }
        for reading in readings.all {
            let index = exceptions.firstIndex { $0.pattern.matches(reading: reading) } ?? exceptions.count
            if !found.contains(index) { found.append(index) }
        }
        return found
    }

    /// The rules of all readings of a path that is not plain.
    @usableFromInline func rules(ofReadings target: ArraySlice<UInt8>) -> (first: Rules, others: [Rules]) {
        let found = indices(of: target)
        return (at(found[0]), found.dropFirst().map(at))
    }

    @usableFromInline func isPlain(_ target: ArraySlice<UInt8>) -> Bool { PathReadings.isPlain(target) }
}

extension PathTable where Rules: PathRules {
    /// Inlined, since a table of types unknown here would ask for them at each use: two thousand steps for every response.
    /// - Parameter target: made only where some path has rules of its own.
    @inlinable public func rules(for target: @autoclosure () -> ArraySlice<UInt8>) -> Rules {
        if exceptions.isEmpty { return rest }
        let target = target()
        guard isPlain(target) else {
            let (first, others) = rules(ofReadings: target)
            return others.reduce(first) { $0.stricter($1) }
        }
        return exceptions.first { $0.pattern.matches(target) }?.rules ?? rest
    }
}

extension PathTable where Rules: Equatable {
    /// Where all say the same, nobody has to look which it is.
    public var simplified: Self { exceptions.allSatisfy { $0.rules == rest } ? Self(rest: rest) : self }
}
