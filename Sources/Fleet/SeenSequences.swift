// Which entries of which node were seen, by the numbers that their senders give them: so that what is sent again is applied once, and what
// is wanting shows. Bounded: of a node that was forgotten neither can be told, and it begins anew with what comes of it next.

struct SeenSequences: Hashable, Sendable {
    private struct Node: Hashable {
        /// Before this one nothing is known.
        var first: UInt64
        var last: UInt64
    }

    /// Nodes of either age.
    private let nodeLimit: Int
    /// More at a time are not waited for.
    private let missingLimit: Int
    private var young: [UInt64: Node] = [:]
    private var old: [UInt64: Node] = [:]
    /// What did not come, and the place of the entry that showed it.
    private var missing: [LogOrigin: LogPosition] = [:]
    /// What is not waited for, because there is too much of it: the last place that showed it.
    private var abandoned: LogPosition?

    init(nodes: Int, missing: Int) { (nodeLimit, missingLimit) = (max(1, nodes / 2), missing) }

    /// Whether something between the first and the last of a node has not come.
    var isMissingSome: Bool { !missing.isEmpty || abandoned != nil }
    /// The same of what was shown later than a position.
    func isMissingSome(shownAfter position: LogPosition) -> Bool {
        abandoned ?? .beginning > position || missing.values.contains { $0 > position }
    }
    /// Whether waiting for it is of no use.
    var isMissingTooMuch: Bool { abandoned != nil }

    /// - Returns: false where it was seen before.
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

    /// What is missing will not come.
    /// - Returns: The last place that showed it.
    mutating func abandonMissing() -> LogPosition? {
        let last = missing.values.reduce(abandoned) { max($0 ?? $1, $1) }
        (missing, abandoned) = ([:], nil)
        return last
    }
}
