// The paths that servers may derive from one request's path. Servers differ in what they treat as a slash, a parameter or a dot segment,
// and in the order of these steps. A proxy and its backend combine them. Rules are checked against every reading (`PathTable`,
// `ServedAPIs`). Cache keys and forwarded requests keep the client's spelling.

public struct PathReadings: Sendable {
    /// The percent-decoded segments of each reading; empty if incomplete. The first reading resolves nothing.
    public private(set) var all: [[[UInt8]]] = []
    /// True if the path has more readings than `limit` or `workLimitBytes` permits. Then every protective rule must be assumed to apply,
    /// and no permissive one.
    public private(set) var isIncomplete = false
    /// True if a reading may lead above the root.
    public private(set) var mayLeaveRoot = false
    /// True if lenient servers may decode the path in other ways: it has a percent sign that is encoded or stands alone, an encoded control
    /// character, or bytes that no UTF-8 text contains. The readings include the usual ways; a rule that permits should not rely on them.
    public let isOpaque: Bool

    /// Maximum number of readings. Paths of legitimate clients have one to six.
    public static let limit = 16
    /// Maximum number of bytes that all steps together may read. Bounds the work for a long path, because several tables read each path.
    static let workLimitBytes = 64 << 10
    /// Cost of a segment, as a number of bytes.
    private static let segmentBytes = 16

    /// nil if the path has a single reading, namely itself.
    /// - Parameter target: path and query.
    public init?(_ target: ArraySlice<UInt8>) {
        guard !Self.isPlain(target) else { return nil }
        let path = Array(target.withoutQuery)
        isOpaque = PathDecoding.isOpaque(path)
        let spellings = spellings(of: path)
        if !isIncomplete { all = spellings.map(Self.segments) }
    }

    /// Returns whether a target's path contains no byte that servers may read in several ways.
    public static func isPlain(_ target: ArraySlice<UInt8>) -> Bool {
        target.withUnsafeBufferPointer { target in
            var last: UInt8 = 0
            for byte in target {
                switch byte {
                case UInt8(ascii: "%"), UInt8(ascii: ";"), UInt8(ascii: "\\"): return false
                case UInt8(ascii: "/") where last == byte, UInt8(ascii: ".") where last == UInt8(ascii: "/"): return false
                case UInt8(ascii: "?"): return true
                default: last = byte
                }
            }
            return true
        }
    }

    /// Returns the results of all sequences of steps, without duplicates.
    private mutating func spellings(of path: [UInt8]) -> [[UInt8]] {
        var found = [path]
        let steps = isOpaque ? PathStep.allCases : PathStep.ordinary
        var next = 0
        var work = 0
        while next < found.count, !isIncomplete {
            let spelling = found[next]
            next += 1
            let ofSegments = spelling.count { $0 == UInt8(ascii: "/") } * Self.segmentBytes * steps.count
            work += ofSegments + spelling.count * steps.count
            // A long path of few segments may have a single reading.
            isIncomplete = (next == 1 ? ofSegments : work) > Self.workLimitBytes
            for step in steps where !isIncomplete {
                let made = step.apply(to: spelling, leavesRoot: &mayLeaveRoot)
                guard made != spelling, !found.contains(made) else { continue }
                isIncomplete = found.count == Self.limit
                if !isIncomplete { found.append(made) }
            }
        }
        if isIncomplete { mayLeaveRoot = mayLeaveRoot || isOpaque || Self.hasDots(path) }
        return found
    }

    /// Whether a path has two dots in succession, plain or encoded. Otherwise no reading leads above the root.
    private static func hasDots(_ path: [UInt8]) -> Bool {
        var (dots, index) = (0, 0)
        while index < path.count, dots < 2 {
            let isEncoded = path.encodedByte(at: index) == UInt8(ascii: ".")
            dots = isEncoded || path[index] == UInt8(ascii: ".") ? dots + 1 : 0
            index += isEncoded ? 3 : 1
        }
        return dots == 2
    }

    /// Splits a path into percent-decoded segments. A trailing slash results in an empty last segment.
    public static func segments(of path: [UInt8]) -> [[UInt8]] {
        path.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { segment in
            guard segment.contains(UInt8(ascii: "%")) else { return Array(segment) }
            return PathDecoding.decoded(Array(segment))
        }
    }
}

extension ArraySlice<UInt8> {
    /// The target with its path's dot segments resolved, also percent-encoded ones (RFC 3986 §5.2.4, §6.2.2.3).
    public var resolvingDotSegments: [UInt8] {
        let path = prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
        guard path.first == UInt8(ascii: "/") else { return Array(self) }
        var leavesRoot = false
        return PathStep.resolve(Array(path), areEncoded: true, isFile: false, &leavesRoot) + self[path.endIndex...]
    }
}

/// One transformation that a server may apply to a path.
private enum PathStep: CaseIterable {
    case decodeSlashes, takeBackslashes, decodeBackslashes
    /// Parameters of segments (`;…`), which servlet containers remove before or after decoding.
    case dropParameters, dropEncodedParameters
    case mergeSlashes
    /// Removal of an authority: generic URL parsers take the segment after two leading slashes for one (RFC 3986 §4.2), also after more
    /// slashes.
    case dropAuthority
    /// Dot segments (RFC 3986 §5.2.4), plain or also encoded; with or without the slash that remains after a trailing dot segment.
    case resolveDots, resolveEncodedDots, resolveDotsOfFile, resolveEncodedDotsOfFile
    /// Decoding of a path that was encoded twice, before it is decoded again.
    case decodeAgain
    /// Non-standard encodings of ASCII: overlong UTF-8, and `%u0041`.
    case decodeOverlong, decodeUnicode
    /// Truncation at a control character, as in a server that treats the path as a C string, and removal of bytes that are not text.
    case cutAtControl, dropNonText

    /// The steps that may change a path which is not opaque.
    static let ordinary = allCases.filter { ![.decodeAgain, .decodeOverlong, .decodeUnicode, .cutAtControl, .dropNonText].contains($0) }

    func apply(to path: [UInt8], leavesRoot: inout Bool) -> [UInt8] {
        switch self {
        case .decodeSlashes: return Self.decode(path, UInt8(ascii: "/"))
        case .takeBackslashes: return path.map { $0 == UInt8(ascii: "\\") ? UInt8(ascii: "/") : $0 }
        case .decodeBackslashes: return Self.decode(path, UInt8(ascii: "\\"))
        case .dropParameters: return Self.dropParameters(path, areEncoded: false)
        case .dropEncodedParameters: return Self.dropParameters(path, areEncoded: true)
        case .mergeSlashes:
            return path.indices.filter { $0 == 0 || path[$0] != UInt8(ascii: "/") || path[$0 - 1] != UInt8(ascii: "/") }.map { path[$0] }
        case .dropAuthority:
            let slash = UInt8(ascii: "/")
            guard path.starts(with: [slash, slash]) else { return path }
            let rest = path.drop { $0 == slash }.drop { $0 != slash }
            return rest.isEmpty ? [slash] : Array(rest)
        case .resolveDots: return Self.resolve(path, areEncoded: false, isFile: false, &leavesRoot)
        case .resolveEncodedDots: return Self.resolve(path, areEncoded: true, isFile: false, &leavesRoot)
        case .resolveDotsOfFile: return Self.resolve(path, areEncoded: false, isFile: true, &leavesRoot)
        case .resolveEncodedDotsOfFile: return Self.resolve(path, areEncoded: true, isFile: true, &leavesRoot)
        case .decodeAgain: return PathDecoding.decodedBefore(path)
        case .decodeOverlong:
            return PathDecoding.replacing(path) { path, index in path.overlongByte(at: index).map { ([$0.byte], $0.count) } }
        case .decodeUnicode: return PathDecoding.replacing(path) { path, index in path.unicodeByte(at: index).map { ([$0], 6) } }
        case .cutAtControl:
            return Array(path[..<(path.indices.first { path.encodedByte(at: $0).map { $0 < 0x20 } == true } ?? path.endIndex)])
        case .dropNonText:
            return PathDecoding.replacing(path) { path, index in path.encodedByte(at: index).flatMap { $0.isNotText ? ([], 3) : nil } }
        }
    }

    /// Replaces each encoded byte of one kind by a slash.
    private static func decode(_ path: [UInt8], _ wanted: UInt8) -> [UInt8] {
        PathDecoding.replacing(path) { path, index in path.encodedByte(at: index) == wanted ? ([UInt8(ascii: "/")], 3) : nil }
    }

    private static func dropParameters(_ path: [UInt8], areEncoded: Bool) -> [UInt8] {
        var isParameter = false
        return path.indices.filter { index in
            if path[index] == UInt8(ascii: "/") {
                isParameter = false
            } else if path[index] == UInt8(ascii: ";") || (areEncoded && path.encodedByte(at: index) == UInt8(ascii: ";")) {
                isParameter = true
            }
            return !isParameter
        }.map { path[$0] }
    }

    static func resolve(_ path: [UInt8], areEncoded: Bool, isFile: Bool, _ leavesRoot: inout Bool) -> [UInt8] {
        var kept: [ArraySlice<UInt8>] = []
        var endsInDots = false
        var hasDots = false
        for segment in path.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            let mayBeDots = segment.count <= 6 && (segment.first == UInt8(ascii: ".") || segment.first == UInt8(ascii: "%"))
            let dots = mayBeDots ? dots(Array(segment), areEncoded: areEncoded) : 0
            endsInDots = dots > 0
            guard endsInDots else {
                kept.append(segment)
                continue
            }
            hasDots = true
            if dots == 2, kept.popLast() == nil { leavesRoot = true }
        }
        guard hasDots else { return path }
        if endsInDots, !isFile || kept.isEmpty { kept.append([]) }
        return kept.reduce(into: []) { out, segment in
            out.append(UInt8(ascii: "/"))
            out += segment
        }
    }

    /// Returns 1 or 2 for a segment that consists of one or two dots, else 0.
    private static func dots(_ segment: [UInt8], areEncoded: Bool) -> Int {
        var count = 0
        var index = 0
        while index < segment.count {
            let isEncoded = areEncoded && segment.encodedByte(at: index) == UInt8(ascii: ".")
            guard isEncoded || segment[index] == UInt8(ascii: ".") else { return 0 }
            count += 1
            index += isEncoded ? 3 : 1
        }
        return count > 2 ? 0 : count
    }
}
