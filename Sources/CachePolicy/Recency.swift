// Decides which of two responses to one request is more recent and is kept: the one that was requested later. Date is not reliable, because
// it comes from another clock. Nor is the time of receipt, because a slow response may be old.

/// Sequence number of a request among all requests sent by this process. Numbers begin at a random value, so that stored numbers of an
/// earlier process are distinguishable.
public struct SentOrder: Sendable, Equatable {
    public let number: UInt64

    public init(number: UInt64) { self.number = number }

    /// Order of records without a number, written by older versions.
    public static let unknown = SentOrder(number: 0)

    /// Range of initial numbers, far from `unknown`.
    public static let beginnings: Range<UInt64> = 1 << 62..<1 << 63

    /// Maximum distance between numbers of one process: more requests than it sends while one response is in flight. Numbers of two
    /// processes are farther apart, except once in two billion restarts. Then one response of the earlier process stays until it is evicted
    /// or purged.
    private static let span: UInt64 = 1 << 32

    /// Returns whether this request was sent later, by the same process.
    public func follows(_ other: SentOrder) -> Bool {
        let distance = number &- other.number
        return distance != 0 && distance < Self.span
    }
}

/// The known times of a response and its request.
public struct Recency: Sendable, Equatable {
    /// For an archived response, the order at the time of the import.
    public var order: SentOrder
    /// True for a response from an archive. Its times do not correspond to its order.
    public var isImported: Bool
    public var requestTime: Timestamp
    public var responseTime: Timestamp

    public init(order: SentOrder, isImported: Bool, requestTime: Timestamp, responseTime: Timestamp) {
        self.order = order
        self.isImported = isImported
        self.requestTime = requestTime
        self.responseTime = responseTime
    }

    /// Returns whether this received response is older than a stored one and must not replace it. Of overlapping fetches, the one sent
    /// later is kept; a fetch sent after the other response arrived is always more recent. An archived response has only times: it replaces
    /// responses that were requested and received before it.
    public func isOutdated(by stored: Recency) -> Bool {
        // The response was stored a moment ago and is being stored again, because a record next to it changed meanwhile.
        guard stored.order != order else { return false }
        if isImported { return stored.requestTime >= requestTime || stored.responseTime >= responseTime }
        guard stored.order.follows(order) else { return false }
        // The stored response was imported while this one was in flight.
        return !stored.isImported || stored.requestTime >= requestTime
    }

    /// Returns which of two stored responses is more recent: true if it is this one.
    public func isLater(than other: Recency) -> Bool {
        if !isImported, !other.isImported {
            if order.follows(other.order) { return true }
            if other.order.follows(order) { return false }
        }
        return (requestTime, responseTime) > (other.requestTime, other.responseTime)
    }
}
