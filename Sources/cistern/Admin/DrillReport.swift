// Reports what clients received during a drill, by method and path, and why requests failed. Built from the exchanges of `why`: earlier
// ones show what was not stored, and later ones the results.

import JSON

struct DrillReport {
    private struct Path: Hashable {
        let method: String
        let path: String

        var text: String { "\(method) \(path)" }
    }

    private struct Counts {
        var requests = 0
        var fresh = 0
        var rescued = 0
        /// Age of the oldest rescue in seconds.
        var oldest = 0
        var failed = 0

        mutating func add(_ other: Counts) {
            requests += other.requests
            fresh += other.fresh
            rescued += other.rescued
            oldest = max(oldest, other.oldest)
            failed += other.failed
        }
    }

    /// Why a request failed, with advice.
    private struct Cause: Hashable {
        let sentence: String
        var advice: [String] = []
    }

    /// Result of the latest exchange of a path before the outage.
    private enum Past {
        case stored
        case notStored(Cause)
    }

    /// Maximum number of separately counted paths; further paths are counted together. Bounds memory during long drills.
    private static let pathLimit = 10_000
    private static let shownPaths = 25
    private static let shownNames = 3

    /// IDs of the previously read exchanges. Older exchanges do not appear again.
    private var known: Set<String> = []
    private var past: [Path: Past] = [:]
    private var counts: [Path: Counts] = [:]
    private var total = Counts()
    private var failures: [Cause: [Path: Int]] = [:]
    /// By shard: the highest exchange numbers before and during the drill, and the number of exchanges seen.
    private var numbers: [Substring: (first: Int, last: Int, seen: Int)] = [:]

    /// - Parameter before: earlier exchanges, newest first.
    init(before: [JSONValue]) {
        for exchange in before {
            guard let id = exchange["id"]?.string else { continue }
            known.insert(id)
            note(id, isNew: false)
            noteStoring(exchange)
        }
    }

    /// - Parameter exchanges: newest first. Known exchanges are ignored.
    mutating func add(_ exchanges: [JSONValue]) {
        let before = known
        known = []
        for exchange in exchanges.reversed() {
            guard let id = exchange["id"]?.string else { continue }
            known.insert(id)
            guard !before.contains(id) else { continue }
            note(id, isNew: true)
            guard exchange["behind"]?.string == nil, let path = Self.path(of: exchange) else { continue }
            var one = Counts(requests: 1)
            switch exchange["result"]?.string {
            case "hit", "stale": one.fresh = 1
            case "rescued": (one.rescued, one.oldest) = (1, max(0, exchange["freshness"]?["age"]?.integer ?? 0))
            case "error":
                one.failed = 1
                addFailure(of: path, exchange)
            default: noteStoring(exchange)
            }
            total.add(one)
            counts[bucket(for: path), default: Counts()].add(one)
        }
    }

    private static let others = Path(method: "", path: "(other paths)")

    private func bucket(for path: Path) -> Path { counts[path] != nil || counts.count < Self.pathLimit ? path : Self.others }

    private static func path(of exchange: JSONValue) -> Path? {
        guard let target = exchange["target"]?.string else { return nil }
        return Path(method: exchange["method"]?.string ?? "", path: String(target.prefix { $0 != "?" }))
    }

    // MARK: Causes

    /// Records whether a path's response was stored. The newest exchange counts.
    private mutating func noteStoring(_ exchange: JSONValue) {
        guard let path = Self.path(of: exchange), past[path] == nil, past.count < Self.pathLimit else { return }
        let isStored: Bool
        if case .bool(true)? = exchange["stored"] { isStored = true } else { isStored = exchange["found"]?.string == "stored" }
        if isStored {
            past[path] = .stored
            return
        }
        let sentence = exchange["explanation"]?.array?.compactMap(\.string).last { $0.hasPrefix("Not stored: ") }
        guard exchange["not_stored"]?.string != nil, let sentence else { return }
        past[path] = .notStored(Cause(sentence: sentence, advice: Self.advice(exchange)))
    }

    private mutating func addFailure(of path: Path, _ exchange: JSONValue) {
        let cause = cause(of: path, exchange)
        // The number of causes is bounded by the number of sentences, and the number of paths by a limit.
        guard failures[cause]?[path] != nil || (failures[cause]?.count ?? 0) < Self.pathLimit else {
            failures[cause, default: [:]][Self.others, default: 0] += 1
            return
        }
        failures[cause, default: [:]][path, default: 0] += 1
    }

    private func cause(of path: Path, _ exchange: JSONValue) -> Cause {
        switch exchange["found"]?.string {
        case "not_looked_up" where !["GET", "HEAD"].contains(path.method):
            return Cause(sentence: "Writes, and other requests that are not reads, are never rescued.")
        case "nothing", "other_variant":
            switch past[path] {
            case .notStored(let cause): return cause
            case .stored: return Cause(sentence: "Responses are stored, but none for these users, arguments or contents.")
            case nil:
                return Cause(
                    sentence: "No response was stored, and no earlier request is recorded.",
                    advice: ["cistern warm fetches responses in advance"])
            }
        default:
            let sentences = exchange["explanation"]?.array?.compactMap(\.string) ?? []
            return Cause(sentence: sentences.first ?? "The reason is unknown.", advice: Self.advice(exchange))
        }
    }

    private static func advice(_ exchange: JSONValue) -> [String] {
        (exchange["advice"]?.array ?? []).compactMap { one in
            one["setting"]?.string.map { "\($0) \(one["effect"]?.string ?? "")" }
        }
    }

    // MARK: Unseen exchanges

    private mutating func note(_ id: String, isNew: Bool) {
        let parts = id.split(separator: "-")
        guard parts.count == 2, let number = Int(parts[1]), number < Int.max else { return }
        guard let known = numbers[parts[0]] else {
            // A shard without earlier exchanges counts from its first one.
            numbers[parts[0]] = isNew ? (0, number, 1) : (number, number, 0)
            return
        }
        if isNew {
            numbers[parts[0]] = (known.first, max(known.last, number), known.seen + (number > known.first ? 1 : 0))
        } else {
            let last = max(known.last, number)
            numbers[parts[0]] = (last, last, 0)
        }
    }

    private var unseen: Int { numbers.values.reduce(0) { $0 + max(0, $1.last - $1.first - $1.seen) } }

    // MARK: Text

    var line: String { "\(requestCount), \(total.rescued) rescued, \(total.failed) failed" }

    private var requestCount: String { "\(total.requests) \(total.requests == 1 ? "request" : "requests")" }

    var text: String {
        guard total.requests > 0 else { return "No request was recorded: there was none, or admin.records is 0.\n" }
        return table + "\n" + summary + reasons
    }

    private var table: String {
        var table = TextTable([
            ("METHOD", false), ("PATH", false), ("REQUESTS", true), ("FROM STORE", true), ("RESCUED", true), ("OLDEST", true),
            ("FAILED", true),
        ])
        let sorted = counts.sorted { one, other in
            (other.value.failed, other.value.requests, one.key.path) < (one.value.failed, one.value.requests, other.key.path)
        }
        for (path, one) in sorted.prefix(Self.shownPaths) {
            let numbers = [one.requests, one.fresh, one.rescued].map(String.init)
            table.add([path.method, path.path] + numbers + [one.rescued == 0 ? "-" : Printable.seconds(one.oldest), String(one.failed)])
        }
        guard sorted.count > Self.shownPaths else { return table.text }
        let rest = sorted.dropFirst(Self.shownPaths).reduce(into: Counts()) { $0.add($1.value) }
        return table.text
            + "and \(sorted.count - Self.shownPaths) more paths with \(rest.requests) requests, \(rest.failed) of them failed\n"
    }

    private var summary: String {
        var text = "\(requestCount): \(total.fresh) from the store as usual"
        text += ", \(total.rescued) rescued" + (total.rescued == 0 ? "" : " (the oldest \(Printable.seconds(total.oldest)) old)")
        let sent = total.requests - total.fresh - total.rescued - total.failed
        text += ", \(total.failed) failed" + (sent > 0 ? ", \(sent) from the upstream" : "") + ".\n"
        if total.failed == 0 { text += "Every request got a response.\n" }
        if unseen > 0 {
            text += "\(unseen) more are missing: they are still active, or exceeded admin.records within a second.\n"
        }
        return text
    }

    private var reasons: String {
        guard !failures.isEmpty else { return "" }
        var text = "\nWhy requests failed:\n"
        let sorted = failures.map { cause, paths in (cause, paths, paths.values.reduce(0, +)) }
            .sorted { ($1.2, $0.0.sentence) < ($0.2, $1.0.sentence) }
        for (cause, paths, count) in sorted {
            let names = paths.sorted { ($1.value, $0.key.text) < ($0.value, $1.key.text) }.prefix(Self.shownNames).map(\.key.text)
            let more = paths.count > Self.shownNames ? ", and \(paths.count - Self.shownNames) more" : ""
            text += Printable.text("\(count) × \(cause.sentence)") + "\n"
            text += Printable.text("    \(names.joined(separator: ", "))\(more)") + "\n"
            for advice in cause.advice { text += Printable.text("    → \(advice)") + "\n" }
        }
        return text
    }
}
