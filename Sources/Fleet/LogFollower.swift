// The machine of who follows the log: what is read, what of it is applied, whether the node sees what the others say, and what is wanting.
// It does no I/O and has no clock; its shell performs its actions in their order, and decides nothing.

public struct LogFollower: Hashable, Sendable {
    public struct Limits: Hashable, Sendable {
        /// Milliseconds without an answer of the engine until nothing counts as seen. A wait for entries is answered within 1,000.
        public var silence: Int64 = 1_500
        /// Milliseconds of the engine's time between two answers, beyond which this process, or its machine, was not running.
        public var stillness: UInt64 = 3_000
        /// Milliseconds that are waited for what is wanting: its sender sends it again when it meets the new primary.
        public var waitForMissing: Int64 = 2_000
        /// Milliseconds of the log that are read again from a new primary. Twice of what is sent again.
        public var readAgain: UInt64 = 120_000
        /// Milliseconds that a fence lies ahead, so that one will do for all who meet the primary meanwhile.
        public var fenceLead: UInt64 = 1_000
        /// Milliseconds between two positions that are kept: each costs a flush of the store and one of the file.
        public var keepInterval: Int64 = 2_000
        /// Milliseconds of the log that the ceiling lies above the position when it is kept (`KeptPosition.ceiling`). More than `keepInterval`, so
        /// that records seldom wait for a flush.
        public var ceilingLead: UInt64 = 10_000
        /// Batches that were handed over and not yet obeyed. Beyond, nothing is read.
        public var batches = 64
        /// The same in bytes of memory: some ten thousand entries, most of which are short. Not less than a portion.
        public var aheadBytes = 4 << 20
        /// Until all is read, and while something is missing, a report is asked for after so many of them: about a thousand entries, which are obeyed
        /// in some milliseconds.
        public var portionBytes = 256 << 10
        /// While what was said meanwhile is read, the log is looked at after so many entries. Where none was removed unread, the position is kept.
        public var entriesOnTheWay = 4_096
        /// Milliseconds between two looks at the state of the log.
        public var looking: Int64 = 2_000
        /// Milliseconds without a new entry until some node has appended one: half of how long a node may be disconnected without harm.
        public var quiet: Int64 = 15_000
        public var nodes = 8_192
        public var missing = 1_024

        public init() {}
    }

    public enum State: Hashable, Sendable {
        /// There is no connection.
        case away
        /// What was said meanwhile is read.
        case catchingUp(to: LogPosition)
        /// All is read; whether nothing was removed meanwhile is asked.
        case verifying
        /// All is read, but something is wanting.
        case missing(until: Int64)
        /// What the others say is obeyed as they say it.
        case seeing
        /// All is read, and what this node appends is refused or not read: others may be as mute.
        case mute
    }

    /// Times are those of a clock that never goes back, in milliseconds.
    public enum Event: Hashable, Sendable {
        /// - Parameter fleetMilliseconds: The fleet's time now, at the latest, as it was known before this connection (`FleetClock.latest`).
        case connected(LogInfo, fleetMilliseconds: UInt64?)
        /// In the order of the log. Opened by the shell; what does not open is `LogEntry.unopened`.
        case entries([PlacedEntry])
        /// A wait for entries has ended without any.
        case nothingNew
        /// The engine's time, in milliseconds, when entries were asked for that come next, or that there are none.
        case engineTime(UInt64)
        /// The epoch as read with the entries; nil where there is none.
        case epoch(UInt64?)
        /// What `look` has asked for, on the connection of the reading, after what was read last.
        case looked(LogInfo)
        case lost
        /// All that was handed over before this report was asked for is obeyed. After a crash it is read again.
        case applied(report: UInt64)
        /// What `keep` has asked for: it lies on the disk, or something later does.
        case kept(KeptPosition)
        /// The engine has appended an entry of this node there.
        case appended(LogPosition)
        /// The engine has refused an entry of this node, which is sent again.
        case refused
        /// The engine's clock differs from what it was before (`FleetClock.note`): ages of what was stored until now are not to be relied on.
        case clockJumped
        /// At least every 250 ms.
        case tick
    }

    public enum Action: Hashable, Sendable {
        /// Ask for what comes after this position; wait for it where there is nothing.
        case readFrom(LogPosition)
        /// Ask for the state of the log.
        case look
        /// To the table of marks and the local store.
        case apply(PlacedEntry)
        /// To the table of marks only: the local store has obeyed it.
        case note(PlacedEntry)
        /// `MarkTable.startAnew`.
        case startAnew(epoch: UInt64, floor: LogPosition)
        /// `MarkTable.raiseFloor`.
        case raiseFloor(LogPosition)
        /// `MarkTable.doubt`.
        case doubt(after: LogPosition, before: LogPosition)
        /// Entries may be missing: the local store is treated as `share.after_gap` says.
        case gap(LogGap)
        /// Say `applied` with this number when all actions before this one are performed. Reports may be said together, by the last.
        case report(UInt64)
        /// Flush what was obeyed, then keep this durably in the place of the former, and say `kept` then. Nothing that follows waits for it.
        case keep(KeptPosition)
        /// Give the log another epoch, whatever it has; `reconnect` follows.
        case renewEpoch
        /// To the writer (`LogWriter.Event.connected`): it may append to this primary, the fence before anything else.
        case mayAppend(fence: Fence?, isNewPrimary: Bool)
        /// To the writer (`LogWriter.Event.fence`), at whatever id the engine gives.
        case append(Fence)
        /// Append a greeting (`LogWriter.Event.greet`).
        case greet
        case seeing
        /// Since the last answer.
        case blind(since: Int64, BlindCause)
        /// Close the connection to the log and make another.
        case reconnect
    }

    public let limits: Limits
    /// Of this process: its own entries are obeyed before they are appended.
    let node: UInt64
    public internal(set) var state = State.away
    /// How far the log was obeyed, by this process or an earlier one.
    var reached: KeptPosition?
    /// What of it is obeyed, and may be kept.
    var applied: KeptPosition?
    /// What of it is on the disk.
    var kept: KeptPosition?
    /// What was to be kept last, and when.
    var asked: KeptPosition?
    var askedAt: Int64
    /// An earlier process has neither obeyed an entry of this log nor written a record with a later position.
    var formerCeiling: LogPosition
    /// What is asked for next comes after this one.
    var next = LogPosition.beginning
    /// Entries up to here were obeyed by the local store: they only fill the table.
    var obeyed = LogPosition.beginning
    /// What was obeyed before the process began: what is missing up to there is its past.
    var past = LogPosition.beginning
    /// No id above it was given, as far as this node knows.
    var highest: LogPosition
    /// Whether the table was filled since the process began: all of this log was read once.
    var isFilled = false
    /// Whether it is known which entries were seen of what is read again.
    var remembers = false
    var seen: SeenSequences
    /// The log as it was when the connection was made.
    var met: LogInfo?
    /// Whether that is of a primary whose log was not read to the end before.
    var isMeeting = false
    /// Whether all of that was read, so that `added` counts.
    var isCounting = false
    /// The lowest that came below what was reached: appended after its place had been given to another, which is lost.
    var lowestLate: LogPosition?
    /// Nothing was removed unread up to here; and how many entries had been removed when that was known.
    var verified = LogPosition.beginning
    var removed: UInt64 = 0
    /// How many there ever were up to what was reached, if what was read was all; nil: where that began is not known.
    var counted: UInt64?
    var lastAnswer: Int64
    /// When a tick was said last: one that is late tells that the process was stopped.
    var lastTick: Int64
    /// The engine's time of the last answer; nil: there was none since the log was met.
    var engineTime: UInt64?
    var lastLook: Int64
    /// What will be kept once it is obeyed durably.
    var checkpoints: [Checkpoint] = []
    var lastReport: UInt64 = 0
    var owesReading = false
    /// Bytes of what was handed over since the last report was asked for.
    var handedBytes = 0
    /// Entries that were read since the log was looked at, of what was said while this node was away.
    var onTheWay = 0
    var echo: Echo
    var losses: Losses

    struct Checkpoint: Hashable, Sendable {
        var report: UInt64
        /// nil: nothing is kept, it is told only how much waits.
        var kept: KeptPosition?
        var bytes: Int
    }

    /// - Parameter kept: What an earlier process kept; nil: nothing of this log was ever obeyed.
    public init(node: UInt64, kept: KeptPosition?, now: Int64, limits: Limits = Limits()) {
        (self.node, self.limits, reached, lastAnswer, lastLook) = (node, limits, kept, now, now)
        (self.kept, lastTick, askedAt) = (kept, now, now - limits.keepInterval)
        formerCeiling = kept.map { max($0.ceiling, $0.position) } ?? .beginning
        reached?.ceiling = .beginning
        highest = kept?.position ?? .beginning
        seen = SeenSequences(nodes: limits.nodes, missing: limits.missing)
        (echo, losses) = (Echo(last: now), Losses(kept: kept?.position))
    }

    /// What a request that goes upstream now would write into its record; nil: its response is not shared. It is not above the ceiling that the disk
    /// has: the next process knows a bound of the positions that records of this one carry, and sees where another primary's log may end below them.
    public var version: RecordVersion? {
        guard state == .seeing, let reached, let kept, kept.epoch == reached.epoch, kept.primary == reached.primary else { return nil }
        return RecordVersion(epoch: reached.epoch, position: min(max(kept.ceiling, kept.position), reached.position))
    }

    /// Of the log that is followed; nil where none was met.
    public var epoch: UInt64? { reached?.epoch }

    /// Whether the shared level may be asked at all.
    public var isSeeing: Bool { state == .seeing }

    /// Until when the last answer counts; nil: nothing is seen.
    public var seesUntil: Int64? { state == .seeing ? lastAnswer + limits.silence : nil }

    /// How far the log was handed over.
    public var position: LogPosition { reached?.position ?? .beginning }

    public mutating func handle(_ event: Event, now: Int64) -> [Action] {
        switch event {
        case .connected(let info, let fleetMilliseconds):
            lastAnswer = now
            echo.meet(now, limits.quiet)
            return connect(info, fleetMilliseconds: fleetMilliseconds)
        case .applied(let report): return applied(report, now)
        case .kept(let position):
            kept = position
            return []
        case .lost: return leave(.lost)
        case .tick: return tick(now) + keepIfDue(now)
        case .appended(let position): return noteAppended(position, now)
        case .refused: return noteRefused()
        case .entries, .nothingNew, .engineTime, .epoch, .looked, .clockJumped:
            guard state != .away else { return [] }
            // What lay there while this process was stopped says nothing of now.
            guard now - lastAnswer <= limits.silence else { return leave(.stopped) + [.reconnect] }
            lastAnswer = now
        }
        switch event {
        case .entries(let entries): return take(entries, now)
        case .nothingNew: return finishBatch(isEnd: true, now, [])
        case .engineTime(let time): return noteTime(time)
        case .epoch(let epoch): return epoch == reached?.epoch ? [] : leave(.otherLog) + [.reconnect]
        case .looked(let info): return verify(info, now)
        case .clockJumped:
            return [.raiseFloor(max(highest, position)), .append(Fence(at: highest, doubtedAfter: .beginning))]
        case .connected, .applied, .kept, .lost, .tick, .appended, .refused: return []
        }
    }
}
