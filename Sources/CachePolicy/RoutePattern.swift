// Matches paths against route patterns. A path as received is compared in the spelling of cache keys (`CacheKey`), so all paths of one key
// are on one route. A reading of a path (`PathReadings`) is compared percent-decoded.

import HTTPCore

/// A pattern such as `/users/*/posts/**`. `*` matches one non-empty segment. `**` at the end matches any remainder, including none.
public struct RoutePattern: Sendable, Equatable {
    private enum Segment: Sendable, Equatable {
        /// In the spelling of cache keys, and percent-decoded.
        case literal([UInt8], decoded: [UInt8])
        case any
    }

    private let segments: [Segment]
    private let takesRest: Bool

    /// The pattern as configured.
    public let text: String

    public init(_ text: String) {
        self.text = text
        var parts = text.utf8.dropFirst().split(separator: Self.slash, omittingEmptySubsequences: false).map { Array($0) }
        takesRest = parts.last == Array("**".utf8)
        if takesRest { parts.removeLast() }
        let decoded = PathReadings.segments(of: [Self.slash] + parts.joined(separator: [Self.slash]))
        segments = zip(parts, decoded).map { part, decoded in
            part == [UInt8(ascii: "*")] ? .any : .literal(Self.canonical(Array(RequestTarget.escaped(part[...]))), decoded: decoded)
        }
    }

    /// Returns what is wrong with a pattern, as a clause; nil if it is valid.
    public static func mistake(in text: String) -> String? {
        guard text.hasPrefix("/") else { return "the path must begin with /" }
        let segments = text.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        if segments.contains(where: { $0.contains("*") && $0 != "*" && $0 != "**" }) {
            return "* must be a whole segment, as in /users/*"
        }
        return segments.dropLast().contains("**") ? "** can only be the last segment" : nil
    }

    /// Returns whether a path that begins with these complete segments can match.
    /// - Parameter path: without a trailing slash; empty for all paths.
    public func mayMatch(below path: some Collection<UInt8>) -> Bool {
        let wanted = path.dropFirst().split(separator: Self.slash, omittingEmptySubsequences: false)
        let begins = zip(segments, path.isEmpty ? [] : wanted).allSatisfy { segment, part in
            switch segment {
            case .literal(let literal, _): literal == Self.canonical(Array(part))
            case .any: !part.isEmpty
            }
        }
        return begins && (path.isEmpty || takesRest || segments.count >= wanted.count)
    }

    /// Returns whether this pattern matches all paths that the other one matches.
    public func covers(_ other: RoutePattern) -> Bool {
        guard takesRest ? segments.count <= other.segments.count : !other.takesRest && segments.count == other.segments.count else {
            return false
        }
        return zip(segments, other.segments).allSatisfy { mine, other in
            if case .literal([], _) = other { mine == other } else { mine == .any || mine == other }
        }
    }

    /// - Parameter reading: percent-decoded segments of a reading.
    func matches(reading: [[UInt8]]) -> Bool {
        guard reading.count == segments.count || (takesRest && reading.count > segments.count) else { return false }
        return zip(segments, reading).allSatisfy { segment, part in
            switch segment {
            case .literal(_, let decoded): decoded == part
            case .any: !part.isEmpty
            }
        }
    }

    /// - Parameter target: path and query as received.
    public func matches(_ target: ArraySlice<UInt8>) -> Bool {
        let bytes = target.span
        return matches(bytes)
    }

    /// Scans bytes directly, because each route is compared with every request.
    private func matches(_ target: Span<UInt8>) -> Bool {
        guard !target.isEmpty, target[0] == Self.slash else { return false }
        var start = 1
        for index in 0..<segments.count {
            var end = start
            while end < target.count, target[end] != Self.slash, target[end] != Self.question { end += 1 }
            switch segments[index] {
            case .literal(let wanted, _): guard Self.isSame(wanted, target, start, end) else { return false }
            case .any: guard end > start else { return false }
            }
            if end == target.count || target[end] == Self.question { return index == segments.count - 1 }
            start = end + 1
        }
        return takesRest
    }

    private static let slash = UInt8(ascii: "/")
    private static let question = UInt8(ascii: "?")
    private static let percent = UInt8(ascii: "%")

    /// Does not allocate until a percent sign occurs, which is rare.
    private static func isSame(_ wanted: [UInt8], _ target: Span<UInt8>, _ start: Int, _ end: Int) -> Bool {
        var position = 0
        while start + position < end, target[start + position] != percent {
            guard position < wanted.count, wanted[position] == target[start + position] else { return false }
            position += 1
        }
        return start + position == end ? position == wanted.count : wanted == canonical(Array(copying: target.extracting(start..<end)))
    }

    private static func canonical(_ segment: [UInt8]) -> [UInt8] {
        guard segment.contains(percent) else { return segment }
        var out: [UInt8] = []
        CacheKey.appendPath(segment, to: &out)
        return out
    }
}
