// Purges that were answered as pending, in order, and writes that a process could not append before it ended.

import Fleet

struct PendingMessage: Hashable {
    var message: LogMessage
    var isWrite = false
}

/// Stores pending purges. Thousands may exist for days, so storing or dropping one does not touch the others.
struct PendingPurges {
    private var kept: [LogWriter.Token: PendingMessage] = [:]
    private var writeCount = 0

    mutating func keep(_ message: PendingMessage, _ token: LogWriter.Token) {
        guard kept.updateValue(message, forKey: token) == nil, message.isWrite else { return }
        writeCount += 1
    }

    mutating func drop(_ tokens: Set<LogWriter.Token>) {
        for token in tokens where kept.removeValue(forKey: token)?.isWrite == true { writeCount -= 1 }
    }

    var messages: Set<LogMessage> { Set(kept.values.lazy.map(\.message)) }

    /// Purges in the order of their requests: tokens ascend.
    var all: [PendingMessage] { kept.sorted { $0.key < $1.key }.map(\.value) }

    /// Returns the number of pending purges by cause, without writes.
    /// - Parameter unreached: purges that are not in the log. All others wait for a replica.
    func counts(unreached: [LogWriter.Token: LogWriter.Pending]) -> [LogWriter.Pending: Int] {
        var counts: [LogWriter.Pending: Int] = [:]
        for (token, cause) in unreached where kept[token]?.isWrite == false { counts[cause, default: 0] += 1 }
        let others = kept.count - writeCount - counts.values.reduce(0, +)
        if others > 0 { counts[.notReplicated] = others }
        return counts
    }
}

enum PendingContent {
    /// Bits in the second byte. Earlier versions used other bits, and appended other content.
    private static let (softBit, writeBit): (UInt8, UInt8) = (1, 4)
    /// Length of a kind, the bits, and the length of the argument.
    private static let headBytes = 10
    /// Maximum file size; longer files are neither written nor read.
    static let limitBytes = 64 << 20

    /// - Parameter limit: maximum size in bytes. If the messages exceed it, one message replaces the rest.
    static func bytes(_ messages: [PendingMessage], limit: Int = limitBytes) -> [UInt8] {
        var bytes: [UInt8] = []
        for (index, message) in messages.enumerated() {
            guard bytes.count + 2 * headBytes + message.message.argument.count + LogMessage.coversWrites.count <= limit else {
                let rest = messages[index...]
                let (isSoft, coversWrites) = (rest.allSatisfy { $0.message.isSoft || $0.isWrite }, rest.contains(where: \.isWrite))
                let argument = coversWrites ? LogMessage.coversWrites : []
                return bytes + Self.bytes(PendingMessage(message: LogMessage(.all, argument: argument, isSoft: isSoft)))
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
        while let kind = rest.popFirst(), kind < LogMessage.Kind.allCases.count, let bits = rest.popFirst(),
            let count = rest.takeLittleEndianNumber(), let argument = rest.take(Int(clamping: count))
        {
            let message = LogMessage(LogMessage.Kind.allCases[Int(kind)], argument: Array(argument), isSoft: bits & softBit != 0)
            messages.append(PendingMessage(message: message, isWrite: bits & writeBit != 0))
        }
        return messages
    }
}
