// Some of what was said in the log lately: whether this node's secrets open it.

import Engine
import Fleet

/// What of the log was read, and what of it does not open.
public struct LogSample: Sendable, Equatable {
    public var entries: Int
    public var unopened: Int

    public init(entries: Int, unopened: Int) { (self.entries, self.unopened) = (entries, unopened) }
}

extension FleetSettings {
    /// Longer ago the secret may have been changed since, milliseconds; and how many are read at most.
    private static let sampledMilliseconds: UInt64 = 3_600_000
    private static let sampled = 100

    /// How far the log has come.
    public var logEnd: EngineCommand { EngineCommand([Array("XINFO".utf8), Array("STREAM".utf8), logKey], key: logKey) }

    /// Reads some entries.
    /// - Parameter end: the reply to `logEnd`.
    /// - Returns: nil where there are none, or nobody knows.
    public func logReading(_ end: EngineReply) -> EngineCommand? {
        guard let stream = FleetLog.stream(end), stream.count > 0 else { return nil }
        let start = LogPosition(stream.last.milliseconds - min(stream.last.milliseconds, Self.sampledMilliseconds))
        let words = ["XREAD", "COUNT", String(Self.sampled), "STREAMS"].map { Array($0.utf8) }
        return EngineCommand(words + [logKey, Array(start.text.utf8)], key: logKey)
    }

    /// nil where the reply has no entries.
    public func sample(_ reply: EngineReply) -> LogSample? {
        guard let entries = reply.list.flatMap(FleetLog.entries), !entries.isEmpty else { return nil }
        return LogSample(entries: entries.count, unopened: entries.count { open($0.fields) == nil })
    }

    /// nil: none of the secrets opens it.
    func open(_ fields: [LogField]) -> LogEntry? {
        var entry = LogEntry(fields: fields)
        let place = logKey + LogEntry.associatedData(of: fields)
        for secret in secrets.all {
            guard let argument = secret.open(entry.message.argument, at: place[...]) else { continue }
            entry.message.argument = argument
            return entry
        }
        return nil
    }
}
