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
    public func matches(_ target: ArraySlice<UInt8>) -> Bool {
        let path = target.withoutQuery
        var rest = path.dropFirst()
        guard path.first == UInt8(ascii: "/") else { return false }
        for (index, segment) in segments.enumerated() {
            let end = rest.firstIndex(of: UInt8(ascii: "/")) ?? rest.endIndex
            let part = rest[..<end]
            switch segment {
            case .literal(let wanted): guard part.elementsEqual(wanted) else { return false }
            case .any: guard !part.isEmpty else { return false }
            }
            let isLast = index == segments.count - 1
            if end == rest.endIndex { return isLast }
            rest = rest[(end + 1)...]
        }
        return takesRest
    }
}
