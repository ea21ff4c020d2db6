// What nodes say to each other, and how it lies in the stream. An argument is sealed there; the machines get it opened, and never look into
// it but at a fence's. Whatever comes is read: what is not understood is an unknown entry, which counts as the widest thing it may be.

/// What is said: which stored responses count no longer.
public struct LogMessage: Hashable, Sendable {
    public enum Kind: Hashable, Sendable, CaseIterable {
        /// A target URI. The argument is its key.
        case target
        /// A collection of targets. The argument is its key.
        case collection
        /// A group of the `Cache-Groups` of responses. The argument is its key.
        case group
        /// One stored key, with what selects it.
        case entry
        /// All that a text selects: a prefix, a tag, an API.
        case selection
        /// Everything. No argument.
        case all
        /// Ids below this one's may be wanting or out of order: see `Fence`.
        case fence
        /// Says only how far the node's sequence has come, so that what was lost shows.
        case hello
        /// Of a newer version, or damaged: counts as `all`, soft.
        case unknown
        /// Several of the first four: what one write or one purge changes. The argument lists their keys (`marks`).
        case marks
    }

    public var kind: Kind
    /// Open here; sealed in the stream.
    public var argument: [UInt8]
    /// What it names is stale, rather than gone.
    public var isSoft: Bool

    public init(_ kind: Kind, argument: [UInt8] = [], isSoft: Bool = false) {
        (self.kind, self.argument, self.isSoft) = (kind, argument, isSoft)
    }

    /// What follows where too much was to say: all that is stored counts as stale.
    public static let everythingStale = LogMessage(.all, isSoft: true)
}

extension LogMessage {
    /// One message for several keys. Each key is preceded by its length, in eight bytes.
    public init(marks keys: [[UInt8]], isSoft: Bool = false) {
        self.init(.marks, argument: keys.flatMap { Fleet.bytes(of: UInt64($0.count)) + $0 }, isSoft: isSoft)
    }

    /// The keys that `init(marks:)` was given; nil if the argument is damaged.
    public var marks: [[UInt8]]? {
        var keys: [[UInt8]] = []
        var rest = argument[...]
        while !rest.isEmpty {
            guard let count = number(of: rest.prefix(8)).flatMap(Int.init(exactly:)), count <= rest.count - 8 else { return nil }
            keys.append(Array(rest.dropFirst(8).prefix(count)))
            rest = rest.dropFirst(8 + count)
        }
        return keys
    }
}

/// Who says it, and which of the sender's entries it is. It stays the same when the entry is sent again.
public struct LogOrigin: Hashable, Sendable {
    /// Random for each process.
    public var node: UInt64
    /// From 1, without holes.
    public var sequence: UInt64

    public init(node: UInt64, sequence: UInt64) { (self.node, self.sequence) = (node, sequence) }

    /// Nobody comes so far: one above it can always be added.
    static let lastSequence = UInt64(Int64.max)
}

/// A message with its sender.
public struct LogEntry: Hashable, Sendable {
    public var message: LogMessage
    /// A fence has none: it is not sent again, and the engine may refuse it.
    public var origin: LogOrigin?

    public init(_ message: LogMessage, origin: LogOrigin?) { (self.message, self.origin) = (message, origin) }

    /// What counts where the seal does not open: nobody of the fleet has made the entry, or with a secret that this node does not have.
    /// Who it is from is not believed either: it would make a true entry of that number look like one that was seen.
    public static let unopened = LogEntry(LogMessage(.unknown, isSoft: true), origin: nil)

    /// What counts where an entry names a key that no node of the fleet has: nothing. Its origin is not read, so it fills no hole: where it is an
    /// altered entry of the fleet, the next one of its sender shows that one is missing.
    public static let foreign = LogEntry(LogMessage(.hello), origin: nil)
}

/// An entry and its place.
public struct PlacedEntry: Hashable, Sendable {
    public var position: LogPosition
    public var entry: LogEntry

    public init(_ position: LogPosition, _ entry: LogEntry) { (self.position, self.entry) = (position, entry) }
}

// MARK: - In the stream

extension LogMessage.Kind {
    /// The value of the field `k`. One letter each: a log may hold millions.
    var letter: UInt8 {
        switch self {
        case .target: UInt8(ascii: "t")
        case .collection: UInt8(ascii: "c")
        case .group: UInt8(ascii: "g")
        case .entry: UInt8(ascii: "e")
        case .selection: UInt8(ascii: "s")
        case .all: UInt8(ascii: "a")
        case .fence: UInt8(ascii: "f")
        case .hello: UInt8(ascii: "h")
        case .unknown: UInt8(ascii: "?")
        case .marks: UInt8(ascii: "m")
        }
    }

    init(_ value: [UInt8]?) {
        self = Self.allCases.first { $0 != .unknown && value == [$0.letter] } ?? .unknown
    }
}

/// A field of an entry of a stream.
public typealias LogField = (name: [UInt8], value: [UInt8])

extension LogEntry {
    /// Names and values in the order in which they are appended, but for the argument, which is added by `sealed`.
    public var fields: [LogField] {
        var fields: [LogField] = [(Self.name("k"), [message.kind.letter])]
        if message.isSoft { fields.append((Self.name("f"), Array("1".utf8))) }
        if let origin {
            let digits = String(origin.node, radix: 16)
            fields.append((Self.name("n"), Array((String(repeating: "0", count: 16 - digits.utf8.count) + digits).utf8)))
            fields.append((Self.name("s"), Array(String(origin.sequence).utf8)))
        }
        return fields
    }

    /// The fields with the argument's seal as the last.
    public static func adding(sealedArgument: [UInt8], to fields: [LogField]) -> [LogField] { fields + [(name("v"), sealedArgument)] }

    /// What the seal of the argument vouches for beside it, so that nobody can make another entry of it: all other fields, as they lie there,
    /// those of newer versions too. An entry without argument is sealed like any other: who it is from must be true.
    public static func associatedData(of fields: [LogField]) -> [UInt8] {
        fields.filter { $0.name != name("v") }.flatMap {
            bytes(of: UInt64($0.name.count)) + $0.name + bytes(of: UInt64($0.value.count)) + $0.value
        }
    }

    /// The argument is as it lies in the stream: still sealed. Fields of newer versions are looked past. A field that is there twice, or
    /// says what it cannot, makes the entry unknown, and so does a kind that this version does not have.
    public init(fields: [LogField]) {
        func values(_ name: String) -> [[UInt8]] { fields.filter { $0.name == Self.name(name) }.map(\.value) }
        let (kinds, soft, arguments) = (values("k"), values("f"), values("v"))
        let origin = Self.origin(nodes: values("n"), sequences: values("s"))
        let kind = LogMessage.Kind(kinds.count == 1 ? kinds[0] : nil)
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

/// Exactly sixteen digits.
private func hexadecimalNumber(_ text: [UInt8]) -> UInt64? {
    guard text.count == 16, text.allSatisfy({ !(0x41...0x5A).contains($0) && $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "-") })
    else { return nil }
    return UInt64(String(decoding: text, as: UTF8.self), radix: 16)
}

/// Eight bytes, the greatest first.
func bytes(of number: UInt64) -> [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * UInt64($0))) } }

/// - Returns: nil unless these are exactly eight bytes.
func number(of bytes: some Collection<UInt8>) -> UInt64? {
    bytes.count == 8 ? bytes.reduce(0) { $0 << 8 | UInt64($1) } : nil
}
