// Sequence numbers seen from each node: repeated entries are applied once, and missing entries are detected. The memory is bounded: a
// forgotten node starts again without history.

struct SeenSequences: Hashable, Sendable {
    private struct Node: Hashable {
        var first: UInt64
        var last: UInt64
    }

    private let nodeLimit: Int
    private let missingLimit: Int
    private var young: [UInt64: Node] = [:]
    private var old: [UInt64: Node] = [:]
    /// Missing entries, each with the position of the entry that revealed the gap.
    private var missing: [LogOrigin: LogPosition] = [:]
    /// Position of the last entry that revealed a gap beyond the limit.
    private var abandoned: LogPosition?
    /// Whether some missing entries are no longer recorded as missing.
    private var hasForgotten = false

    init(nodes: Int, missing: Int) { (nodeLimit, missingLimit) = (max(1, nodes / 2), missing) }

    /// Returns whether entries are missing that were revealed after a position.
    func isMissingSome(shownAfter position: LogPosition = .beginning) -> Bool {
        abandoned ?? .beginning > position || missing.values.contains { $0 > position }
    }
    var isMissingTooMuch: Bool { abandoned != nil }

    /// - Returns: false if the entry was seen before.
    mutating func note(_ origin: LogOrigin, at position: LogPosition) -> Bool {
        guard var node = young[origin.node] ?? old[origin.node] else {
            keep(Node(first: origin.sequence, last: origin.sequence), of: origin.node)
            return true
        }
        if origin.sequence > node.last {
            expect(node.last + 1..<origin.sequence, of: origin.node, shownAt: position)
            node.last = origin.sequence
        } else if origin.sequence < node.first {
            guard origin.sequence == node.first - 1 else { return true }
            node.first = origin.sequence
        } else if missing.removeValue(forKey: origin) == nil {
            return false
        }
        keep(node, of: origin.node)
        return true
    }

    /// Returns whether an entry was certainly seen.
    func contains(_ origin: LogOrigin) -> Bool {
        guard !hasForgotten, abandoned == nil, let node = young[origin.node] ?? old[origin.node] else { return false }
        return node.first <= origin.sequence && origin.sequence <= node.last && missing[origin] == nil
    }

    private mutating func keep(_ node: Node, of name: UInt64) {
        if young[name] == nil, young.count >= nodeLimit {
            for origin in missing.keys where old[origin.node] != nil && young[origin.node] == nil {
                abandoned = max(abandoned ?? .beginning, missing.removeValue(forKey: origin) ?? .beginning)
            }
            (old, young) = (young, [:])
        }
        young[name] = node
    }

    private mutating func expect(_ sequences: Range<UInt64>, of node: UInt64, shownAt position: LogPosition) {
        guard !sequences.isEmpty else { return }
        guard sequences.count <= missingLimit - missing.count else {
            abandoned = max(abandoned ?? position, position)
            return
        }
        for sequence in sequences { missing[LogOrigin(node: node, sequence: sequence)] = position }
    }

    /// - Returns: position of the last entry that revealed a gap; nil if nothing is missing.
    mutating func abandonMissing() -> LogPosition? {
        let last = missing.values.reduce(abandoned) { max($0 ?? $1, $1) }
        hasForgotten = hasForgotten || last != nil
        (missing, abandoned) = ([:], nil)
        return last
    }
}
