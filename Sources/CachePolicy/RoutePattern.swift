// Which paths a route is for. Compared as received, byte by byte: spellings that the upstream may tell apart are never merged.

import HTTPCore

/// `/users/*/posts/**`: `*` stands for one segment that is not empty, `**` at the end for any rest, also none.
public struct RoutePattern: Sendable, Equatable {
    private enum Segment: Sendable, Equatable {
        case literal([UInt8])
        case any
    }

    private let segments: [Segment]
    private let takesRest: Bool

    public init(_ text: String) {
        var parts = text.utf8.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { Array($0) }
        takesRest = parts.last == Array("**".utf8)
        if takesRest { parts.removeLast() }
        segments = parts.map { $0 == [UInt8(ascii: "*")] ? .any : .literal($0) }
    }

    /// As it was written.
    public var text: String {
        let parts = segments.map { segment in
            switch segment {
            case .literal(let literal): String(decoding: literal, as: UTF8.self)
            case .any: "*"
            }
        }
        return "/" + (parts + (takesRest ? ["**"] : [])).joined(separator: "/")
    }

    /// Whether some path that begins with these whole segments matches.
    /// - Parameter path: without a slash at its end; empty for all paths.
    public func mayMatch(below path: some Collection<UInt8>) -> Bool {
        let wanted = path.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        let begins = zip(segments, path.isEmpty ? [] : wanted).allSatisfy { segment, part in
            switch segment {
            case .literal(let literal): literal.elementsEqual(part)
            case .any: !part.isEmpty
            }
        }
        return begins && (path.isEmpty || takesRest || segments.count >= wanted.count)
    }

    /// - Parameter target: path and query as received.
    public func matches(_ target: ArraySlice<UInt8>) -> Bool { target.withUnsafeBufferPointer(matches) }

    /// By hand: it is asked of each route, for requests that need nothing else.
    private func matches(_ target: UnsafeBufferPointer<UInt8>) -> Bool {
        guard target.first == Self.slash else { return false }
        var start = 1
        for index in 0..<segments.count {
            var end = start
            while end < target.count, target[end] != Self.slash, target[end] != Self.question { end += 1 }
            switch segments[index] {
            case .literal(let wanted): guard Self.isSame(wanted, target, start, end) else { return false }
            case .any: guard end > start else { return false }
            }
            if end == target.count || target[end] == Self.question { return index == segments.count - 1 }
            start = end + 1
        }
        return takesRest
    }

    private static let slash = UInt8(ascii: "/")
    private static let question = UInt8(ascii: "?")

    private static func isSame(_ wanted: [UInt8], _ target: UnsafeBufferPointer<UInt8>, _ start: Int, _ end: Int) -> Bool {
        guard wanted.count == end - start else { return false }
        for index in 0..<wanted.count where wanted[index] != target[start + index] { return false }
        return true
    }
}
