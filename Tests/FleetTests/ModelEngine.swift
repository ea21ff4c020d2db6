// The engine as the machines see it: a stream with ids, its trimming, replicas that lag, a primary that is lost with what they do not
// have, and clocks that are apart.

@testable import Fleet

struct ModelEngine: Hashable {
    /// What a server has of the log.
    struct Content: Hashable {
        var entries: [PlacedEntry] = []
        var last = LogPosition.beginning
        var lastDeleted = LogPosition.beginning
        var added: UInt64 = 0
        var epoch: UInt64?
        /// Counts all changes: what a replica has shows in it.
        var version = 0
    }

    var content = Content()
    var replicas: [Content]
    /// Of this primary, to the time of the world, in milliseconds.
    var clock: Int64 = 0
    /// Another for each primary.
    var primary = 1
    private var epochs: UInt64 = 0
    /// What was written down last, by all servers.
    private(set) var dump = Content()

    init(replicas: Int) { self.replicas = Array(repeating: Content(), count: replicas) }

    // MARK: - Commands

    func milliseconds(at time: Int64) -> UInt64 { UInt64(max(0, time + clock)) }

    /// `SET NX` and `GET` of the epoch, `XINFO STREAM`, `INFO`.
    mutating func info() -> LogInfo {
        if content.epoch == nil { renewEpoch() }
        return LogInfo(
            epoch: content.epoch ?? 0, primary: [UInt8(truncatingIfNeeded: primary)], last: content.last,
            first: content.entries.first?.position,
            lastDeleted: content.lastDeleted, count: UInt64(content.entries.count), added: content.added)
    }

    mutating func renewEpoch() {
        epochs += 1
        content.epoch = epochs
        content.version += 1
    }

    mutating func append(_ outgoing: LogWriter.Outgoing, time: Int64) -> LogWriter.Reply {
        let own = max(LogPosition(milliseconds(at: time)), LogPosition(content.last.milliseconds, content.last.sequence + 1))
        let position = outgoing.position ?? own
        guard position > content.last else { return .alreadyBeyond }
        content.entries.append(PlacedEntry(position, outgoing.entry))
        content.last = position
        content.added += 1
        content.version += 1
        return .appended(position)
    }

    func read(after position: LogPosition) -> [PlacedEntry] { content.entries.filter { $0.position > position } }

    /// How many replicas have what this version has.
    func waited(for version: Int) -> Int { replicas.count { $0.version >= version } }

    // MARK: - What befalls it

    mutating func replicate(to replica: Int) { replicas[replica] = content }

    /// - Parameter position: What comes after it stays.
    mutating func trim(keeping count: Int, after position: LogPosition) {
        let surplus = content.entries.dropLast(count).prefix { $0.position <= position }.count
        guard surplus > 0 else { return }
        content.entries.removeFirst(surplus)
        content.version += 1
    }

    /// `FLUSHALL`.
    mutating func flush() { content = Content(version: content.version + 1) }

    mutating func writeDown() { dump = content }

    /// All servers were away, and have what was written down last.
    mutating func returnWithDump() {
        let version = content.version
        content = dump
        content.version = version + 1_000_000
        replicas = replicas.map { _ in Content() }
        primary += 1
    }

    /// The replica is the primary now, with what it has; the others follow it.
    mutating func promote(_ replica: Int, clock: Int64) {
        content = replicas[replica]
        // Versions of another lineage say nothing.
        content.version += 1_000_000
        replicas = replicas.map { _ in Content() }
        (self.clock, primary) = (clock, primary + 1)
    }
}
