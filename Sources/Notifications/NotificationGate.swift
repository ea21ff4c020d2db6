// Limits the notifications of one target: selects events, and counts those beyond the limit of an hour for one summary. Each condition has
// its own limit, so that clients who make many paths fail cannot hide an outage. Pure: times are milliseconds of the monotonic clock.

public struct NotificationGate: Sendable {
    private let target: NotificationTarget
    /// Notifications of this hour by condition.
    private var passed: [NotifiedCondition: Int] = [:]
    private var omitted: [NotificationEvent: Int] = [:]
    /// Start of this hour: the first notification after the former one.
    private var since: Int64?

    public static let period: Int64 = 3_600_000

    public init(_ target: NotificationTarget) { self.target = target }

    public enum Passage: Equatable, Sendable {
        case passes
        /// The target has not selected it.
        case unwanted
        /// Counted for the summary.
        case omitted
    }

    public mutating func pass(_ notification: Notification, now: Int64) -> Passage {
        guard target.wants(notification), let condition = notification.event.condition else { return .unwanted }
        if since == nil { since = now }
        guard passed[condition, default: 0] < target.perHour else {
            omitted[notification.event, default: 0] += 1
            return .omitted
        }
        passed[condition, default: 0] += 1
        return .passes
    }

    /// Ends the hour. Must be called regularly.
    /// - Returns: a summary of the omitted events; nil if there are none, or the hour has not ended.
    public mutating func summary(now: Int64, wall: Int64, from node: NotifyingNode, id: () -> String) -> Notification? {
        guard let since, now - since >= Self.period else { return nil }
        defer { (self.since, passed, omitted) = (nil, [:], [:]) }
        guard !omitted.isEmpty else { return nil }
        let counts = NotificationEvent.allCases.compactMap { event in omitted[event].map { (event: event, count: $0) } }
        return Notification(counts, from: node, id: id(), wall: wall)
    }
}
