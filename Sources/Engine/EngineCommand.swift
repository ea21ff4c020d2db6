// One command, and how it is written (RESP 2).

public struct EngineCommand: Sendable, Equatable {
    /// The command's name first.
    public var arguments: [[UInt8]]
    /// Whose slot says which server of a Cluster is asked; nil: any.
    public var key: [UInt8]?
    /// For how long the engine may keep its reply back, as with XREAD BLOCK and WAIT: so long it is not taken for silent. What comes behind it on the
    /// connection waits too, so who asks for that has a client of its own.
    public var holdMilliseconds: Int64

    public init(_ arguments: [[UInt8]], key: [UInt8]? = nil, holdMilliseconds: Int64 = 0) {
        (self.arguments, self.key, self.holdMilliseconds) = (arguments, key, holdMilliseconds)
    }

    /// - Parameter keyAt: which of the words is the key.
    public init(_ words: String..., keyAt: Int? = nil, holdMilliseconds: Int64 = 0) {
        arguments = words.map { Array($0.utf8) }
        key = keyAt.map { [arguments] in arguments[$0] }
        self.holdMilliseconds = holdMilliseconds
    }

    /// How many bytes it takes at most.
    var writtenBytes: Int { arguments.reduce(16) { $0 + $1.count + 16 } }

    func write(to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "*"))
        Self.write(arguments.count, to: &bytes)
        for argument in arguments {
            bytes.append(UInt8(ascii: "$"))
            Self.write(argument.count, to: &bytes)
            bytes.append(contentsOf: argument)
            bytes.append(0x0D)
            bytes.append(0x0A)
        }
    }

    private static func write(_ number: Int, to bytes: inout [UInt8]) {
        var divisor = 1
        while number / divisor >= 10 { divisor *= 10 }
        while divisor > 0 {
            bytes.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
            divisor /= 10
        }
        bytes.append(0x0D)
        bytes.append(0x0A)
    }
}
