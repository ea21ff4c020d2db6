// Commands in the RESP 2 protocol.

public struct EngineCommand: Sendable, Equatable {
    let bytes: [UInt8]
    /// Slot of the command's key; nil for any server.
    let slot: Int?
    /// Milliseconds for which the engine may delay the reply (XREAD BLOCK, WAIT). It delays all later commands on the connection.
    let holdMilliseconds: Int64

    /// - Parameters:
    ///   - arguments: the command's name, then its arguments.
    ///   - key: selects the server; nil for any server.
    public init(_ arguments: [[UInt8]], key: [UInt8]? = nil, holdMilliseconds: Int64 = 0) {
        // A letter, a number of up to 20 digits, and two line ends each.
        var bytes: [UInt8] = []
        bytes.reserveCapacity(arguments.reduce(24) { $0 + $1.count + 26 })
        bytes.appendLine("*", arguments.count)
        for argument in arguments { bytes.append(word: argument[...]) }
        self.bytes = bytes
        slot = key.map { KeySlot.of($0) }
        self.holdMilliseconds = holdMilliseconds
    }

    public init(_ words: String..., keyAt: Int? = nil, holdMilliseconds: Int64 = 0) {
        let arguments = words.map { Array($0.utf8) }
        self.init(arguments, key: keyAt.map { arguments[$0] }, holdMilliseconds: holdMilliseconds)
    }
}

public struct EngineKey: Sendable, Equatable {
    public let bytes: ArraySlice<UInt8>
    let slot: Int

    public init(_ bytes: [UInt8]) { (self.bytes, slot) = (bytes[...], KeySlot.of(bytes)) }

    /// - Parameter other: a key with an equal hash tag.
    public init(_ bytes: ArraySlice<UInt8>, beside other: EngineKey) { (self.bytes, slot) = (bytes, other.slot) }
}

public struct EngineWords: Sendable {
    let bytes: [UInt8]
    let count: Int

    public init(_ words: [[UInt8]]) {
        bytes = words.reduce(into: []) { $0.append(word: $1[...]) }
        count = words.count
    }

    public init(_ words: String...) { self.init(words.map { Array($0.utf8) }) }

    public static let none = EngineWords([])
}

public struct EngineCommands: Sendable {
    struct Entry: Sendable {
        let end: Int
        let slot: Int?
        let holdMilliseconds: Int64
    }

    private(set) var bytes: [UInt8] = []
    private(set) var entries: [Entry] = []
    private(set) var areHeld = false

    public init(room: Int = 0) {
        bytes.reserveCapacity(room)
        entries.reserveCapacity(2)
    }

    public init(_ commands: [EngineCommand]) {
        bytes.reserveCapacity(commands.reduce(0) { $0 + $1.bytes.count })
        for command in commands {
            bytes += command.bytes
            entries.append(Entry(end: bytes.count, slot: command.slot, holdMilliseconds: command.holdMilliseconds))
            if command.holdMilliseconds > 0 { areHeld = true }
        }
    }

    public var count: Int { entries.count }

    func bytes(of index: Int) -> ArraySlice<UInt8> { bytes[(index == 0 ? 0 : entries[index - 1].end)..<entries[index].end] }

    /// - Parameter words: the name, and the arguments before the key.
    public mutating func add(_ words: EngineWords, _ key: EngineKey, _ rest: EngineWords = .none) {
        bytes.appendLine("*", words.count + 1 + rest.count)
        bytes += words.bytes
        bytes.append(word: key.bytes)
        bytes += rest.bytes
        entries.append(Entry(end: bytes.count, slot: key.slot, holdMilliseconds: 0))
    }

    public mutating func add(
        _ words: EngineWords, _ key: EngineKey, valueBytes: Int, _ append: (inout [UInt8]) -> Void, _ rest: EngineWords
    ) {
        bytes.appendLine("*", words.count + 2 + rest.count)
        bytes += words.bytes
        bytes.append(word: key.bytes)
        bytes.appendLine("$", valueBytes)
        let start = bytes.count
        append(&bytes)
        precondition(bytes.count == start + valueBytes, "a value does not have the announced length")
        bytes.appendLineEnd()
        bytes += rest.bytes
        entries.append(Entry(end: bytes.count, slot: key.slot, holdMilliseconds: 0))
    }
}

extension [UInt8] {
    fileprivate mutating func appendLine(_ letter: Unicode.Scalar, _ number: Int) {
        append(UInt8(ascii: letter))
        guard number >= 10 else {
            append(UInt8(ascii: "0") + UInt8(number))
            return appendLineEnd()
        }
        var divisor = 1
        while number / divisor >= 10 { divisor *= 10 }
        while divisor > 0 {
            append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
            divisor /= 10
        }
        appendLineEnd()
    }

    fileprivate mutating func appendLineEnd() {
        append(0x0d)
        append(0x0a)
    }

    fileprivate mutating func append(word: ArraySlice<UInt8>) {
        appendLine("$", word.count)
        append(contentsOf: word)
        appendLineEnd()
    }
}
