// Entries of the log, and their fields in the stream. Arguments are sealed in the stream; the state machines get them decrypted, and
// interpret only that of a fence. An entry that cannot be interpreted has the widest possible effect.

/// Names the stored responses that an entry makes invalid.
public struct LogMessage: Hashable, Sendable {
    /// Raw values are those of the stream.
    public enum Kind: String, Sendable, CaseIterable {
        /// One target URI. The argument is its key.
        case target = "t"
        /// A collection of targets. The argument is its key.
        case collection = "c"
        /// A group of `Cache-Groups`. The argument is its key.
        case group = "g"
        case entry = "e"
        /// All responses that a prefix, a tag or an API selects. The argument is that text.
        case selection = "s"
        case all = "a"
        /// Lower ids may be missing or out of order: see `Fence`.
        case fence = "f"
        /// A greeting: shows the last sequence number of the node.
        case hello = "h"
        /// An entry of a newer version, or a damaged one: counts as `all`, soft.
        case unknown = "?"
        /// Several marks of the first four kinds, from one write or purge. The argument lists their keys (`marks`).
        case marks = "m"
        /// A write that may have changed the users of tokens. The argument lists their hashes. In the stream, it is a greeting with another
        /// field (`fields`), because older versions treat an unknown kind as `all`.
        case identities = "u"
    }

    public var kind: Kind
    public var argument: [UInt8]
    /// True if responses become stale and are kept; false if they are removed. For identities: true if the upstream may still process the
    /// write.
    public var isSoft: Bool

    public init(_ kind: Kind, argument: [UInt8] = [], isSoft: Bool = false) {
        (self.kind, self.argument, self.isSoft) = (kind, argument, isSoft)
    }

    /// Replaces messages beyond a limit: makes all stored responses stale, and covers all tokens.
    public static let everythingStale = LogMessage(.all, argument: coversWrites, isSoft: true)

    /// Argument of `all` if it replaces writes. Purges have none, and leave tokens alone.
    public static let coversWrites = [UInt8(ascii: "w")]
}

extension LogMessage {
    /// Encodes the keys, each preceded by its length in eight bytes.
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

/// Sender and sequence number of an entry. Both are unchanged when the entry is sent again.
public struct LogOrigin: Hashable, Sendable {
    public var node: UInt64
    /// Sequence number: from 1, without gaps.
    public var sequence: UInt64

    public init(node: UInt64, sequence: UInt64) { (self.node, self.sequence) = (node, sequence) }

    /// Maximum sequence number; adding one to it never overflows.
    static let lastSequence = UInt64(Int64.max)
}

public struct LogEntry: Hashable, Sendable {
    public var message: LogMessage
    /// nil for a fence, which is never sent again.
    public var origin: LogOrigin?

    public init(_ message: LogMessage, origin: LogOrigin?) { (self.message, self.origin) = (message, origin) }

    /// Replaces an entry with an invalid seal. Its origin is not trusted, because it could hide the true entry of that number.
    public static let unopened = LogEntry(LogMessage(.unknown, isSoft: true), origin: nil)

    /// Replaces an entry with a key of no node of the fleet; it has no effect. Its origin is not used, so it fills no gap in a sequence.
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
        let isOfIdentities = message.kind == .identities
        let kind = isOfIdentities ? LogMessage.Kind.hello : message.kind
        var fields: [LogField] = [(Self.name("k"), Array(kind.rawValue.utf8))]
        if isOfIdentities { fields.append((Self.name("u"), Self.isSet)) }
        if message.isSoft { fields.append((Self.name("f"), Self.isSet)) }
        if let origin {
            let digits = String(origin.node, radix: 16)
            fields.append((Self.name("n"), Array((String(repeating: "0", count: 16 - digits.utf8.count) + digits).utf8)))
            fields.append((Self.name("s"), Array(String(origin.sequence).utf8)))
        }
        return fields
    }

    public static func adding(sealedArgument: [UInt8], to fields: [LogField]) -> [LogField] { fields + [(name("v"), sealedArgument)] }

    /// Returns what the argument's seal authenticates: all other fields in order, including those of newer versions.
    public static func associatedData(of fields: [LogField]) -> [UInt8] {
        fields.filter { $0.name != name("v") }.flatMap {
            UInt64($0.name.count).bigEndianBytes + $0.name + UInt64($0.value.count).bigEndianBytes + $0.value
        }
    }

    /// Parses an entry with a sealed argument. Unknown fields are ignored. A repeated or invalid field, or an unknown kind, makes the
    /// entry `unknown`.
    public init(fields: [LogField]) {
        func values(_ name: String) -> [[UInt8]] { fields.filter { $0.name == Self.name(name) }.map(\.value) }
        let (kinds, soft, arguments) = (values("k"), values("f"), values("v"))
        let origin = Self.origin(nodes: values("n"), sequences: values("s"))
        var kind = kinds.count == 1 ? LogMessage.Kind(rawValue: String(decoding: kinds[0], as: UTF8.self)) ?? .unknown : .unknown
        let identities = values("u")
        if kind == .hello, !identities.isEmpty { kind = identities == [Self.isSet] ? .identities : .unknown }
        let isWell = arguments.count <= 1 && (soft.isEmpty || soft == [Self.isSet]) && (origin != nil || kind == .fence)
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
    /// Value of the fields `f` and `u`.
    private static let isSet = [UInt8(ascii: "1")]
}

private func hexadecimalNumber(_ text: [UInt8]) -> UInt64? {
    guard text.count == 16, text.allSatisfy({ !(0x41...0x5A).contains($0) && $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "-") })
    else { return nil }
    return UInt64(String(decoding: text, as: UTF8.self), radix: 16)
}

/// An entry with an id above all ids of the former primary, since a new primary may assign lower ids again. It is appended first. It names
/// the range of ids in doubt, and the position up to which lost entries were read.
public struct Fence: Hashable, Sendable {
    /// Id of the entry. If the engine refuses it, the log already contains higher ids.
    public var position: LogPosition
    /// Positions between this one and the fence may belong to lost entries; records with such a position are refused.
    public var doubtedAfter: LogPosition
    /// Position up to which a node has read lost entries; nil if no loss is known.
    public var lostUpTo: LogPosition?

    public init(at position: LogPosition, doubtedAfter: LogPosition, lostUpTo: LogPosition? = nil) {
        (self.position, self.doubtedAfter, self.lostUpTo) = (position, doubtedAfter, lostUpTo)
    }

    /// Entry to append at `position`. Versions that know only one position doubt everything below it.
    public var entry: LogEntry {
        let text = doubtedAfter.text + (lostUpTo.map { " " + $0.text } ?? "")
        return LogEntry(LogMessage(.fence, argument: Array(text.utf8)), origin: nil)
    }

    /// - Returns: nil if the entry is not a fence. A damaged fence doubts everything below it.
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
