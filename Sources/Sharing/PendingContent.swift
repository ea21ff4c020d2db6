// What is pending, as it lies in a file: the messages, and behind them where some of them lie in the log. Who does not know of places reads the messages.

import Fleet

enum PendingContent {
    /// In the second byte. Those beside the first are of messages that stand together with the one before them, which are never soft, and of writes.
    private static let (softBit, goesOnBit, writeBit): (UInt8, UInt8, UInt8) = (1, 2, 4)
    /// In the place of a message's kind. It ends the messages, also for who does not know it.
    private static let placesKind: UInt8 = 0xFF
    /// More is neither written nor read.
    static let limitBytes = 64 << 20

    /// - Parameter limit: what there is no room for becomes one message that means all of it.
    static func bytes(_ purges: [[PendingMessage]], limit: Int = limitBytes) -> [UInt8] {
        var (bytes, kept): ([UInt8], [PendingMessage]) = ([], [])
        let room = limit - 2 * headBytes
        for (index, purge) in purges.enumerated() {
            let more = purge.reduce(0) { $0 + headBytes + placeBytes + ($1.place?.primary.count ?? 0) + $1.message.argument.count }
            guard bytes.count + kept.count * placeBytes + more <= room else {
                let rest = purges[index...].joined()
                bytes += Self.bytes(PendingMessage(message: LogMessage(.all, isSoft: rest.allSatisfy { $0.message.isSoft || $0.isWrite })))
                break
            }
            for (number, message) in purge.enumerated() { bytes += Self.bytes(message, goesOn: number > 0) }
            kept += purge
        }
        return bytes + places(kept)
    }

    /// - Parameter goesOn: it belongs to the same purge as the one before it.
    private static func bytes(_ pending: PendingMessage, goesOn: Bool = false) -> [UInt8] {
        let message = pending.message
        let kind = LogMessage.Kind.allCases.firstIndex(of: message.kind) ?? 0
        let bits = (message.isSoft ? softBit : 0) | (goesOn ? goesOnBit : 0) | (pending.isWrite ? writeBit : 0)
        return [UInt8(kind), bits] + number(UInt64(message.argument.count)) + message.argument
    }

    static func purges(_ bytes: [UInt8]) -> [[PendingMessage]] {
        var messages: [(message: PendingMessage, goesOn: Bool)] = []
        var rest = ByteReader(bytes[...])
        while let kind = rest.take(1)?.first, let bits = rest.take(1)?.first, let content = rest.takeCounted() {
            if kind == placesKind { placeAll(&messages, content) }
            guard kind < LogMessage.Kind.allCases.count else { break }
            let message = LogMessage(LogMessage.Kind.allCases[Int(kind)], argument: Array(content), isSoft: bits & softBit != 0)
            messages.append((PendingMessage(message: message, isWrite: bits & writeBit != 0), bits & goesOnBit != 0))
        }
        var purges: [[PendingMessage]] = []
        for (message, goesOn) in messages {
            if goesOn, !purges.isEmpty { purges[purges.count - 1].append(message) } else { purges.append([message]) }
        }
        return purges
    }

    // MARK: Places

    /// A kind, bits, and the length of what follows; the same, an epoch and three numbers.
    private static let (headBytes, placeBytes) = (10, 48)

    /// For each log: its epoch, its primary, how many lie there, and of each of these which message it is and where.
    private static func places(_ messages: [PendingMessage]) -> [UInt8] {
        var logs: [LogPlace: [UInt8]] = [:]
        for (index, message) in messages.enumerated() {
            guard let place = message.place else { continue }
            let log = LogPlace(epoch: place.epoch, primary: place.primary, position: .beginning)
            logs[log, default: []] += number(UInt64(index)) + number(place.position.milliseconds) + number(place.position.sequence)
        }
        guard !logs.isEmpty else { return [] }
        let content = logs.flatMap { log, places in
            number(log.epoch) + number(UInt64(log.primary.count)) + log.primary + number(UInt64(places.count)) + places
        }
        return [placesKind, 0] + number(UInt64(content.count)) + content
    }

    private static func placeAll(_ messages: inout [(message: PendingMessage, goesOn: Bool)], _ content: ArraySlice<UInt8>) {
        var logs = ByteReader(content)
        while let epoch = logs.takeNumber(), let primary = logs.takeCounted(), let places = logs.takeCounted() {
            var places = ByteReader(places)
            while let index = places.takeNumber(), let milliseconds = places.takeNumber(), let sequence = places.takeNumber() {
                guard index < UInt64(messages.count) else { break }
                let position = LogPosition(milliseconds, sequence)
                messages[Int(index)].message.place = LogPlace(epoch: epoch, primary: Array(primary), position: position)
            }
        }
    }

    private static func number(_ number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.littleEndian) { Array($0) } }
}

/// From the front to the end of some bytes.
private struct ByteReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    /// nil where there are not so many.
    mutating func take(_ count: Int) -> ArraySlice<UInt8>? {
        guard count <= rest.count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    mutating func takeNumber() -> UInt64? { take(8).map { $0.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) } } }

    /// Behind their number.
    mutating func takeCounted() -> ArraySlice<UInt8>? { takeNumber().flatMap { Int(exactly: $0) }.flatMap { take($0) } }
}
