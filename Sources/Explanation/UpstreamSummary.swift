// The reported state of upstreams as text.

import Figures

/// The report of one upstream, and the time of the output.
public struct UpstreamSummary: Sendable {
    /// Name of the API; empty if there is only one.
    public let name: String
    public let report: UpstreamReport
    /// Milliseconds of the monotonic clock.
    public let now: Int64

    public init(_ name: String, _ report: UpstreamReport, now: Int64) { (self.name, self.report, self.now) = (name, report, now) }

    /// Minimum age in milliseconds from which an output names the age of the last good response.
    static let recent: Int64 = 300_000
    /// Minimum number of consecutive failures that outputs report before the state changes.
    static let failures = 2

    public var seconds: Int64 { max(0, now - (report.since ?? now)) / 1_000 }
    var cause: String { report.cause.map { StateSentence.words(ofCause: $0) } ?? "unknown cause" }

    /// Elapsed time such as `3 h ago`; nil without a time.
    func ago(_ time: Int64?) -> String? { time.map { "\(NumberText.span(max(0, now - $0) / 1_000)) ago" } }

    private var failsNow: Bool { report.failuresInARow >= Self.failures }

    /// Whether an operator should look at the upstream.
    public var isAlarming: Bool { report.state == .failing || report.isDown || failsNow }

    /// The state in a few words, for a table.
    public var word: String {
        switch report.state {
        case .up: "Up"
        case .failing: "Failing"
        case .down: "Down"
        case .unknown: report.wasDown ? "Unknown (last: down)" : report.attemptedAt == nil ? "No request yet" : "Unknown"
        }
    }

    /// Details that follow `word` in a table; may be empty.
    public var note: String {
        if report.wasDown {
            return ago(report.attemptedAt).map { "last attempt \($0), no request since" } ?? "no attempt since the start"
        }
        if report.state == .up || report.isUnasked, failsNow { return lastFailed }
        guard report.state == .up, let at = report.respondedAt, now - at > Self.recent else { return "" }
        return "last response \(ago(at) ?? "")"
    }

    private var lastFailed: String { "the last \(NumberText.count(report.failuresInARow)) requests failed" }

    /// Predicate for an upstream that is not down.
    var predicate: String {
        switch report.state {
        case .up, .down: note.isEmpty ? "is up" : "is up (\(note))"
        case .failing: "has been failing for \(NumberText.span(seconds)) (\(cause))"
        case .unknown: report.attemptedAt == nil ? "has received no request yet" : "has not sent a good response yet"
        }
    }

    /// Sentence for upstreams that are not down.
    static func words(_ upstreams: [UpstreamSummary]) -> String {
        guard upstreams.count > 1 else {
            return "The upstream \(upstreams.first?.predicate ?? "has received no request yet")"
        }
        let count = upstreams.count
        if upstreams.allSatisfy({ $0.report.isUnasked && $0.report.attemptedAt == nil }) {
            return "No upstream has received a request yet"
        }
        // Upstreams without a problem are counted; the others are named.
        let good = upstreams.count { $0.report.state == .up && !$0.isAlarming }
        let unasked = upstreams.count { $0.report.state == .unknown && $0.report.attemptedAt == nil }
        var parts: [String] = []
        if good == count { return "All \(count) upstreams are up" }
        if good > 0 { parts.append("\(good) of \(count) upstreams \(good == 1 ? "is" : "are") up") }
        if let alarm = alarm(upstreams) { parts.append(alarm) }
        if unasked > 0 { parts.append("\(unasked) \(unasked == 1 ? "has" : "have") received no request yet") }
        return StateSentence.joined(parts)
    }

    /// Names the upstreams with a problem; nil if there are none.
    static func alarm(_ upstreams: [UpstreamSummary]) -> String? {
        let odd = upstreams.filter { $0.isAlarming || ($0.report.state == .unknown && $0.report.attemptedAt != nil) }
        return odd.isEmpty ? nil : StateSentence.named(odd.map { "\($0.name) \($0.predicate)" })
    }
}
