// Counts of the previous process, read from its /metrics page. This process adds them to its own counts, so that counters never decrease.

import Reactor

public final class InheritedCounts: Sendable {
    /// Values by the name and labels of a sample, as on the page.
    struct Counts: Sendable {
        var values: [String: Double] = [:]
        /// Samples with labels, by the name before the labels, in the page's order.
        var labelled: [String: [String]] = [:]
    }

    private let state = Mutex(Counts())

    public init() {}

    /// Updates the counts from a newer page of the previous process. Known counts never decrease.
    /// - Parameter page: the page in Prometheus' text format 0.0.4.
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
