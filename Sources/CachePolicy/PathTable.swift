// Rules that differ between paths, also where servers may read one path in several ways (`PathReadings`).

import HTTPCore

/// Rules that may differ between paths.
public protocol PathRules: Sendable {
    /// Returns the rules for a path that servers may read as a path of `self` or of `other`. A protective rule applies if either side has
    /// it; a permissive rule applies if both do. All other rules are those of `self`.
    func stricter(_ other: Self) -> Self
}

/// A path with its readings.
public struct ReadPath: Sendable {
    let target: ArraySlice<UInt8>
    let readings: PathReadings?

    /// - Parameter target: path and query as received.
    public init(_ target: ArraySlice<UInt8>) { (self.target, readings) = (target, PathReadings(target)) }

    /// Number of comparisons with each pattern.
    public var comparisons: Int { 1 + (readings?.all.count ?? 0) }
}

/// The rules of each path: a list of exceptions and a default.
public struct PathTable<Rules: Sendable>: Sendable {
    @usableFromInline let exceptions: [(pattern: RoutePattern, rules: Rules)]
    @usableFromInline let rest: Rules

    /// - Parameters:
    ///   - exceptions: the first matching pattern applies.
    ///   - rest: rules for all other paths.
    public init(_ exceptions: [(pattern: RoutePattern, rules: Rules)] = [], rest: Rules) {
        (self.exceptions, self.rest) = (exceptions, rest)
    }

    /// Returns the rules for a path as received. For rules that neither protect nor permit.
    public func rulesAsWritten(for target: ArraySlice<UInt8>) -> Rules { at(index(of: target)) }

    /// Returns whether the condition holds for at least one reading of the path. For protective rules.
    public func holdsForAny(_ target: ArraySlice<UInt8>, _ isSo: (Rules) -> Bool) -> Bool {
        if exceptions.isEmpty { return isSo(rest) }
        return holdsForAny(ReadPath(target), isSo)
    }

    /// - Parameter path: a path that is compared with many tables.
    public func holdsForAny(_ path: ReadPath, _ isSo: (Rules) -> Bool) -> Bool { indices(of: path).contains { isSo(at($0)) } }

    /// Returns whether the condition holds for every reading of the path. For permissive rules.
    public func holdsForAll(_ target: ArraySlice<UInt8>, _ isSo: (Rules) -> Bool) -> Bool { !holdsForAny(target) { !isSo($0) } }

    /// Returns whether the condition holds for any rules in the table.
    public func contains(where predicate: (Rules) -> Bool) -> Bool { predicate(rest) || exceptions.contains { predicate($0.rules) } }

    var all: [Rules] { exceptions.map(\.rules) + [rest] }

    /// True if there are no exceptions.
    public var isUniform: Bool { exceptions.isEmpty }

    public func map<Other: Sendable>(_ change: (Rules) -> Other) -> PathTable<Other> {
        PathTable<Other>(exceptions.map { ($0.pattern, change($0.rules)) }, rest: change(rest))
    }

    private func at(_ index: Int) -> Rules { index < exceptions.count ? exceptions[index].rules : rest }

    private func index(of target: ArraySlice<UInt8>) -> Int {
        exceptions.firstIndex { $0.pattern.matches(target) } ?? exceptions.count
    }

    /// Returns the indices of the rules of all readings of a path, without duplicates. The path as received comes first.
    private func indices(of path: ReadPath) -> [Int] {
        var found = [index(of: path.target)]
        guard let readings = path.readings else { return found }
        if readings.isIncomplete { return found + (0...exceptions.count).filter { $0 != found[0] } }
        for reading in readings.all {
            let index = exceptions.firstIndex { $0.pattern.matches(reading: reading) } ?? exceptions.count
            if !found.contains(index) { found.append(index) }
        }
        return found
    }

    /// Returns the rules of all readings of a path that is not plain.
    @usableFromInline func rules(ofReadings target: ArraySlice<UInt8>) -> (first: Rules, others: [Rules]) {
        let found = indices(of: ReadPath(target))
        return (at(found[0]), found.dropFirst().map(at))
    }

    @usableFromInline func isPlain(_ target: ArraySlice<UInt8>) -> Bool { PathReadings.isPlain(target) }
}

extension PathTable where Rules: PathRules {
    /// Returns the rules of a path. Inlined, because the unspecialized generic function looked up type metadata at each use: two thousand
    /// instructions for every response.
    /// - Parameter target: evaluated only if there are exceptions.
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
    /// Returns a table without exceptions if all rules are equal.
    public var simplified: Self { exceptions.allSatisfy { $0.rules == rest } ? Self(rest: rest) : self }
}
