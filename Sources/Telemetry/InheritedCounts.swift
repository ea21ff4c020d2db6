// What the process before this one has counted, as its page at /metrics says it: counts go on from there, so nobody sees one go down.

import Locking

public final class InheritedCounts: Sendable {
    /// By a sample's name and labels, as the page has them.
    struct Counts: Sendable {
        var values: [String: Double] = [:]
        /// Those with labels, by the name before them, in their order on the page.
        var labelled: [String: [String]] = [:]
    }

    private let state = Mutex(Counts())

    public init() {}

    /// The same process's page again, later. A count that is there already never goes down.
    /// - Parameter page: as Prometheus' text format 0.0.4 has it.
    public func take(_ page: [UInt8]) {
        var counting = ""
        var read: [(sample: String, value: Double)] = []
        for line in page.split(separator: UInt8(ascii: "\n")) {
            let text = String(decoding: line, as: UTF8.self)
            guard !text.hasPrefix("#") else {
                let words = text.split(separator: " ")
                guard words.count == 4, words[1] == "TYPE" else { continue }
                counting = words[3] == "counter" || words[3] == "histogram" ? String(words[2]) : ""
                continue
            }
            guard !counting.isEmpty, let space = text.lastIndex(of: " "), let value = Double(text[text.index(after: space)...]) else {
                continue
            }
            read.append((String(text[..<space]), value))
        }
        state.withLock { counts in
            for (sample, value) in read {
                if counts.values[sample] == nil, let name = sample.firstIndex(of: "{") {
                    counts.labelled[String(sample[..<name]), default: []].append(sample)
                }
                counts.values[sample] = max(value, counts.values[sample] ?? 0)
            }
        }
    }

    var counts: Counts { state.withLock { $0 } }
}
