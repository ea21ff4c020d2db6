// State machine of a node that follows the log: it reads and applies entries, and detects missing ones. It has no I/O and no clock. Its
// shell performs the actions in order and makes no decisions.

public struct LogFollower: Hashable, Sendable {
    public struct Limits: Hashable, Sendable {
        /// Milliseconds without a reply after which the node counts as disconnected. A blocking read ends within 1,000 ms.
        public var silence: Int64 = 1_500
        /// Milliseconds of the engine's time between two replies that show a suspension of this process or machine.
        public var stillness: UInt64 = 3_000
        /// Milliseconds to wait for missing entries: their sender repeats them on a new primary.
        public var waitForMissing: Int64 = 2_000
        /// Milliseconds of the log that are read again from a new primary. Twice the period of entries that are sent again.
        public var readAgain: UInt64 = 120_000
        /// Milliseconds by which a fence lies ahead, so that one fence suffices for all nodes.
        public var fenceLead: UInt64 = 1_000
        /// Milliseconds between two stored positions; each costs two flushes.
        public var keepInterval: Int64 = 2_000
        /// Milliseconds between a stored position and its ceiling (`KeptPosition.ceiling`). More than `keepInterval`.
        public var ceilingLead: UInt64 = 10_000
        /// Maximum number of batches that are not applied yet. Beyond it reading pauses.
        public var batches = 64
        /// Maximum bytes of such batches. At least one portion.
        public var aheadBytes = 4 << 20
        /// Bytes between two reports during a catch-up: about a thousand entries.
        public var portionBytes = 256 << 10
        /// Entries between two reads of the log's state during a catch-up. If no entry was removed unread, the position is stored.
        public var entriesPerInfo = 4_096
        public var infoInterval: Int64 = 2_000
        /// Milliseconds without an entry after which a node appends one: half of the time for which a node may be disconnected without
        /// effect.
        public var quiet: Int64 = 15_000
        public var nodes = 8_192
        public var missing = 1_024

        public init() {}
    }

    public enum State: Hashable, Sendable {
        case disconnected
        case catchingUp(to: LogPosition)
        /// All entries are read; a check for entries that were removed unread is pending.
        case verifying
        case missing(until: Int64)
        case upToDate
        /// All entries are read, but this node's own entries are refused or do not arrive.
        case writesFailing
    }

    /// Times are milliseconds of a monotonic clock.
    public enum Event: Hashable, Sendable {
        /// - Parameter fleetMilliseconds: upper bound of the fleet's time before this connection (`FleetClock.latest`).
        case connected(LogInfo, fleetMilliseconds: UInt64?)
        /// Entries in the order of the log, decrypted by the shell.
        case entries([PositionedEntry])
        case nothingNew
        /// The engine's time when the next entries were requested, milliseconds.
        case engineTime(UInt64)
        case epoch(UInt64?)
        /// Reply to `readInfo`, on the reading connection.
        case infoRead(LogInfo)
        case lost
        /// All orders before this report are applied in memory.
        case applied(report: UInt64)
        /// The position of `keep`, or a later one, is on disk.
        case kept(KeptPosition)
        case appended(LogPosition)
        /// The engine has refused an entry of this node, which will be sent again.
        case refused
        /// The engine's clock was set (`FleetClock.note`): ages of stored responses are unreliable.
        case clockJumped
        /// Sent at least every 250 ms.
        case tick
    }

    public enum Action: Hashable, Sendable {
        case readFrom(LogPosition)
        case readInfo
        case apply(PositionedEntry)
        /// Record the entry in the mark table only.
        case note(PositionedEntry)
        case startAnew(epoch: UInt64, floor: LogPosition)
        case raiseFloor(LogPosition)
        case doubt(after: LogPosition, before: LogPosition)
        /// Treat the local store as `share.after_gap` specifies.
        case gap(LogGap)
        /// Send `applied` with this number when all previous actions are performed. The last of several suffices.
        case report(UInt64)
        /// Flush the store, then store this position durably and send `kept`. Later actions do not wait.
        case keep(KeptPosition)
        case renewEpoch
        /// The writer may append to this primary, beginning with the fence.
        case mayAppend(fence: Fence?, isNewPrimary: Bool)
        /// Pass the fence to the writer; the engine assigns its id.
        case append(Fence)
        case sendHello
        case upToDate
        case disconnected(since: Int64, DisconnectCause)
        case reconnect
    }

    public let limits: Limits
    let node: UInt64
    public internal(set) var state = State.disconnected
    /// Position in the log that this process or an earlier one has read.
    var reached: KeptPosition?
    /// Applied position that may be stored.
    var applied: KeptPosition?
    var kept: KeptPosition?
    /// Position of the last `keep` action, and its time.
    var asked: KeptPosition?
    var askedAt: Int64
    /// Upper bound of positions that an earlier process has applied or written into records.
    var formerCeiling: LogPosition
    var next = LogPosition.beginning
    /// Position up to which the store has applied entries: these are only recorded in the mark table.
    var storeApplied = LogPosition.beginning
    /// Position applied before the process began: entries missing before it are ignored.
    var past = LogPosition.beginning
    /// Upper bound of known ids.
    var highest: LogPosition
    /// Whether this process has read the complete log once.
    var isFilled = false
    /// Whether entries that are read again are recognized.
    var remembers = false
    var seen: SeenSequences
    /// Entries of the last log before this one. A node repeats its last entries in a new log.
    var formerSeen: SeenSequences
    var connectedLog: LogInfo?
    /// Whether the log comes from a primary that was not read to its end before.
    var isPrimaryUnread = false
    /// Whether the log was read completely, so that `added` is meaningful.
    var isCounting = false
    /// The lowest entry below the position. Its id was assigned twice, and the other entry is lost.
    var lowestLate: LogPosition?
    /// Position up to which no entry was removed unread, and the number of removed entries at that time.
    var verified = LogPosition.beginning
    var removed: UInt64 = 0
    /// Number of entries ever appended up to the position; nil: unknown.
    var counted: UInt64?
    var lastAnswer: Int64
    /// Time of the last tick. A late tick shows a suspension of the process.
    var lastTick: Int64
    /// The engine's time of the last reply; nil if there was none since the node connected.
    var engineTime: UInt64?
    var lastInfoRead: Int64
    /// Positions that will be stored once they are applied.
    var checkpoints: [Checkpoint] = []
    var lastReport: UInt64 = 0
    var isReadPaused = false
    /// Bytes since the last report.
    var unreportedBytes = 0
    /// Entries since the last read of the log's state, during a catch-up.
    var entriesSinceInfo = 0
    var echo: Echo
    var losses: Losses

    struct Checkpoint: Hashable, Sendable {
        var report: UInt64
        var kept: KeptPosition?
        var bytes: Int
    }

    /// - Parameter kept: stored position of an earlier process; nil if there is none.
    public init(node: UInt64, kept: KeptPosition?, now: Int64, limits: Limits = Limits()) {
        (self.node, self.limits, reached, lastAnswer, lastInfoRead) = (node, limits, kept, now, now)
        (self.kept, lastTick, askedAt) = (kept, now, now - limits.keepInterval)
        formerCeiling = kept.map { max($0.ceiling, $0.position) } ?? .beginning
        reached?.ceiling = .beginning
        highest = kept?.position ?? .beginning
        seen = SeenSequences(nodes: limits.nodes, missing: limits.missing)
        formerSeen = seen
        (echo, losses) = (Echo(last: now), Losses(kept: kept?.position))
    }

    /// Version for the record of a request that is sent now; nil if the response is not shared. It is at most the ceiling on disk, so the
    /// next process knows an upper bound of this one's records.
    public var version: RecordVersion? {
        guard state == .upToDate, let reached, let kept, kept.epoch == reached.epoch, kept.primary == reached.primary else { return nil }
        return RecordVersion(epoch: reached.epoch, position: min(max(kept.ceiling, kept.position), reached.position))
    }

    public var epoch: UInt64? { reached?.epoch }

    public var isUpToDate: Bool { state == .upToDate }

    public var connectedUntil: Int64? { state == .upToDate ? lastAnswer + limits.silence : nil }

    public var position: LogPosition { reached?.position ?? .beginning }

    public mutating func handle(_ event: Event, now: Int64) -> [Action] {
        switch event {
        case .connected(let info, let fleetMilliseconds):
            lastAnswer = now
            echo.noteConnection(now, limits.quiet)
            return connect(info, fleetMilliseconds: fleetMilliseconds)
        case .applied(let report): return applied(report, now)
        case .kept(let position):
            kept = position
            return []
        case .lost: return disconnect(.lost)
        case .tick: return tick(now) + keepIfDue(now)
        case .appended(let position): return noteAppended(position, now)
        case .refused: return noteRefused()
        case .entries, .nothingNew, .engineTime, .epoch, .infoRead, .clockJumped:
            guard state != .disconnected else { return [] }
            // Replies that waited while this process was suspended are outdated.
            guard now - lastAnswer <= limits.silence else { return disconnect(.stopped) + [.reconnect] }
            lastAnswer = now
        }
        switch event {
        case .entries(let entries): return take(entries, now)
        case .nothingNew: return finishBatch(isEnd: true, now, [])
        case .engineTime(let time): return noteTime(time)
        case .epoch(let epoch): return epoch == reached?.epoch ? [] : disconnect(.otherLog) + [.reconnect]
        case .infoRead(let info): return verify(info, now)
        case .clockJumped:
            return [.raiseFloor(max(highest, position)), .append(Fence(at: highest, doubtedAfter: .beginning))]
        case .connected, .applied, .kept, .lost, .tick, .appended, .refused: return []
        }
    }
}

/// Why a node is disconnected.
public enum DisconnectCause: String, Sendable, Hashable, CaseIterable {
    /// The connection was lost, or a reply was unusable. The shell has details.
    case lost
    case silence
    case stopped
    /// Another log has replaced the one that was followed.
    case otherLog = "other_log"
    case otherPrimary = "other_primary"
    /// The log has fewer entries than were read.
    case removed = "log_removed"
    case missing = "entries_missing"
    case refused
    case unheard
}

/// Why entries may be missing. Raw values are those of `FleetDoubt`.
public enum LogGap: String, Sendable, Hashable, CaseIterable {
    /// The stored responses were never compared with a log: sharing is new, or the position is lost.
    case neverFollowed = "never_followed"
    case epoch
    case trimmed
    case lostEntries = "lost_entries"
}
