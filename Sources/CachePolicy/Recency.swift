// Which of two responses to one request is the later one, and so the one to keep: that whose request was sent later. Date does not tell: it
// says when a message was made, by another's clock. Nor does the time at which a response came: a slow one may be old.

/// The place of a request among all that this process has sent. Numbers begin at random in each process, so that those of another one, which
/// lie in the store from before a restart, are told from its own.
public struct SentOrder: Sendable, Equatable {
    public let number: UInt64

    public init(number: UInt64) { self.number = number }

    /// Of records that do not tell: those of older versions.
    public static let unknown = SentOrder(number: 0)

    /// Where a process may begin: far from `unknown`.
    public static let beginnings: Range<UInt64> = 1 << 62..<1 << 63

    /// Two numbers of one process are never further apart: more than it sends in the time for which one response may be under way. Those of two
    /// processes are, but once in two thousand million restarts; then one response of the earlier process stays until it is evicted or purged.
    private static let span: UInt64 = 1 << 32

    /// Whether this was sent later, by the same process.
    public func follows(_ other: SentOrder) -> Bool {
        let distance = number &- other.number
        return distance != 0 && distance < Self.span
    }
}

/// What is known of a response's place in time.
public struct Recency: Sendable, Equatable {
    /// Of an archived response: when it was imported.
    public var order: SentOrder
    /// It comes from an archive, so its times are not those of its order.
    public var isImported: Bool
    public var requestTime: Timestamp
    public var responseTime: Timestamp

    public init(order: SentOrder, isImported: Bool, requestTime: Timestamp, responseTime: Timestamp) {
        self.order = order
        self.isImported = isImported
        self.requestTime = requestTime
        self.responseTime = responseTime
    }

    /// Whether this response, which has just come, is older than one that is stored, and so may not take its place. Of fetches that overlapped the
    /// one that was sent later stays; one that was sent after the other had come is always the later one. An archived response knows its times
    /// only: it takes the place of what was asked for and came before them.
    public func isOutdated(by stored: Recency) -> Bool {
        // It was put in a moment ago, and is now for the second time, since what lies beside it had been changed meanwhile.
        guard stored.order != order else { return false }
        if isImported { return stored.requestTime >= requestTime || stored.responseTime >= responseTime }
        guard stored.order.follows(order) else { return false }
        // It was imported while this was under way.
        return !stored.isImported || stored.requestTime >= requestTime
    }

    /// Of two that are stored, whether this is the later one.
    public func isLater(than other: Recency) -> Bool {
        if !isImported, !other.isImported {
            if order.follows(other.order) { return true }
            if other.order.follows(order) { return false }
        }
        return (requestTime, responseTime) > (other.requestTime, other.responseTime)
    }
}
