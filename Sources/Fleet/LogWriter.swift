// The machine that writes the log: what is appended when, what is durable, and what is sent again. One batch is sent at a time, followed by
// a `WAIT` if it has purges, so sequences ascend and a `WAIT` covers its own entries.

public struct LogWriter: Hashable, Sendable {
    /// Names a message for the shell.
    public typealias Token = UInt64

    public struct Limits: Hashable, Sendable {
        /// Milliseconds in which writes to one target make one entry.
        public var mergeWindow: Int64 = 10
        /// Waiting writes. Beyond, one entry marks everything stale.
        public var writes = 8_192
        /// Purges that are not durable. Beyond, they are refused.
        public var purges = 4_096
        /// Entries of one batch, and of those considered for it.
        public var batch = 128
        /// Bytes of a batch's arguments. A longer one goes alone.
        public var batchBytes = 1 << 20
        /// Bytes of one argument. Beyond, a wider message replaces it.
        public var argumentBytes = 1 << 20
        public var examinedItems = 1_024
        public var waiters = 256
        /// Entries of the last milliseconds before the loss of a primary are sent again. `remembered` is their maximum number.
        public var sentAgain: Int64 = 60_000
        public var remembered = 16_384
        /// Milliseconds until a purge that is not in the log is answered as pending.
        public var patience: Int64 = 1_000
        /// Milliseconds between two attempts after a refusal or without a replica: doubled each time.
        public var firstPause: Int64 = 1_000
        public var longestPause: Int64 = 30_000
        public var fences = 16
        /// Bytes of the arguments of purges that are not durable. Beyond, they are refused.
        public var purgeBytes = 16 << 20
        /// Writes kept at the end of the process, and bytes of their arguments. Beyond, one entry replaces them.
        public var keptWrites = 1_024
        public var keptWriteBytes = 1 << 20

        public init() {}
    }

    public enum Purpose: Hashable, Sendable {
        /// Sent again only as part of the last minute.
        case write
        case purge
        /// An earlier process answered it as pending.
        case keptPurge
        /// An earlier process ended before it was in the log.
        case keptWrite
    }

    public enum Reply: Hashable, Sendable {
        case appended(LogPosition)
        /// The engine has higher ids than the fence's.
        case alreadyBeyond
        /// An error: out of memory, read only, not permitted, busy.
        case refused
    }

    public enum Event: Hashable, Sendable {
        /// Applied on this node already. A token is reported at most once as appended and once as durable or pending.
        case append(LogMessage, Purpose, token: Token?)
        /// A connection to the primary of `LogFollower.Action.mayAppend`, without earlier commands.
        /// - Parameter replicas: `connected_slaves`.
        case connected(isNewPrimary: Bool, fence: Fence?, replicas: Int)
        case replicas(Int)
        case lost
        case fence(Fence)
        case sendHello
        /// One reply for each entry, in their order.
        case answered([Reply])
        case waited(replicas: Int)
        case tick
    }

    public struct Outgoing: Hashable, Sendable {
        public var entry: LogEntry
        /// nil: an id of the engine.
        public var position: LogPosition?
    }

    /// From the worst to the best.
    public enum Pending: String, Hashable, Sendable, CaseIterable {
        /// Not in the log: no connection, or no reply.
        case notReached = "not_reached"
        case refused
        /// In the log, but on no replica as far as known.
        case notReplicated = "not_replicated"
    }

    public enum Outcome: Hashable, Sendable {
        case appended(LogPosition)
        case durable
        /// A purge in the log of an engine without replicas.
        case noReplica
        /// A purge that is kept and sent again until it is durable, which is reported as well.
        case pending(Pending)
        /// A write that is no longer waited for. It will be in the log, individually or as "everything is stale".
        case later
        /// A purge beyond the limits. It is applied on this node only.
        case refused
    }

    public enum Action: Hashable, Sendable {
        case send([Outgoing])
        /// `WAIT 1 50`, on the same connection.
        case wait
        /// `MarkTable.hold` and `settle`: once for each entry, and again if it is sent again.
        case hold(LogMessage)
        case settle(LogMessage, at: LogPosition?)
        /// Keep it durably before a following `report` reports it as pending.
        case keepPending(Token, LogMessage)
        case dropPending(Token)
        case report(Token, Outcome)
    }

    enum Phase: Hashable, Sendable {
        case disconnected
        case idle
        case sendingFence(Outgoing)
        case sending([Item])
        case waiting
    }

    struct Item: Hashable, Sendable {
        var message: LogMessage
        var isPurge = false
        /// Whether it is on the disk. A purge was reported as pending then.
        var isKept = false
        var tokens: [Token] = []
        /// Assigned when it is first sent.
        var sequence: UInt64?
        var since: Int64
        /// Whether it was in the log of an earlier primary, and reported.
        var isSettled = false
        var isHeld = true
    }

    struct Load: Hashable, Sendable {
        var count = 0
        var bytes = 0

        mutating func add(_ item: Item) { if item.isPurge { (count, bytes) = (count + 1, bytes + item.message.argument.count) } }
        mutating func remove(_ item: Item) { if item.isPurge { (count, bytes) = (count - 1, bytes - item.message.argument.count) } }
    }

    struct Remembered: Hashable, Sendable {
        var message: LogMessage
        var sequence: UInt64
        var time: Int64
    }

    public let limits: Limits
    let node: UInt64
    var phase = Phase.disconnected
    public internal(set) var lastSequence: UInt64 = 0
    /// Oldest first; items with a sequence before those without.
    var queue: [Item] = []
    /// Tokens of queued writes without a sequence.
    var unsentWrites: [LogMessage: [Token]] = [:]
    var fences: [Outgoing] = []
    /// Purges in the log of this primary, and on no replica as far as known.
    var unreplicated: [Item] = []
    /// Pending purges: queued, sent, or in `unreplicated`.
    var pending = Load()
    var recentWrites: [LogMessage: Int64] = [:]
    var remembered: [Remembered] = []
    /// When an entry was forgotten that a new primary might need.
    var forgotten: Int64?
    var lostAt: Int64?
    var replicas = 0
    /// Whether this connection has appended an entry: a `WAIT` would cover nothing otherwise.
    var hasAppended = false
    var pause: Int64
    /// No attempt before this time.
    var pausedUntil = Int64.min
    var waitsAgainAt: Int64?

    public init(node: UInt64, limits: Limits = Limits()) {
        (self.node, self.limits, pause) = (node, limits, limits.firstPause)
    }

    public var pendingPurges: Int { pending.count }

    /// Pending purges that are not in the log, as far as known.
    public var unreachedPurges: Int { pending.count - unreplicated.count }

    public mutating func handle(_ event: Event, now: Int64) -> [Action] {
        switch event {
        case .append(let message, .write, let token): return appendWrite(message, token, now) + proceed(now)
        case .append(let message, .purge, let token): return appendPurge(message, token, isKept: false, now) + proceed(now)
        case .append(let message, .keptPurge, let token): return appendPurge(message, token, isKept: true, now) + proceed(now)
        case .append(let message, .keptWrite, let token): return appendKeptWrite(message, token, now) + proceed(now)
        case .connected(let isNewPrimary, let fence, let replicas):
            return connect(isNewPrimary: isNewPrimary, fence: fence, replicas: replicas, now) + proceed(now)
        case .replicas(let count):
            replicas = max(0, count)
            return []
        case .lost: return disconnect(now)
        case .fence(let fence):
            add(Outgoing(entry: fence.entry, position: nil))
            return proceed(now)
        case .sendHello:
            if phase != .disconnected { sendHello(now) }
            return proceed(now)
        case .answered(let replies): return answer(replies, now) + proceed(now)
        case .waited(let replicas): return wait(replicas, now) + proceed(now)
        case .tick: return reportPending(now) + proceed(now)
        }
    }
}
