// The machine of who writes the log: what is appended when, what of it is durable, and what is sent again. One batch is under way at a
// time, and a `WAIT` behind it where a purge is among them, so sequences come in order and a connection's wait speaks of its own entries.

public struct LogWriter: Hashable, Sendable {
    /// Names what the shell wants to be told about. Of its own making.
    public typealias Token = UInt64

    public struct Limits: Hashable, Sendable {
        /// Milliseconds in which writes to one target make one entry.
        public var mergeWindow: Int64 = 10
        /// Invalidations that wait to be sent. Beyond, they are one entry: everything is stale.
        public var writes = 8_192
        /// Purges that are not durable. Beyond, they are refused.
        public var purges = 4_096
        /// Entries of one batch, and how many that wait are looked at for it.
        public var batch = 128
        /// Bytes of their arguments: far less than a connection takes at a time. One that is longer goes alone.
        public var batchBytes = 1 << 20
        /// Bytes of one argument, or it is said more widely: what a node appends, others have to be able to read.
        public var argumentBytes = 1 << 20
        public var lookedAt = 1_024
        /// Who waits for one entry.
        public var waiters = 256
        /// Milliseconds before the loss of a primary whose entries are sent again to the next, and how many of them.
        public var sentAgain: Int64 = 60_000
        public var remembered = 16_384
        /// Milliseconds until a purge that is not in the log is answered as pending.
        public var patience: Int64 = 1_000
        /// Milliseconds between two attempts with what the engine refused, or no replica has: doubled each time.
        public var firstPause: Int64 = 1_000
        public var longestPause: Int64 = 30_000
        /// Fences that wait to be sent.
        public var fences = 16
        /// Bytes of the arguments of purges that are not durable. Beyond, they are refused.
        public var purgeBytes = 16 << 20
        /// Writes that have no place in the log when the process ends, and the bytes of their arguments. Beyond, one entry stands for them.
        public var keptWrites = 1_024
        public var keptWriteBytes = 1 << 20

        public init() {}
    }

    public enum Purpose: Hashable, Sendable {
        /// A write was seen. Sent again only as part of the last minute.
        case write
        /// Somebody purges, and waits for an answer.
        case purge
        /// An earlier process answered it as pending.
        case keptPurge
        /// An earlier process ended before it was in the log.
        case keptWrite
    }

    /// What became of an outgoing entry.
    public enum Reply: Hashable, Sendable {
        case appended(LogPosition)
        /// The engine has higher ids than a fence asked for.
        case alreadyBeyond
        /// An error: out of memory, read only, not permitted, busy.
        case refused
    }

    public enum Event: Hashable, Sendable {
        /// What is applied on this node already. Tokens are told of, each at most once as appended and once as durable or pending.
        case append(LogMessage, Purpose, token: Token?)
        /// `LogFollower.Action.mayAppend`, and a connection for writing to the same primary. Nothing was written on it yet.
        /// - Parameter replicas: `connected_slaves`.
        case connected(isNewPrimary: Bool, fence: Fence?, replicas: Int)
        /// `connected_slaves`, read again on the same connection.
        case replicas(Int)
        case lost
        /// `LogFollower.Action.append`.
        case fence(Fence)
        /// `LogFollower.Action.greet`.
        case greet
        /// What was sent last is answered, one reply for each entry, in their order.
        case answered([Reply])
        case waited(replicas: Int)
        /// At `nextTick`.
        case tick
    }

    public struct Outgoing: Hashable, Sendable {
        public var entry: LogEntry
        /// The id to append it at; nil: the engine's own.
        public var position: LogPosition?
    }

    /// From the worst to the best.
    public enum Pending: String, Hashable, Sendable, CaseIterable {
        /// Not in the log: there is no connection, or no answer.
        case notReached = "not_reached"
        /// The engine does not take it.
        case refused
        /// In the log, and no replica has said that it has it.
        case notReplicated = "not_replicated"
    }

    public enum Outcome: Hashable, Sendable {
        case appended(LogPosition)
        /// A purge: a replica has it.
        case durable
        /// A purge: in the log of an engine without replicas. Nothing is kept for it.
        case noReplica
        /// A purge: kept, and sent again until it is durable, which is told as well.
        case pending(Pending)
        /// A write: nobody is told of it any more. It will be in the log, by itself or as "everything is stale".
        case later
        /// A purge: too many are pending. It is applied on this node only, and has to be asked for again.
        case refused
    }

    public enum Action: Hashable, Sendable {
        /// Append all of these, in one go.
        case send([Outgoing])
        /// `WAIT 1 50`, on the same connection.
        case wait
        /// `MarkTable.hold`, `MarkTable.settle`: once each for each entry, whatever becomes of it; and once more where it is sent again.
        case hold(LogMessage)
        case settle(LogMessage, at: LogPosition?)
        /// Keep it durably before it is told that anything is pending that follows here.
        case keepPending(Token, LogMessage)
        case dropPending(Token)
        case tell(Token, Outcome)
    }

    enum Phase: Hashable, Sendable {
        case away
        case idle
        case sendingFence(Outgoing)
        case sending([Item])
        case waiting
    }

    struct Item: Hashable, Sendable {
        var message: LogMessage
        var isPurge = false
        /// Whether it lies on the disk. Then the token of a purge was told that the purge is pending.
        var isKept = false
        var tokens: [Token] = []
        /// Given when it is sent first.
        var sequence: UInt64?
        /// When it was handed to us.
        var since: Int64
        /// Whether it was in the log of an earlier primary: all were told.
        var isSettled = false
        /// Whether the table of marks holds it.
        var isHeld = true
    }

    /// Of purges.
    struct Load: Hashable, Sendable {
        var count = 0
        /// Of their arguments.
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
    var phase = Phase.away
    public internal(set) var lastSequence: UInt64 = 0
    /// What is to be sent, the oldest first; what has a sequence before what has none.
    var queue: [Item] = []
    /// Writes that wait in the queue without a sequence, and who waits for them.
    var unsentWrites: [LogMessage: [Token]] = [:]
    var fences: [Outgoing] = []
    /// Purges that are in the log of this primary, and on no replica as far as we know.
    var unreplicated: [Item] = []
    /// Pending purges: in the queue, under way, or in `unreplicated`.
    var pending = Load()
    /// When each message was sent lately.
    var lately: [LogMessage: Int64] = [:]
    var remembered: [Remembered] = []
    /// When something had to be forgotten that a new primary might ask for.
    var forgotten: Int64?
    var lostAt: Int64?
    var replicas = 0
    /// Whether this connection has appended something: a `WAIT` without would speak of nothing.
    var hasAppended = false
    var pause: Int64
    /// Nothing is sent, and nothing waited for again, before.
    var pausedUntil = Int64.min
    var waitsAgainAt: Int64?

    public init(node: UInt64, limits: Limits = Limits()) {
        (self.node, self.limits, pause) = (node, limits, limits.firstPause)
    }

    /// Purges that are not durable.
    public var pendingPurges: Int { pending.count }

    /// Those of them that are not in the log, as far as we know.
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
        case .lost: return leave(now)
        case .fence(let fence):
            add(Outgoing(entry: fence.entry, position: nil))
            return proceed(now)
        case .greet:
            if phase != .away { greet(now) }
            return proceed(now)
        case .answered(let replies): return answer(replies, now) + proceed(now)
        case .waited(let replicas): return wait(replicas, now) + proceed(now)
        case .tick: return tellPending(now) + proceed(now)
        }
    }
}
