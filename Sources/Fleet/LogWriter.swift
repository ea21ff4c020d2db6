// State machine that writes the log: decides when entries are appended, which are durable, and which are sent again. One batch is sent at
// a time, followed by a `WAIT` if it contains purges. So sequence numbers ascend and a `WAIT` covers its own entries.

public struct LogWriter: Hashable, Sendable {
    /// Identifies a message for the shell.
    public typealias Token = UInt64

    public struct Limits: Hashable, Sendable {
        /// Milliseconds within which writes to one target are merged into one entry.
        public var mergeWindow: Int64 = 10
        /// Maximum number of waiting writes. Beyond it, one entry makes everything stale.
        public var writes = 8_192
        /// Maximum number of purges that are not durable. Beyond it, purges are refused.
        public var purges = 4_096
        /// Maximum number of entries in one batch, and of entries considered for it.
        public var batch = 128
        /// Maximum bytes of a batch's arguments. A longer argument is sent alone.
        public var batchBytes = 1 << 20
        /// Maximum bytes of one argument. Beyond it, a message with a wider effect replaces it.
        public var argumentBytes = 1 << 20
        public var examinedItems = 1_024
        public var waiters = 256
        /// Entries of this many milliseconds before the loss of a primary are sent again, at most `remembered` entries.
        public var sentAgain: Int64 = 60_000
        public var remembered = 16_384
        /// Milliseconds after which a purge that is not in the log is answered as pending.
        public var patience: Int64 = 1_000
        /// Milliseconds between two attempts after a refusal or without a replica; doubled each time.
        public var firstPause: Int64 = 1_000
        public var longestPause: Int64 = 30_000
        public var fences = 16
        /// Maximum bytes of the arguments of purges that are not durable. Beyond it, purges are refused.
        public var purgeBytes = 16 << 20
        /// Maximum number of writes stored at the end of the process, and maximum bytes of their arguments. Beyond these, one entry
        /// replaces them.
        public var keptWrites = 1_024
        public var keptWriteBytes = 1 << 20

        public init() {}
    }

    public enum Purpose: Hashable, Sendable {
        /// Sent again only as part of `sentAgain`'s period.
        case write
        case purge
        /// A purge that an earlier process answered as pending.
        case keptPurge
        /// A write that an earlier process could not append before it ended.
        case keptWrite
    }

    public enum Reply: Hashable, Sendable {
        case appended(LogPosition)
        /// The engine already has ids above the fence's.
        case alreadyBeyond
        /// The engine returned an error: out of memory, read only, not permitted, or busy.
        case refused
    }

    public enum Event: Hashable, Sendable {
        /// A message that this node has already applied. A token is reported at most once as appended and once as durable or pending.
        case append(LogMessage, Purpose, token: Token?)
        /// Connected to the primary of `LogFollower.Action.mayAppend`; no earlier command is outstanding.
        /// - Parameter replicas: `connected_slaves`.
        case connected(isNewPrimary: Bool, fence: Fence?, replicas: Int)
        case replicas(Int)
        case lost
        case fence(Fence)
        case sendHello
        /// Replies to the entries, one for each, in order.
        case answered([Reply])
        case waited(replicas: Int)
        case tick
    }

    public struct Outgoing: Hashable, Sendable {
        public var entry: LogEntry
        /// Requested id; nil if the engine assigns it.
        public var position: LogPosition?
    }

    /// Causes, from the worst to the best.
    public enum Pending: String, Hashable, Sendable, CaseIterable {
        /// The purge is not in the log: no connection, or no reply.
        case notReached = "not_reached"
        case refused
        /// The purge is in the log, but no replica is known to have it.
        case notReplicated = "not_replicated"
    }

    public enum Outcome: Hashable, Sendable {
        case appended(LogPosition)
        case durable
        /// The purge is in the log of an engine without replicas.
        case noReplica
        /// The purge is stored and sent again until it is durable, which is reported as well.
        case pending(Pending)
        /// The response to the write no longer waits. The log will contain the write, individually or as "everything is stale".
        case later
        /// The purge exceeds the limits, and is applied on this node only.
        case refused
    }

    public enum Action: Hashable, Sendable {
        case send([Outgoing])
        /// `WAIT 1 50`, on the same connection.
        case wait
        /// `MarkTable.hold` and `settle`: once for each entry, and again when the entry is sent again.
        case hold(LogMessage)
        case settle(LogMessage, at: LogPosition?)
        /// Store it durably before a following `report` reports it as pending.
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
        /// Whether the item is on disk. A purge on disk was reported as pending.
        var isKept = false
        var tokens: [Token] = []
        /// Sequence number, assigned when the item is first sent; nil before.
        var sequence: UInt64?
        var since: Int64
        /// Whether the log of an earlier primary contained the item, and this was reported.
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
    /// Oldest first; items with a sequence number precede those without.
    var queue: [Item] = []
    /// Tokens of queued writes without a sequence.
    var unsentWrites: [LogMessage: [Token]] = [:]
    var fences: [Outgoing] = []
    /// Purges in the log of this primary that no replica is known to have.
    var unreplicated: [Item] = []
    /// Pending purges: queued, sent, or in `unreplicated`.
    var pending = Load()
    var recentWrites: [LogMessage: Int64] = [:]
    var remembered: [Remembered] = []
    /// Time when an entry was forgotten that a new primary might need; nil if none was.
    var forgotten: Int64?
    var lostAt: Int64?
    var replicas = 0
    /// Whether this connection has appended an entry; a `WAIT` would cover nothing otherwise.
    var hasAppended = false
    var pause: Int64
    /// Earliest time of the next attempt.
    var pausedUntil = Int64.min
    var waitsAgainAt: Int64?

    public init(node: UInt64, limits: Limits = Limits()) {
        (self.node, self.limits, pause) = (node, limits, limits.firstPause)
    }

    public var pendingPurges: Int { pending.count }

    /// Number of pending purges that are not known to be in the log.
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
