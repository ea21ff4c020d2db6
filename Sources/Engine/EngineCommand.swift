// One command, as it is sent (RESP 2).

public struct EngineCommand: Sendable, Equatable {
    /// As it goes out.
    let bytes: [UInt8]
    /// Which server of a Cluster is asked; nil: any.
    let slot: Int?
    /// For how long the engine may keep its reply back, as with XREAD BLOCK and WAIT: so long it is not taken for silent. What comes behind it on the
    /// connection waits too, so who asks for that has a client of its own.
    let holdMilliseconds: Int64

    /// - Parameters:
    ///   - arguments: the command's name first.
    ///   - key: whose slot says which server is asked; nil: any.
    public init(_ arguments: [[UInt8]], key: [UInt8]? = nil, holdMilliseconds: Int64 = 0) {
        bytes = Self.written(arguments)
        slot = key.map { KeySlot.of($0) }
        self.holdMilliseconds = holdMilliseconds
    }

    /// - Parameter keyAt: which of the words is the key.
    public init(_ words: String..., keyAt: Int? = nil, holdMilliseconds: Int64 = 0) {
        let arguments = words.map { Array($0.utf8) }
        self.init(arguments, key: keyAt.map { arguments[$0] }, holdMilliseconds: holdMilliseconds)
    }

    private static func written(_ arguments: [[UInt8]]) -> [UInt8] {
        // A letter, a number of up to 20 digits, and two line ends with each.
        let room = arguments.reduce(24) { $0 + $1.count + 26 }
        return [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
            func put(_ byte: UInt8) {
                buffer[count] = byte
                count += 1
            }
            func putLine(_ letter: Unicode.Scalar, _ number: Int) {
                put(UInt8(ascii: letter))
                var divisor = 1
                while number / divisor >= 10 { divisor *= 10 }
                while divisor > 0 {
                    put(UInt8(ascii: "0") + UInt8(number / divisor % 10))
                    divisor /= 10
                }
                put(0x0d)
                put(0x0a)
            }
            putLine("*", arguments.count)
            for argument in arguments {
                putLine("$", argument.count)
                _ = UnsafeMutableBufferPointer(rebasing: buffer[count...]).update(fromContentsOf: argument)
                count += argument.count
                put(0x0d)
                put(0x0a)
            }
        }
    }
}
