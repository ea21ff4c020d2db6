// Entries as they lie in the log: how they are sealed and opened, and whether this node's secrets open some of what was appended lately.

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

    /// The value by which nodes are admitted (`FleetAdmission`).
    public var admissionQuestion: EngineCommand {
        EngineCommand([Array("GET".utf8), EngineKeys(fleet: name).admission], key: logKey)
    }

    /// Whether no secret of this node opens the value.
    public func isOtherSecret(_ reply: EngineReply) -> Bool {
        guard let value = reply.text else { return false }
        return FleetAdmission.judge(value, at: EngineKeys(fleet: name).admission, by: secrets, serving: [:], fleetNow: 0) == .otherSecret
    }

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

    private static let keyName = Array("i".utf8)

    /// Id of the key that an entry says it was sealed by; nil: it says none (a version without ids), or several. Anybody can write there what he likes.
    static func keyID(_ fields: [LogField]) -> [UInt8]? {
        let ids = fields.filter { $0.name == keyName }
        return ids.count == 1 ? ids[0].value : nil
    }

    /// As it is appended: by the first secret, with the id of its key.
    func seal(_ entry: LogEntry) -> [LogField] {
        let fields = entry.fields + [(Self.keyName, secrets.first.id)]
        let place = logKey + LogEntry.associatedData(of: fields)
        return LogEntry.adding(sealedArgument: secrets.first.seal(entry.message.argument, at: place), to: fields)
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
