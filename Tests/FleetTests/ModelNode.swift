// A node: the machines with the shell that performs what they say, a local store, and a disk that outlives the process.

@testable import Fleet

struct ModelNode: Hashable {
    /// A request that is upstream.
    struct Fetch: Hashable {
        var key: Int
        var value: Int
        var version: RecordVersion?
        /// Whether what it brings was made invalid meanwhile.
        var isOvertaken = false
    }

    struct Disk: Hashable {
        var kept: KeptPosition?
        var pending: [LogWriter.Token: LogMessage] = [:]
        /// The local store: the value of each key's copy.
        var copies: [Int?]
        /// As it was when it was flushed last: a crash may bring back what was removed since.
        var flushed: [Int?] = []
        /// By key, the value that the last invalidation obeyed speaks of: nothing older may be had again.
        var obeyed: [Int]
    }

    var disk: Disk
    var follower: LogFollower
    var writer: LogWriter
    var table = MarkTable()
    var fetches: [Fetch] = []
    /// Where it is connected to.
    var primary: Int?
    /// The fleet's time less the world's, as known.
    var clock: Int64?
    var asked: LogPosition?
    var outgoing: [LogWriter.Outgoing]?
    var isWaiting = false
    /// The engine's version after the last that this connection has appended.
    var written = 0
    var report: UInt64?
    /// The last report that was told as applied.
    var applied: UInt64 = 0
    /// A position that is to be written, behind a flush of the store; and what it stands for.
    var keeping: KeptPosition?
    var keptValues: [Int] = []
    /// By key, what entries of the log have made invalid: while this process lives, and by the reports that will be kept. What was not kept is
    /// forgotten with the process. The promise holds all the same: a purge that a replica has is in the log of whoever becomes the primary,
    /// and others are said again by their sender, who has answered them as pending.
    var heard: [Int]
    var heardBefore: [UInt64: [Int]] = [:]
    /// The last value of a write of this node, by key; and of what this process has purged or seen written.
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

    /// All entries name a key and the value that replaced what they make invalid.
    static func message(_ kind: LogMessage.Kind, key: Int, value: Int = 0) -> LogMessage {
        LogMessage(kind, argument: [UInt8(key), UInt8(truncatingIfNeeded: value)])
    }

    static func marks(_ message: LogMessage) -> Mark? {
        switch message.kind {
        case .target, .collection, .group, .entry, .marks: .hash(UInt64(message.argument[0]))
        case .selection: .selection([message.argument[0]])
        case .all, .unknown: .all
        case .fence, .hello: nil
        }
    }

    func refusal(of version: RecordVersion, key: Int) -> TakeRefusal? {
        table.refusal(of: version, reached: follower.position, concerning: [UInt64(key)]) { $0 == [UInt8(key)] }
    }

    // MARK: - Obeying

    /// Nothing older may be had again: by what came from the log or was answered, and by what this process itself has said.
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

    /// The disk as it is after a crash.
    var diskAfterCrash: Disk {
        var disk = disk
        for key in disk.flushed.indices { disk.copies[key] = disk.copies[key] ?? disk.flushed[key] }
        return disk
    }

    /// Copies, and what is under way, are gone.
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
