// Pending messages, as they lie in a file.

import Fleet

enum PendingContent {
    /// In the second byte. Files of earlier versions may have another bit there, for messages of one purge, and other content behind the messages.
    private static let (softBit, writeBit): (UInt8, UInt8) = (1, 4)
    /// A kind, bits, and the length of the argument.
    private static let headBytes = 10
    /// More is neither written nor read.
    static let limitBytes = 64 << 20

    /// - Parameter limit: messages for which there is no room become one message that covers them.
    static func bytes(_ messages: [PendingMessage], limit: Int = limitBytes) -> [UInt8] {
        var bytes: [UInt8] = []
        for (index, message) in messages.enumerated() {
            guard bytes.count + 2 * headBytes + message.message.argument.count <= limit else {
                let isSoft = messages[index...].allSatisfy { $0.message.isSoft || $0.isWrite }
                return bytes + Self.bytes(PendingMessage(message: LogMessage(.all, isSoft: isSoft)))
            }
            bytes += Self.bytes(message)
        }
        return bytes
    }

    private static func bytes(_ pending: PendingMessage) -> [UInt8] {
        let message = pending.message
        let kind = LogMessage.Kind.allCases.firstIndex(of: message.kind) ?? 0
        let bits = (message.isSoft ? softBit : 0) | (pending.isWrite ? writeBit : 0)
        let count = withUnsafeBytes(of: UInt64(message.argument.count).littleEndian) { Array($0) }
        return [UInt8(kind), bits] + count + message.argument
    }

    static func messages(_ bytes: [UInt8]) -> [PendingMessage] {
        var messages: [PendingMessage] = []
        var rest = bytes[...]
        while rest.count >= headBytes, let kind = rest.first, kind < LogMessage.Kind.allCases.count {
            let (bits, head) = (rest[rest.startIndex + 1], rest.prefix(headBytes).suffix(8))
            let count = head.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            guard count <= UInt64(rest.count - headBytes) else { break }
            let argument = Array(rest.dropFirst(headBytes).prefix(Int(count)))
            let message = LogMessage(LogMessage.Kind.allCases[Int(kind)], argument: argument, isSoft: bits & softBit != 0)
            messages.append(PendingMessage(message: message, isWrite: bits & writeBit != 0))
            rest = rest.dropFirst(headBytes + Int(count))
        }
        return messages
    }
}
