// What is asked of the upstream, and what comes from the store: switched by the administrator while the proxy runs, for all paths or for
// those that begin in some way; or by a request, where that is allowed.

import HTTPCore

package enum ServingMode: String, Sendable, CaseIterable {
    /// As the rules say.
    case live
    /// The upstream is never asked.
    case offline
    /// The upstream is always asked, and no copy stands in for it.
    case record
    /// What is stored is served, however old; else as the rules say.
    case replay
}

/// Which mode is for which paths. The longest prefix that fits counts.
struct ModeTable: Sendable, Equatable {
    struct Rule: Sendable, Equatable {
        let prefix: String
        let mode: ServingMode
    }

    private(set) var all = ServingMode.live
    /// Longest first.
    private(set) var rules: [Rule] = []

    /// Rules are compared with each request: so many at most.
    static let ruleLimit = 256

    init(all: ServingMode = .live) { self.all = all }

    /// Whether there is nothing to look up.
    var isLive: Bool { all == .live && rules.isEmpty }

    /// Returns false where there are too many rules.
    /// - Parameter prefix: empty for all paths.
    mutating func set(_ mode: ServingMode, prefix: String) -> Bool {
        guard !prefix.isEmpty else {
            all = mode
            return true
        }
        rules.removeAll { $0.prefix == prefix }
        guard rules.count < Self.ruleLimit else { return false }
        let place = rules.firstIndex { $0.prefix.utf8.count < prefix.utf8.count } ?? rules.endIndex
        rules.insert(Rule(prefix: prefix, mode: mode), at: place)
        return true
    }

    /// The paths that begin so are as all others again. Returns false where there was no rule for them.
    mutating func remove(prefix: String) -> Bool {
        let count = rules.count
        rules.removeAll { $0.prefix == prefix }
        return rules.count < count
    }

    /// - Parameter target: path and query as received.
    func mode(of target: ArraySlice<UInt8>) -> ServingMode {
        rules.first { target.starts(with: $0.prefix.utf8) }?.mode ?? all
    }
}
