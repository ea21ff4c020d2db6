// The reported state of an upstream at one time. All outputs read only this value: gauges, pages, commands, sentences and the log.

public struct UpstreamReport: Sendable, Equatable {
    public enum State: String, Sendable, CaseIterable {
        /// No failure, or too few failures for another state.
        case up
        /// Some attempts fail and others succeed.
        case failing
        /// Every attempt fails.
        case down
        /// No attempt yet, or none for a long time after *down*.
        case unknown
    }

    public var state = State.unknown
    /// Whether the state is unknown and the previous one was down.
    public var wasDown = false
    /// First failure of the current period, in milliseconds of the monotonic clock. nil unless the upstream is failing or down, or was down
    /// last.
    public var since: Int64?
    /// Label of the last failure in that period, or since the last success; nil if there is none.
    public var cause: String?
    /// End of the last good response and of the last attempt, in milliseconds of the monotonic clock; nil if there was none.
    public var respondedAt: Int64?
    public var attemptedAt: Int64?

    /// Consecutive failures since the last success that have not yet changed the state.
    public var failuresInARow = 0

    public init(_ state: State = .unknown, wasDown: Bool = false, since: Int64? = nil, cause: String? = nil) {
        (self.state, self.wasDown, self.since, self.cause) = (state, wasDown, since, cause)
    }

    /// Whether no attempt has succeeded since the upstream went down.
    public var isDown: Bool { state == .down || wasDown }

    /// Whether there was no attempt yet.
    public var isUnasked: Bool { state == .unknown && !wasDown }

    /// The state as text, such as `up` or `unknown (last: down)`.
    public var words: String { wasDown ? "\(state.rawValue) (last: down)" : state.rawValue }

    /// Combined state of several upstreams: down if every upstream with an attempt is down, failing if one of them is down or failing.
    public static func combined(_ all: [UpstreamReport]) -> UpstreamReport {
        let asked = all.filter { !$0.isUnasked }
        guard asked.count > 1 else { return asked.first ?? all.first ?? UpstreamReport() }
        let worst = asked.filter { $0.since != nil }.min { $0.since ?? 0 < $1.since ?? 0 }
        var sum = UpstreamReport(.up, since: worst?.since, cause: worst?.cause)
        if asked.allSatisfy(\.isDown) {
            sum.wasDown = asked.allSatisfy(\.wasDown)
            sum.state = sum.wasDown ? .unknown : .down
        } else if worst != nil {
            sum.state = .failing
        }
        sum.respondedAt = asked.compactMap(\.respondedAt).max()
        sum.attemptedAt = asked.compactMap(\.attemptedAt).max()
        return sum
    }
}

extension UpstreamReport {
    /// Labels and value of the gauge for each state.
    var stateLabels: [(String, Double)] { State.allCases.map { ("state=\"\($0.rawValue)\"", $0 == state ? 1 : 0) } }

    /// - Parameter offset: milliseconds from the monotonic clock to the time since 1970.
    func sinceSeconds(_ offset: Int64) -> Double { since.map { (Double($0 + offset) / 1_000).rounded() } ?? 0 }
}

extension UpstreamReport {
    /// Upstreams that are down on another process' /metrics page, by the name of their API. The name is empty if there is only one API.
    /// - Parameters:
    ///   - page: page in Prometheus' text format 0.0.4.
    ///   - offset: milliseconds from the monotonic clock to the time since 1970.
    public static func down(on page: [UInt8], unixOffset offset: Int64) -> [String: UpstreamReport] {
        var (values, names) = ([String: Double](), Set<String>())
        for line in page.split(separator: UInt8(ascii: "\n")) where line.starts(with: Array("cistern_".utf8)) {
            let words = String(decoding: line, as: UTF8.self).split(separator: " ")
            guard words.count == 2, let value = Double(words[1]) else { continue }
            values[String(words[0])] = value
            if words[0] == "cistern_upstream_up" { names.insert("") }
            guard words[0].hasPrefix("cistern_api_up{api=\""), words[0].hasSuffix("\"}") else { continue }
            names.insert(String(words[0].dropFirst(20).dropLast(2)))
        }
        var reports: [String: UpstreamReport] = [:]
        for name in names {
            let (family, labels) = name.isEmpty ? ("cistern_upstream", "") : ("cistern_api", "{api=\"\(name)\"}")
            guard values["\(family)_up\(labels)"] == 0 else { continue }
            let since = values["\(family)_state_since_seconds\(labels)"].map { Int64($0 * 1_000) - offset }
            reports[name] = UpstreamReport(.down, since: since)
        }
        return reports
    }
}
