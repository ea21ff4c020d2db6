// A model of the engine: a stream with IDs, trimming, lagging replicas, a primary that is lost with unreplicated entries, and different
// clocks.

@testable import Fleet

struct ModelEngine: Hashable {
    /// A server's state of the log.
    struct Content: Hashable {
        var entries: [PositionedEntry] = []
        var last = LogPosition.beginning
        var lastDeleted = LogPosition.beginning
        var added: UInt64 = 0
        var epoch: UInt64?
        /// Number of changes; shows how much a replica has received.
        var version = 0
    }

    var content = Content()
    var replicas: [Content]
    /// This primary's clock relative to the true time, in milliseconds.
    var clock: Int64 = 0
    /// Number of the primary; changes with each failover.
    var primary = 1
    private var epochs: UInt64 = 0
    /// The last snapshot of all servers.
    private(set) var dump = Content()

    init(replicas: Int) { self.replicas = Array(repeating: Content(), count: replicas) }

    // MARK: - Commands

    func milliseconds(at time: Int64) -> UInt64 { UInt64(max(0, time + clock)) }

    /// Result of `SET NX` and `GET` of the epoch, `XINFO STREAM` and `INFO`.
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
        content.entries.append(PositionedEntry(position, outgoing.entry))
        content.last = position
        content.added += 1
        content.version += 1
        return .appended(position)
    }

    func read(after position: LogPosition) -> [PositionedEntry] { content.entries.filter { $0.position > position } }

    /// Number of replicas that have this version.
    func waited(for version: Int) -> Int { replicas.count { $0.version >= version } }

    // MARK: - Events

    mutating func replicate(to replica: Int) { replicas[replica] = content }

    /// - Parameter position: entries after it are not removed.
    mutating func trim(keeping count: Int, after position: LogPosition) {
        let surplus = content.entries.dropLast(count).prefix { $0.position <= position }.count
        guard surplus > 0 else { return }
        content.entries.removeFirst(surplus)
        content.version += 1
    }

    /// Performs `FLUSHALL`.
    mutating func flush() { content = Content(version: content.version + 1) }

    mutating func writeDown() { dump = content }

    /// All servers fail and return with the last snapshot.
    mutating func returnWithDump() {
        let version = content.version
        content = dump
        content.version = version + 1_000_000
        replicas = replicas.map { _ in Content() }
        primary += 1
    }

    /// Makes the replica the primary, with its state. The other replicas follow it.
    mutating func promote(_ replica: Int, clock: Int64) {
        content = replicas[replica]
        // Versions of different primaries are not comparable.
        content.version += 1_000_000
        replicas = replicas.map { _ in Content() }
        (self.clock, primary) = (clock, primary + 1)
    }
}
