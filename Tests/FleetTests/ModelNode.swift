// A model of a node: the state machines, the shell that performs their actions, a local store, and a disk that outlives the process.

@testable import Fleet

struct ModelNode: Hashable {
    /// A pending request to the upstream.
    struct Fetch: Hashable {
        var key: Int
        var value: Int
        var version: RecordVersion?
        /// Whether the response was invalidated while the request was pending.
        var isOvertaken = false
    }

    struct Disk: Hashable {
        var kept: KeptPosition?
        var pending: [LogWriter.Token: LogMessage] = [:]
        /// The local store: the stored value of each key.
        var copies: [Int?]
        /// State of the store at the last flush. A crash may restore responses that were removed since.
        var flushed: [Int?] = []
        /// By key, the value of the last applied invalidation. Older values must not be served.
        var obeyed: [Int]
    }

    var disk: Disk
    var follower: LogFollower
    var writer: LogWriter
    var table = MarkTable()
    var fetches: [Fetch] = []
    /// The primary that the node is connected to; nil if disconnected.
    var primary: Int?
    /// The fleet's time relative to the true time, as far as known.
    var clock: Int64?
    var asked: LogPosition?
    var outgoing: [LogWriter.Outgoing]?
    var isWaiting = false
    /// Engine version after the last append of this connection.
    var written = 0
    var report: UInt64?
    /// Number of the last report that was applied.
    var applied: UInt64 = 0
    /// The position to persist after a flush of the store, and the values that it covers.
    var keeping: KeptPosition?
    var keptValues: [Int] = []
    /// By key, the values invalidated by entries that this process has read, and those by report. Unpersisted ones are forgotten with the
    /// process, which is safe: a replicated purge survives in the new primary's log. Other purges were answered as pending, so their sender
    /// repeats them.
    var heard: [Int]
    var heardBefore: [UInt64: [Int]] = [:]
    /// By key, the last value that this node wrote, and the last value that this process invalidated itself.
    var writes: [Int]
    var said: [Int]
    var gaps: [LogGap] = []
    var hasToLook = false

    init(name: UInt64, disk: Disk, now: Int64, _ limits: LogFollower.Limits = .init()) {
        self.disk = disk
        follower = LogFollower(node: name, kept: disk.kept, now: now, limits: limits)
        writer = LogWriter(node: name)
        writes = disk.obeyed.map { _ in 0 }
        (said, heard) = (writes, writes)
    }

    /// Every message names a key and the value that replaces the invalidated one.
    static func message(_ kind: LogMessage.Kind, key: Int, value: Int = 0) -> LogMessage {
        LogMessage(kind, argument: [UInt8(key), UInt8(truncatingIfNeeded: value)])
    }

    static func marks(_ message: LogMessage) -> Mark? {
        switch message.kind {
        case .target, .collection, .group, .entry, .marks: .hash(UInt64(message.argument[0]))
        case .selection: .selection([message.argument[0]])
        case .all, .unknown: .all
        case .fence, .hello, .identities: nil
        }
    }

    func refusal(of version: RecordVersion, key: Int) -> TakeRefusal? {
        table.refusal(of: version, reached: follower.position, concerning: [UInt64(key)]) { $0 == [UInt8(key)] }
    }

    // MARK: - Applying

    /// The lowest value that may be served: by persisted and answered invalidations, by entries of the log, and by this process's own
    /// writes.
    func obeyed(_ key: Int) -> Int { max(disk.obeyed[key], said[key], heard[key]) }

    mutating func keep(_ kept: KeptPosition) {
        keeping = kept
        for (report, values) in heardBefore where report <= applied {
            keptValues = keptValues.isEmpty ? values : zip(keptValues, values).map(max)
            heardBefore[report] = nil
        }
    }

    mutating func flush() {
        (disk.kept, disk.flushed, keeping) = (keeping, disk.copies, nil)
        for key in keptValues.indices { disk.obeyed[key] = max(disk.obeyed[key], keptValues[key]) }
    }

    /// The disk after a crash.
    var diskAfterCrash: Disk {
        var disk = disk
        for key in disk.flushed.indices { disk.copies[key] = disk.copies[key] ?? disk.flushed[key] }
        return disk
    }

    /// Removes stored values, and marks pending fetches as outdated.
    mutating func obey(_ message: LogMessage, values: [Int], isOwn: Bool = false) {
        for key in disk.copies.indices where message.kind == .all || message.kind == .unknown || message.argument.first == UInt8(key) {
            disk.copies[key] = nil
            if isOwn { said[key] = max(said[key], values[key]) } else { heard[key] = max(heard[key], values[key]) }
            for index in fetches.indices where fetches[index].key == key { fetches[index].isOvertaken = true }
        }
    }

    mutating func dropAll() {
        disk.copies = disk.copies.map { _ in nil }
        for index in fetches.indices { fetches[index].isOvertaken = true }
    }
}
