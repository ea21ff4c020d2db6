// Generates one sentence about the overall state: outages with duration and cause, the number of rescued requests, the age of the oldest
// response, and failures. Computed from figures only; the status page, `cistern status` and /-/stats share it.

import Figures

public struct StateSentence: Sendable {
    /// An upstream that cannot be reached, or where every request fails.
    public struct Outage: Sendable {
        /// Name of the API; empty if there is only one.
        public let name: String
        public let seconds: Int64
        public let cause: String
        /// Seconds since the last attempt, if the state became unknown since then; otherwise nil.
        public let silentSeconds: Int64?

        public init(name: String, seconds: Int64, cause: String, silentSeconds: Int64? = nil) {
            (self.name, self.seconds, self.cause, self.silentSeconds) = (name, seconds, cause, silentSeconds)
        }

        public init(_ upstream: UpstreamSummary) {
            let silence = upstream.report.wasDown ? (upstream.now - (upstream.report.attemptedAt ?? upstream.now)) / 1_000 : nil
            self.init(name: upstream.name, seconds: upstream.seconds, cause: upstream.cause, silentSeconds: silence)
        }
    }

    /// A failing part of an upstream: some of its requests or addresses.
    public struct Trouble: Sendable {
        public enum Kind: Sendable {
            case failing
            /// The upstream requested a pause (Retry-After).
            case pause
            /// An upstream address; other addresses are used instead.
            case address
        }

        public let kind: Kind
        /// `the route search`, `3 paths`; for a pause, who requested it, and for what.
        public let subject: String
        public let isMany: Bool
        public let seconds: Int64
        public let cause: String

        public init(_ kind: Kind = .failing, subject: String, isMany: Bool, seconds: Int64, cause: String) {
            (self.kind, self.subject, self.isMany, self.seconds, self.cause) = (kind, subject, isMany, seconds, cause)
        }

        var text: String {
            let span = NumberText.span(seconds)
            let have = isMany ? "have" : "has"
            switch kind {
            case .failing: return "\(subject) \(have) been failing for \(span) (\(cause))"
            case .pause: return "\(subject) \(span) ago (\(cause))"
            case .address: return "\(subject) \(have) been down for \(span) (\(cause))"
            }
        }
    }

    public enum Level: String, Sendable {
        case well, strained, down
    }

    /// Numbers of client requests.
    public struct Counts: Sendable, Equatable {
        public var rescued: UInt64 = 0
        /// Requests with a 5xx response, from the upstream or from Cistern.
        public var failed: UInt64 = 0

        public init(rescued: UInt64 = 0, failed: UInt64 = 0) { (self.rescued, self.failed) = (rescued, failed) }
    }

    /// Upstreams that are not down.
    public var upstreams: [UpstreamSummary] = []
    /// Sorted by duration, longest first.
    public var outages: [Outage] = []
    public var troubles: [Trouble] = []
    /// Counts since the beginning of the first failure, for APIs with a failure.
    public var since = Counts()
    /// Failed requests within the last five minutes of APIs that are down.
    public var failedRecently: UInt64 = 0
    /// Counts within the last five minutes of all other APIs.
    public var recent = Counts()
    /// Of several APIs, those with failed requests within the last five minutes but no known failure; the most affected first.
    public var failing: [String] = []
    /// Age in seconds of the oldest response that rescued a request within the last five minutes; nil if none.
    public var oldestCopy: Int64?
    /// Modes of all paths other than `live`.
    public var modes: [String] = []
    /// Number of paths and routes with a separate mode.
    public var exceptions = 0
    public var faults = 0
    /// nil if storing is disabled by configuration.
    public var isStoreWritable: Bool? = true
    /// Why the store cannot be written to, such as `its disk is full (No space left on device)`; nil if it is writable or unknown.
    public var storeRefusal: String?
    public var isStopping = false
    /// Whether this node of a fleet does not receive the purges of other nodes.
    public var isBlind = false

    public init() {}

    public var level: Level {
        // A rescue is a success: an outage that clients do not notice is not an alarm.
        if !outages.isEmpty { return upstreams.isEmpty || since.rescued == 0 || failedRecently > 0 ? .down : .strained }
        let isQuiet = troubles.isEmpty && recent == Counts() && upstreams.allSatisfy { !$0.isAlarming }
        let isPlain = faults == 0 && modes.isEmpty && isStoreWritable != false && !isStopping && !isBlind
        return isQuiet && isPlain ? .well : .strained
    }

    public var text: String { lines.joined(separator: " ") }

    /// The parts of the text, one fact each.
    public var lines: [String] {
        let parts = (main + ".").split(separator: "; ").map(String.init)
        return parts.dropLast().map { $0 + ";" } + parts.suffix(1) + remarks
    }

    // MARK: Sentence

    /// Whether the counts are those since the beginning of a failure.
    private var isCountedSince: Bool {
        !outages.isEmpty || troubles.contains { $0.kind != .address } || upstreams.contains { $0.report.state == .failing }
    }

    private var main: String {
        if !outages.isEmpty { return outageWords + "; " + rescueWords(since) }
        var words = UpstreamSummary.words(upstreams)
        let isFailing = upstreams.contains { $0.report.state == .failing }
        if !troubles.isEmpty { words += (isFailing ? ", and " : ", but ") + troubleWords }
        if isCountedSince { return words + "; " + rescueWords(since) }
        if recent.failed > 0 {
            let isUp = upstreams.contains { $0.report.state == .up }
            words += "\(!troubles.isEmpty ? ";" : isUp ? ", but" : ", and") \(failedWords)"
            return recent.rescued > 0 ? words + "; " + rescueWords(Counts(rescued: recent.rescued)) : words
        }
        return recent.rescued > 0 ? words + "; within the last 5 min \(rescueWords(recent))" : words
    }

    private var failedWords: String {
        let upstream = failing.isEmpty ? "" : " for " + Self.named(failing)
        return "\(NumberText.count(recent.failed, "request", "requests"))\(upstream) failed in the last 5 min"
    }

    private var troubleWords: String { Self.named(troubles.map(\.text)) }

    private var outageWords: String {
        let down = outages.filter { $0.silentSeconds == nil }
        let parts = down.enumerated().map { index, outage in
            let name = outage.name.isEmpty ? "The upstream" : outage.name
            return "\(name)\(index == 0 ? " has been down" : "") for \(NumberText.span(outage.seconds)) (\(outage.cause))"
        }
        let unknown = outages.compactMap { outage in
            outage.silentSeconds.map { silence in
                let name = outage.name.isEmpty ? "The state of the upstream" : "The state of \(outage.name)"
                // 0 if another process made the last attempt.
                let ago = silence > 0 ? ", \(NumberText.span(silence)) ago" : ""
                return "\(name) is unknown: it was down at the last request\(ago) (\(outage.cause))"
            }
        }
        return ([Self.named(parts)].filter { !$0.isEmpty } + unknown.prefix(Self.namedCount)).joined(separator: ". ")
    }

    private func rescueWords(_ counts: Counts) -> String {
        var words = counts.rescued == 0 ? "nothing rescued" : "\(NumberText.count(counts.rescued, "request", "requests")) rescued"
        if counts.rescued > 0, let oldestCopy { words += ", oldest copy \(NumberText.span(oldestCopy))" }
        return words + (counts.failed == 0 ? "" : ", \(NumberText.count(counts.failed)) failed")
    }

    // MARK: Remarks

    private var remarks: [String] {
        var remarks: [String] = []
        // The main sentence is about the outages in this case.
        if !outages.isEmpty {
            if let words = UpstreamSummary.alarm(upstreams) { remarks.append(words + ".") }
            if !troubles.isEmpty { remarks.append("Also, \(troubleWords).") }
        }
        if isCountedSince, recent.failed > 0 { remarks.append("In other APIs, \(failedWords).") }
        if !modes.isEmpty { remarks.append("The mode is \(Self.joined(modes)), not live.") }
        if exceptions > 0 {
            remarks.append(exceptions == 1 ? "One mode applies to some paths only." : "\(exceptions) modes apply to some paths only.")
        }
        if faults > 0 {
            remarks.append(
                faults == 1 ? "A fault is injected for a drill." : "\(faults) faults are injected for a drill.")
        }
        if isStoreWritable == false {
            let reason = storeRefusal.map { ": \($0)" } ?? ""
            remarks.append("The store is not writable\(reason), so new responses are not stored.")
        }
        if isBlind { remarks.append("This node does not receive the purges of other nodes.") }
        if isStopping { remarks.append("Cistern is stopping.") }
        return remarks
    }

    private static let namedCount = 3

    /// Returns the first parts, and the number of the others.
    static func named(_ parts: [String]) -> String {
        let more = parts.count - namedCount
        return joined(parts.prefix(namedCount) + (more > 0 ? ["\(more) more"] : []))
    }

    static func joined(_ parts: [String]) -> String {
        guard parts.count > 1, let last = parts.last else { return parts.first ?? "" }
        return parts.dropLast().joined(separator: ", ") + " and " + last
    }

    /// Returns the text for a cause of failure, which is given as a metric label.
    public static func words(ofCause label: String) -> String {
        switch label {
        case "junk": "invalid responses"
        case "slow": "too slow"
        default: String(label.map { $0 == "_" ? " " : $0 })
        }
    }
}
