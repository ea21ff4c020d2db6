// The queue of one target, with the decision after each attempt. Notifications are delivered in order, and retried with doubled pauses, so
// that an outage of the network delays them only. Pure: times are milliseconds of the monotonic clock.

/// Result of an attempt to deliver a notification.
public enum DeliveryAttempt: Sendable, Equatable {
    case sent
    /// Another attempt may succeed.
    /// - Parameter after: seconds that the receiver asks to wait; nil if it does not.
    case failed(String, after: Int? = nil)
    /// Another attempt would not succeed either.
    case rejected(String)

    /// - Parameter retryAfter: value of Retry-After in seconds.
    public init(status: Int, retryAfter: Int?) {
        switch status {
        case 200..<300: self = .sent
        case 300..<400: self = .rejected("the response has status \(status), and redirects are not followed")
        case 408, 425, 429, 500...: self = .failed("the response has status \(status)", after: retryAfter)
        default: self = .rejected("the response has status \(status)")
        }
    }

    /// Exit code with which a command asks for another attempt: EX_TEMPFAIL of sysexits.h.
    static let laterCode: Int32 = 75

    /// - Parameter exitCode: 128 plus the signal for a command that a signal ended.
    public init(exitCode: Int32) {
        switch exitCode {
        case 0: self = .sent
        case Self.laterCode: self = .failed("the command ended with exit code \(exitCode)")
        default: self = .rejected("the command ended with exit code \(exitCode)")
        }
    }

    /// Description of the problem; nil if there is none.
    public var trouble: String? {
        switch self {
        case .sent: nil
        case .failed(let sentence, _), .rejected(let sentence): sentence
        }
    }
}

/// What became of a notification.
public enum NotificationOutcome: String, Sendable, CaseIterable {
    case sent
    /// Rejected, or not delivered within `DeliveryQueue.patience`.
    case failed
    /// The queue was full, the limit of the hour was reached, or the process stopped.
    case dropped
}

public struct DeliveryQueue: Sendable {
    private struct Entry {
        let notification: Notification
        let since: Int64
        var attempts = 0
    }

    public enum Step: Sendable, Equatable {
        case send(Notification)
        /// - Parameter milliseconds: time until the next attempt.
        case wait(milliseconds: Int64)
        case idle
    }

    /// Maximum number of waiting notifications. A new one replaces the oldest.
    public static let limit = 64
    /// Maximum pause between two attempts, and time after which a notification is given up, in milliseconds.
    public static let longestPause: Int64 = 300_000
    public static let patience: Int64 = 3_600_000

    private let pause: Int64
    private var entries: [Entry] = []
    /// Whether the first notification is being delivered.
    private var isSending = false
    private var nextAttemptAt = Int64.min

    /// - Parameter pause: milliseconds before the second attempt.
    public init(pause: Int64) { self.pause = pause }

    public var count: Int { entries.count }

    /// - Returns: the notification that was removed for lack of space; otherwise nil.
    public mutating func append(_ notification: Notification, now: Int64) -> Notification? {
        defer { entries.append(Entry(notification: notification, since: now)) }
        guard entries.count >= Self.limit else { return nil }
        if !isSending { nextAttemptAt = .min }
        return entries.remove(at: isSending ? 1 : 0).notification
    }

    /// The next step. `send` must be followed by `finish`.
    public mutating func next(now: Int64) -> Step {
        guard let first = entries.first, !isSending else { return .idle }
        guard now >= nextAttemptAt else { return .wait(milliseconds: nextAttemptAt - now) }
        isSending = true
        return .send(first.notification)
    }

    /// Records the end of the attempt.
    /// - Returns: the outcome; nil if there will be another attempt.
    public mutating func finish(_ attempt: DeliveryAttempt, now: Int64) -> NotificationOutcome? {
        isSending = false
        entries[0].attempts += 1
        nextAttemptAt = .min
        guard case .failed(_, let after) = attempt else {
            entries.removeFirst()
            return attempt == .sent ? .sent : .failed
        }
        let doubled = pause << Int64(min(entries[0].attempts - 1, 20))
        let wait = min(max(Int64(min(max(after ?? 0, 0), 3_600)) * 1_000, doubled), Self.longestPause)
        guard now + wait - entries[0].since < Self.patience else {
            entries.removeFirst()
            return .failed
        }
        nextAttemptAt = now + wait
        return nil
    }

    /// Makes the next attempt due.
    public mutating func hurry() { nextAttemptAt = .min }

    /// Removes and returns all notifications that are not being delivered.
    public mutating func removeAll() -> [Notification] {
        let rest = entries.dropFirst(isSending ? 1 : 0).map(\.notification)
        entries.removeLast(rest.count)
        return rest
    }
}
