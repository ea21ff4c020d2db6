// Settings of sharing.

import Engine
import Fleet
import HTTPCore
import ResponseCache

public struct FleetSettings: Sendable {
    public var engine: EngineSettings
    /// Name of the fleet; part of every key in the engine.
    public var name: String
    public var secrets: FleetSecrets
    /// Maximum time to keep a record, milliseconds.
    public var keep: Int64 = 7 * 86_400_000
    /// How long a disconnected node serves stored responses as fresh, in milliseconds; nil means unlimited.
    public var blindLimit: Int64? = 30_000
    /// Maximum time that a request waits for a lookup, and the response to a write for the log, in milliseconds.
    public var timeout: Int64 = 10
    public var afterGap = FleetLogLink.AfterGap.stale
    public var collapses = true
    /// Maximum content of a shared response in bytes. Sealing it blocks the loop.
    public var contentLimitBytes = 1 << 20

    public init(engine: EngineSettings, name: String, secrets: FleetSecrets) {
        (self.engine, self.name, self.secrets) = (engine, name, secrets)
    }
}

extension FleetSettings {
    public var logKey: [UInt8] { EngineKeys(fleet: name).log }

    /// Returns all commands that nodes use, in forms without effect, on an unused key.
    /// - Parameter isTheirs: returns whether the tested server is responsible for a key.
    public func checkedCommands(isCluster: Bool, where isTheirs: (_ key: [UInt8]) -> Bool) -> [CheckedCommand] {
        let keys = EngineKeys(fleet: name)
        func key(_ number: Int) -> [UInt8] {
            Array(keys.recordKeys(of: secrets.first.name(of: Array("check \(number)".utf8))).record.bytes)
        }
        // Each server of a Cluster has at least some hundred slots.
        let key = key((0..<4_096).first { isTheirs(key($0)) } ?? 0)
        func command(_ words: [String], _ rest: [[UInt8]] = [], named name: String? = nil) -> CheckedCommand {
            CheckedCommand(name: name ?? words[0], command: EngineCommand(words.map { Array($0.utf8) } + rest, key: key))
        }
        let options = ["NX", "GET", "PX", "1"].map { Array($0.utf8) }
        return [
            command(["PING"]), command(["TIME"]), command(["SET"], [key, []] + options), command(["GET"], [key]),
            command(["UNLINK"], [key]),
            command(["EXISTS"], [key]), command([CheckedCommand.expiry], [key]),
            command(["XINFO", "STREAM"], [key], named: "XINFO STREAM"),
            command(["XREAD", "COUNT", "1", "STREAMS"], [key, Array("0".utf8)]),
            // NOMKSTREAM: the command has no effect if the stream does not exist.
            command(["XADD"], [key] + ["NOMKSTREAM", "*", "k", "h"].map { Array($0.utf8) }),
            command(["XTRIM"], [key] + ["MAXLEN", "0"].map { Array($0.utf8) }), command(["WAIT", "0", "1"]),
        ] + (isCluster ? [command(["CLUSTER", "SLOTS"], named: "CLUSTER SLOTS"), command(["ASKING"])] : [])
    }
}

extension FleetSettings {
    public var admissionQuestion: EngineCommand {
        EngineCommand([Array("GET".utf8), EngineKeys(fleet: name).admission], key: logKey)
    }

    public func isOtherSecret(_ reply: EngineReply) -> Bool {
        guard let value = reply.text else { return false }
        return FleetAdmission.judge(value, at: EngineKeys(fleet: name).admission, by: secrets, serving: [:], fleetNow: 0) == .otherSecret
    }

    private static let keyName = Array("i".utf8)

    /// Key id that an entry names, not authenticated. nil if the entry has none (older version) or several.
    static func keyID(_ fields: [LogField]) -> [UInt8]? {
        let ids = fields.filter { $0.name == keyName }
        return ids.count == 1 ? ids[0].value : nil
    }

    func seal(_ entry: LogEntry) -> [LogField] {
        let fields = entry.fields + [(Self.keyName, secrets.first.id)]
        let context = logKey + LogEntry.associatedData(of: fields)
        return LogEntry.adding(sealedArgument: secrets.first.seal(entry.message.argument, at: context), to: fields)
    }

    func open(_ fields: [LogField]) -> LogEntry? {
        var entry = LogEntry(fields: fields)
        let context = logKey + LogEntry.associatedData(of: fields)
        for secret in secrets.all {
            guard let argument = secret.open(entry.message.argument, at: context[...]) else { continue }
            entry.message.argument = argument
            return entry
        }
        return nil
    }
}

public struct CheckedCommand: Sendable {
    public let name: String
    public let command: EngineCommand
    /// Name of the only command that nodes can do without. Users of the engine that were made for earlier versions lack this right.
    public static let expiry = "PTTL"
}

/// Keys of a record and of its lease, in one Cluster slot.
struct RecordKeys: Equatable {
    let lease: EngineKey
    fileprivate static let leaseEnd = Array(":l".utf8)

    var record: EngineKey { EngineKey(lease.bytes.dropLast(Self.leaseEnd.count), beside: lease) }
}

struct EngineKeys: Sendable {
    private let prefix: [UInt8]

    init(fleet: String) { prefix = Array("cistern:\(fleet):{".utf8) }

    /// - Parameter name: `FleetSecret.name(of:)`. Braces keep a record and its lease in one slot.
    func recordKeys(of name: [UInt8]) -> RecordKeys {
        var key: [UInt8] = []
        key.reserveCapacity(prefix.count + 2 * name.count + 1 + RecordKeys.leaseEnd.count)
        key += prefix
        name.withUnsafeBytes { name in
            for start in stride(from: 0, to: name.count, by: 4) {
                let word = UInt32(bigEndian: name.loadUnaligned(fromByteOffset: start, as: UInt32.self))
                withUnsafeBytes(of: HexDigits.of(word)) { key.append(contentsOf: $0) }
            }
        }
        key.append(UInt8(ascii: "}"))
        key += RecordKeys.leaseEnd
        return RecordKeys(lease: EngineKey(key))
    }

    var log: [UInt8] { prefix + Array("log}".utf8) }
    var epoch: [UInt8] { log + Array(":epoch".utf8) }
    var admission: [UInt8] { log + Array(":nodes".utf8) }
}
