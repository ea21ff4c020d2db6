// Detects the beginnings and ends of conditions in successive samples, and limits how often each is reported. Pure: times are arguments.

/// A condition that applies.
public struct ObservedCondition: Sendable, Equatable {
    public let condition: NotifiedCondition
    /// Name of the API; empty if there is only one, or for the process.
    public let api: String
    /// Name of the certificate; empty for other conditions.
    public let subject: String
    /// Start in milliseconds since 1970; nil for the time of the first sample.
    public let since: Int64?
    /// Label of the cause; empty if unknown.
    public let cause: String
    /// Parts that are reported once each: failing paths, or stages.
    public let parts: [String]

    public init(
        _ condition: NotifiedCondition, api: String = "", subject: String = "", since: Int64? = nil, cause: String = "",
        parts: [String] = []
    ) {
        (self.condition, self.api, self.subject) = (condition, api, subject)
        (self.since, self.cause, self.parts) = (since, cause, parts)
    }
}

/// The state of the service at one time.
public struct NotificationSample: Sendable {
    public var conditions: [ObservedCondition] = []
    /// Names of all APIs. Conditions of removed APIs end without a notification.
    public var apis: Set<String> = [""]
    /// Whether faults are injected, to practise an outage.
    public var isDrill = false
    /// Milliseconds of the monotonic clock, and since 1970.
    public let now: Int64
    public let wall: Int64

    public init(now: Int64, wall: Int64) { (self.now, self.wall) = (now, wall) }
}

/// A beginning or an end.
public struct ConditionChange: Sendable, Equatable {
    public let event: NotificationEvent
    public let api: String
    public let subject: String
    /// Start of the condition in milliseconds since 1970.
    public let since: Int64
    public let cause: String
    /// Parts that were not reported before.
    public let parts: [String]
    /// Number of earlier beginnings that were not reported, because they followed another one too closely.
    public let unreported: Int
}

public struct ConditionWatch: Sendable {
    private struct Key: Hashable {
        let condition: NotifiedCondition
        let api: String
        let subject: String
    }

    private struct State {
        var observed: ObservedCondition
        /// Time of the first sample with the condition, monotonic and since 1970.
        var firstSeen: (now: Int64, wall: Int64)
        var applies = true
        /// Reported parts; nil until the beginning is reported.
        var reported: Set<String>?
        /// Time of the last report of a beginning.
        var reportedAt: Int64?
        var unreported = 0
    }

    /// Minimum time in milliseconds between two reports of a beginning of one condition.
    public static let pause: Int64 = 300_000

    private var states: [Key: State] = [:]
    /// Whether conditions of the first sample count as reported, because another process has reported them.
    private var isContinued: Bool

    /// - Parameter isContinued: whether this process has taken over from another one.
    public init(isContinued: Bool = false) { self.isContinued = isContinued }

    /// The reported conditions that have not ended, for targets that are added later.
    public var present: [ConditionChange] {
        states.filter { $0.value.reported != nil }.map { key, state in
            change(key, state, key.condition.events.begin, parts: state.observed.parts)
        }.sorted()
    }

    /// - Returns: what has to be reported now.
    public mutating func note(_ sample: NotificationSample) -> [ConditionChange] {
        var changes: [ConditionChange] = []
        var seen: Set<Key> = []
        for observed in sample.conditions {
            let key = Key(condition: observed.condition, api: observed.api, subject: observed.subject)
            guard seen.insert(key).inserted else { continue }
            if let change = note(observed, key, sample) { changes.append(change) }
        }
        for (key, state) in states where !seen.contains(key) {
            if let change = end(key, state, sample) { changes.append(change) }
        }
        isContinued = false
        return changes.sorted()
    }

    private func change(_ key: Key, _ state: State, _ event: NotificationEvent, parts: [String] = [], unreported: Int = 0)
        -> ConditionChange
    {
        ConditionChange(
            event: event, api: key.api, subject: key.subject, since: state.observed.since ?? state.firstSeen.wall,
            cause: state.observed.cause, parts: parts, unreported: unreported)
    }

    private mutating func note(_ observed: ObservedCondition, _ key: Key, _ sample: NotificationSample) -> ConditionChange? {
        var state = states[key] ?? State(observed: observed, firstSeen: (sample.now, sample.wall))
        defer { states[key] = state }
        if !state.applies { (state.applies, state.firstSeen) = (true, (sample.now, sample.wall)) }
        state.observed = observed
        if isContinued {
            (state.reported, state.reportedAt) = (Set(observed.parts), sample.now)
            return nil
        }
        // Only present parts are remembered, of which the failure memory limits the number.
        if let known = state.reported, !known.isSubset(of: observed.parts) { state.reported = known.intersection(observed.parts) }
        let new = observed.parts.filter { state.reported?.contains($0) != true }
        guard state.reported == nil || !new.isEmpty else { return nil }
        guard sample.now - state.firstSeen.now >= key.condition.hold else { return nil }
        if let last = state.reportedAt, sample.now - last < Self.pause { return nil }
        defer { state.unreported = 0 }
        (state.reported, state.reportedAt) = (Set(observed.parts), sample.now)
        return change(key, state, key.condition.events.begin, parts: new, unreported: state.unreported)
    }

    /// Handles a condition that does not apply.
    private mutating func end(_ key: Key, _ state: State, _ sample: NotificationSample) -> ConditionChange? {
        guard sample.apis.contains(key.api) else {
            states[key] = nil
            return nil
        }
        var state = state
        let (wasReported, applied) = (state.reported != nil, state.applies)
        if applied, !wasReported, state.reportedAt != nil { state.unreported += 1 }
        (state.applies, state.reported) = (false, nil)
        let isQuiet = state.reportedAt.map { sample.now - $0 >= Self.pause } ?? true
        states[key] = isQuiet ? nil : state
        guard applied, wasReported else { return nil }
        return change(key, state, key.condition.events.end)
    }
}

extension [ConditionChange] {
    fileprivate func sorted() -> [ConditionChange] {
        sorted { ($0.event.rawValue, $0.api, $0.subject) < ($1.event.rawValue, $1.api, $1.subject) }
    }
}
