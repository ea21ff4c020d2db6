// Entries of the log, and their fields in the stream. An argument is sealed there. The machines get it opened, and read only a fence's. An
// entry that is not understood counts as the widest possible.

/// Which stored responses no longer count.
public struct LogMessage: Hashable, Sendable {
    /// Raw values are those of the stream.
    public enum Kind: String, Sendable, CaseIterable {
        /// A target URI. The argument is its key.
        case target = "t"
        /// A collection of targets. The argument is its key.
        case collection = "c"
        /// A group of `Cache-Groups`. The argument is its key.
        case group = "g"
        case entry = "e"
        /// All responses that a text selects: a prefix, a tag, an API.
        case selection = "s"
        case all = "a"
        /// Lower ids may be missing or out of order: see `Fence`.
        case fence = "f"
        /// Shows how far the node's sequence has come.
        case hello = "h"
        /// Of a newer version, or damaged: counts as `all`, soft.
        case unknown = "?"
        /// Several of the first four, of one write or purge. The argument lists their keys (`marks`).
        case marks = "m"
    }

    public var kind: Kind
    public var argument: [UInt8]
    /// Responses become stale, and are kept.
    public var isSoft: Bool

    public init(_ kind: Kind, argument: [UInt8] = [], isSoft: Bool = false) {
        (self.kind, self.argument, self.isSoft) = (kind, argument, isSoft)
    }

    /// Replaces messages beyond a limit.
    public static let everythingStale = LogMessage(.all, isSoft: true)
}

extension LogMessage {
    /// Each key is preceded by its length, in eight bytes.
    public init(marks keys: [[UInt8]], isSoft: Bool = false) {
        self.init(.marks, argument: keys.flatMap { UInt64($0.count).bigEndianBytes + $0 }, isSoft: isSoft)
    }

    /// nil if the argument is damaged.
    public var marks: [[UInt8]]? {
        var keys: [[UInt8]] = []
        var rest = argument[...]
        while !rest.isEmpty {
            guard let count = rest.takeNumber(), let key = rest.take(Int(clamping: count)) else { return nil }
            keys.append(Array(key))
        }
        return keys
    }
}

/// Sender, and number of the entry. Equal when the entry is sent again.
public struct LogOrigin: Hashable, Sendable {
    public var node: UInt64
    /// From 1, without holes.
    public var sequence: UInt64

    public init(node: UInt64, sequence: UInt64) { (self.node, self.sequence) = (node, sequence) }

    /// Maximum: one above it can always be added.
    static let lastSequence = UInt64(Int64.max)
}

public struct LogEntry: Hashable, Sendable {
    public var message: LogMessage
    /// A fence has none: it is not sent again.
    public var origin: LogOrigin?

    public init(_ message: LogMessage, origin: LogOrigin?) { (self.message, self.origin) = (message, origin) }

    /// Replaces an entry with an invalid seal. Its origin is not trusted: it could hide a true entry of that number.
    public static let unopened = LogEntry(LogMessage(.unknown, isSoft: true), origin: nil)

    /// Replaces an entry by a key that no node of the fleet has: no effect. Its origin is not read, so it fills no hole.
    public static let foreign = LogEntry(LogMessage(.hello), origin: nil)
}

public struct PositionedEntry: Hashable, Sendable {
    public var position: LogPosition
    public var entry: LogEntry

    public init(_ position: LogPosition, _ entry: LogEntry) { (self.position, self.entry) = (position, entry) }
}

public typealias LogField = (name: [UInt8], value: [UInt8])

extension LogEntry {
    public var fields: [LogField] {
        var fields: [LogField] = [(Self.name("k"), Array(message.kind.rawValue.utf8))]
        if message.isSoft { fields.append((Self.name("f"), Array("1".utf8))) }
        if let origin {
            let digits = String(origin.node, radix: 16)
            fields.append((Self.name("n"), Array((String(repeating: "0", count: 16 - digits.utf8.count) + digits).utf8)))
            fields.append((Self.name("s"), Array(String(origin.sequence).utf8)))
        }
        return fields
    }

    public static func adding(sealedArgument: [UInt8], to fields: [LogField]) -> [LogField] { fields + [(name("v"), sealedArgument)] }

    /// What the argument's seal authenticates: all other fields in their order, including those of newer versions.
    public static func associatedData(of fields: [LogField]) -> [UInt8] {
        fields.filter { $0.name != name("v") }.flatMap {
            UInt64($0.name.count).bigEndianBytes + $0.name + UInt64($0.value.count).bigEndianBytes + $0.value
        }
    }

    /// The argument is still sealed. Unknown fields are ignored. A repeated or invalid field, or an unknown kind, makes the entry unknown.
    public init(fields: [LogField]) {
        func values(_ name: String) -> [[UInt8]] { fields.filter { $0.name == Self.name(name) }.map(\.value) }
        let (kinds, soft, arguments) = (values("k"), values("f"), values("v"))
        let origin = Self.origin(nodes: values("n"), sequences: values("s"))
        let kind = kinds.count == 1 ? LogMessage.Kind(rawValue: String(decoding: kinds[0], as: UTF8.self)) ?? .unknown : .unknown
        let isWell = arguments.count <= 1 && (soft.isEmpty || soft == [Array("1".utf8)]) && (origin != nil || kind == .fence)
        guard isWell, kind != .unknown else {
            self.init(LogMessage(.unknown, argument: arguments.first ?? [], isSoft: true), origin: origin)
            return
        }
        self.init(LogMessage(kind, argument: arguments.first ?? [], isSoft: !soft.isEmpty), origin: origin)
    }

    private static func origin(nodes: [[UInt8]], sequences: [[UInt8]]) -> LogOrigin? {
        guard nodes.count == 1, sequences.count == 1, let node = hexadecimalNumber(nodes[0]), let sequence = decimalNumber(sequences[0]),
            (1...LogOrigin.lastSequence).contains(sequence)
        else { return nil }
        return LogOrigin(node: node, sequence: sequence)
    }

    private static func name(_ letter: String) -> [UInt8] { Array(letter.utf8) }
}

private func hexadecimalNumber(_ text: [UInt8]) -> UInt64? {
    guard text.count == 16, text.allSatisfy({ !(0x41...0x5A).contains($0) && $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "-") })
    else { return nil }
    return UInt64(String(decoding: text, as: UTF8.self), radix: 16)
}

/// After a change of primary, ids may begin again below those of the former one. A fence is an entry with an id above all of these. It is
/// appended first, and names the ids in doubt, and up to where lost entries were read.
public struct Fence: Hashable, Sendable {
    /// Id of the entry. A refusal means that the log is already there.
    public var position: LogPosition
    /// Positions between this one and the fence may be of lost entries: records with such a position are refused.
    public var doubtedAfter: LogPosition
    /// A node has read lost entries up to here; nil: no loss is known.
    public var lostUpTo: LogPosition?

    public init(at position: LogPosition, doubtedAfter: LogPosition, lostUpTo: LogPosition? = nil) {
        (self.position, self.doubtedAfter, self.lostUpTo) = (position, doubtedAfter, lostUpTo)
    }

    /// Appended at `position`. Versions that know one position doubt all below.
    public var entry: LogEntry {
        let text = doubtedAfter.text + (lostUpTo.map { " " + $0.text } ?? "")
        return LogEntry(LogMessage(.fence, argument: Array(text.utf8)), origin: nil)
    }

    /// - Returns: nil: no fence. A damaged fence doubts all below.
    init?(_ positioned: PositionedEntry) {
        guard positioned.entry.message.kind == .fence else { return nil }
        let texts = positioned.entry.message.argument.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        let positions = texts.compactMap { LogPosition(text: $0) }
        guard positions.count == texts.count, (1...2).contains(positions.count) else {
            self.init(at: positioned.position, doubtedAfter: .beginning)
            return
        }
        self.init(at: positioned.position, doubtedAfter: positions[0], lostUpTo: positions.dropFirst().first)
    }
}
