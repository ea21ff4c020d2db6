// How things are, in one sentence: what is down, since when and why, and who was rescued with copies of what age. Made of figures alone; the page
// of the state, `cistern status` and /-/stats say the same.

public struct StateSentence: Sendable {
    /// An upstream that cannot be reached, or fails whatever it is asked for.
    public struct Outage: Sendable {
        /// Of its API; empty for the only one.
        public let name: String
        /// For so long.
        public let seconds: Int64
        /// In words.
        public let cause: String

        public init(name: String, seconds: Int64, cause: String) { (self.name, self.seconds, self.cause) = (name, seconds, cause) }
    }

    /// A part of what an upstream is asked for.
    public struct Trouble: Sendable {
        /// `the route search`, `3 paths`.
        public let place: String
        public let isMany: Bool
        public let seconds: Int64
        public let cause: String

        public init(place: String, isMany: Bool, seconds: Int64, cause: String) {
            (self.place, self.isMany, self.seconds, self.cause) = (place, isMany, seconds, cause)
        }
    }

    public enum Level: String, Sendable {
        case well, strained, down
    }

    public var apis = 1
    /// Longest first.
    public var outages: [Outage] = []
    public var troubles: [Trouble] = []
    /// Since the first of these began; where there is none, within the last five minutes.
    public var rescued: UInt64 = 0
    public var failed: UInt64 = 0
    /// Seconds: of the oldest copy that rescued within the last five minutes.
    public var oldestCopy: Int64?
    /// Whether the upstream was asked for anything since the start.
    public var isAsked = true
    /// The modes of all paths that are not `live`.
    public var modes: [String] = []
    /// Paths and routes that have a mode of their own.
    public var exceptions = 0
    public var faults = 0
    /// nil where nothing is stored by intent.
    public var isStoreWritable: Bool? = true
    public var isStopping = false

    public init() {}

    public var level: Level {
        if !outages.isEmpty { return outages.count >= apis || rescued == 0 ? .down : .strained }
        let isPlain = troubles.isEmpty && rescued == 0 && faults == 0 && modes.isEmpty && isStoreWritable != false && !isStopping
        return isPlain ? .well : .strained
    }

    public var text: String { ([main + "."] + remarks).joined(separator: " ") }

    private static let named = 3

    private var main: String {
        if !outages.isEmpty { return outageWords + "; " + rescueWords }
        let all = apis == 1 ? "The upstream" : "All \(apis) upstreams"
        let respond = apis == 1 ? "responds" : "respond"
        guard troubles.isEmpty else {
            let parts = troubles.prefix(Self.named).map {
                "\($0.place) \($0.isMany ? "have" : "has") been failing for \(ShownFigures.span($0.seconds)) (\($0.cause))"
            }
            let more = troubles.count > Self.named ? ["\(troubles.count - Self.named) more"] : []
            return "\(all) \(respond), but \(Self.joined(parts + more)); \(rescueWords)"
        }
        guard isAsked else {
            return apis == 1 ? "The upstream has not been asked for anything yet" : "No upstream has been asked for anything yet"
        }
        guard rescued > 0 else { return "\(all) \(respond)" }
        return "\(all) \(respond) again; within the last 5 min \(rescueWords)"
    }

    private var outageWords: String {
        let parts = outages.prefix(Self.named).enumerated().map { place, outage in
            let name = outage.name.isEmpty ? "The upstream" : outage.name
            return "\(name)\(place == 0 ? " has been down" : "") for \(ShownFigures.span(outage.seconds)) (\(outage.cause))"
        }
        let more = outages.count > Self.named ? ["\(outages.count - Self.named) more"] : []
        return Self.joined(parts + more)
    }

    private var rescueWords: String {
        var words = rescued == 0 ? "nothing rescued" : "\(ShownFigures.count(rescued, "request", "requests")) rescued"
        if rescued > 0, let oldestCopy { words += ", oldest copy \(ShownFigures.span(oldestCopy))" }
        return words + (failed == 0 ? "" : ", \(ShownFigures.count(failed)) failed")
    }

    private var remarks: [String] {
        var remarks: [String] = []
        if !modes.isEmpty { remarks.append("The mode is \(Self.joined(modes)), not live.") }
        if exceptions > 0 {
            remarks.append(exceptions == 1 ? "One mode is for some paths only." : "\(exceptions) modes are for some paths only.")
        }
        if faults > 0 {
            remarks.append(
                faults == 1 ? "A fault is injected, to practise an outage." : "\(faults) faults are injected, to practise an outage.")
        }
        if isStoreWritable == false { remarks.append("The store cannot be written to.") }
        if isStopping { remarks.append("Cistern is stopping.") }
        return remarks
    }

    private static func joined(_ parts: [String]) -> String {
        guard parts.count > 1, let last = parts.last else { return parts.first ?? "" }
        return parts.dropLast().joined(separator: ", ") + " and " + last
    }

    /// A cause of failures, as metrics call it, in words.
    public static func words(ofCause label: String) -> String {
        switch label {
        case "junk": "responses that are none"
        case "slow": "too slow"
        default: String(label.map { $0 == "_" ? " " : $0 })
        }
    }
}
