// What the operator says of sharing.

import Engine
import HTTPCore
import ResponseCache

public struct FleetSettings: Sendable {
    public var engine: EngineSettings
    /// Part of every key in the engine: fleets of other names know nothing of each other.
    public var name: String
    public var secrets: FleetSecrets
    /// Milliseconds after which a record goes, whatever it says of itself.
    public var keep: Int64 = 7 * 86_400_000
    /// Milliseconds; nil: without the log too, a copy counts as fresh for as long as it says itself.
    public var blindLimit: Int64? = 30_000
    /// Milliseconds that a client waits for the engine before the upstream is asked beside it, and the response to a write for the log.
    public var timeout: Int64 = 10
    public var afterGap = FleetSight.AfterGap.stale
    /// Whether one node asks the upstream for all that want the same.
    public var collapses = true
    /// The longest content that is shared, bytes: sealing it holds the loop.
    public var contentLimitBytes = 1 << 20

    public init(engine: EngineSettings, name: String, secrets: FleetSecrets) {
        (self.engine, self.name, self.secrets) = (engine, name, secrets)
    }
}

extension FleetSettings {
    /// Where the log lies.
    public var logKey: [UInt8] { EngineKeys(fleet: name).log }

    /// All that nodes ask of the engine, in forms that change nothing, on a key that nobody uses: for seeing what they may.
    /// - Parameters:
    ///   - isCluster: what is asked of a Cluster's servers only is among them.
    ///   - isTheirs: whether the server that will be asked has a key.
    public func checkedCommands(isCluster: Bool, where isTheirs: (_ key: [UInt8]) -> Bool) -> [CheckedCommand] {
        let keys = EngineKeys(fleet: name)
        func key(_ number: Int) -> [UInt8] { Array(keys.place(of: secrets.first.name(of: Array("check \(number)".utf8))).record.bytes) }
        // Of 16,384 slots each server has some hundred.
        let key = key((0..<4_096).first { isTheirs(key($0)) } ?? 0)
        func command(_ words: [String], _ rest: [[UInt8]] = [], named name: String? = nil) -> CheckedCommand {
            CheckedCommand(name: name ?? words[0], command: EngineCommand(words.map { Array($0.utf8) } + rest, key: key))
        }
        let options = ["NX", "GET", "PX", "1"].map { Array($0.utf8) }
        return [
            command(["PING"]), command(["TIME"]), command(["SET"], [key, []] + options), command(["GET"], [key]),
            command(["UNLINK"], [key]),
            command(["EXISTS"], [key]), command(["XINFO", "STREAM"], [key], named: "XINFO STREAM"),
            command(["XREAD", "COUNT", "1", "STREAMS"], [key, Array("0".utf8)]),
            // On a stream that is not there it does nothing.
            command(["XADD"], [key] + ["NOMKSTREAM", "*", "k", "h"].map { Array($0.utf8) }),
            command(["XTRIM"], [key] + ["MAXLEN", "0"].map { Array($0.utf8) }), command(["WAIT", "0", "1"]),
        ] + (isCluster ? [command(["CLUSTER", "SLOTS"], named: "CLUSTER SLOTS"), command(["ASKING"])] : [])
    }
}

public struct CheckedCommand: Sendable {
    public let name: String
    public let command: EngineCommand
}

/// The engine's keys of a record and of the lease for it. They are in one slot.
struct RecordPlace: Equatable {
    let lease: EngineKey
    /// The lease's is longer by this end.
    fileprivate static let leaseEnd = Array(":l".utf8)

    var record: EngineKey { EngineKey(lease.bytes.dropLast(Self.leaseEnd.count), beside: lease) }
}

/// The keys of a fleet in the engine.
struct EngineKeys: Sendable {
    private let prefix: [UInt8]

    init(fleet: String) { prefix = Array("cistern:\(fleet):{".utf8) }

    /// - Parameter name: by `FleetSecret.name(of:)`, in hexadecimal digits. In braces, so that what stands beside a record lies where that does.
    func place(of name: [UInt8]) -> RecordPlace {
        var key: [UInt8] = []
        key.reserveCapacity(prefix.count + 2 * name.count + 1 + RecordPlace.leaseEnd.count)
        key += prefix
        name.withUnsafeBytes { name in
            for start in stride(from: 0, to: name.count, by: 4) {
                let word = UInt32(bigEndian: name.loadUnaligned(fromByteOffset: start, as: UInt32.self))
                withUnsafeBytes(of: HexDigits.of(word)) { key.append(contentsOf: $0) }
            }
        }
        key.append(UInt8(ascii: "}"))
        key += RecordPlace.leaseEnd
        return RecordPlace(lease: EngineKey(key))
    }

    var log: [UInt8] { prefix + Array("log}".utf8) }
    var epoch: [UInt8] { log + Array(":epoch".utf8) }
    /// `FleetAdmission`.
    var admission: [UInt8] { log + Array(":nodes".utf8) }
}
