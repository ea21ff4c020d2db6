// One connection to the upstream, made by libcurl, on which HTTP/1.1 is spoken: one request at a time, and no byte of an answer is taken for
// another's (RFC 9112 §9). Reading gives the transfer lines and content, in the order in which they come; it decides what they mean.

import CSystem
import Glibc
import HTTPCore
import Reactor

final class OriginConnection: EventHandler, TransferCarrier {
    private enum Reading {
        case idle, head, chunked, untilEnd
        /// So many bytes are left.
        case length(Int)
    }

    /// Milliseconds of the loop's clock.
    var idleSince: Int64 = 0

    private let descriptor: Int32
    private let connections: OriginConnections
    private let times: TransferTimes
    private var transfer: Transfer?
    private var reading = Reading.idle
    /// An answer has come whole on it.
    private var wasUsed = false
    private var isOpen = true

    /// Read, and not yet taken: a line that is not whole, or content that the transfer would not take.
    private var held: [UInt8] = []
    /// The transfer takes nothing now: nothing more is read.
    private var isPaused = false
    /// False where the peer has gone while nothing is read: the kernel would say so again and again.
    private var isWatched = true

    private var output: [UInt8] = []
    private var sent = 0
    /// The transfer has more of the request's content, or will have.
    private var isUploading = false
    /// The peer takes no more. It may have answered all the same.
    private var cannotSend = false

    /// Content is taken from the transfer in pieces of this size.
    private static let pieceBytes = 16 * 1024

    init(_ descriptor: Int32, _ times: TransferTimes, _ connections: OriginConnections) {
        self.descriptor = descriptor
        self.times = times
        self.connections = connections
        connections.loop.add(descriptor, .readable, self)
    }

    var hasResolved: Bool { true }

    /// Whether it stands, and the peer has said nothing since its last answer.
    var isQuiet: Bool { csystem_is_quiet(descriptor) != 0 }

    /// Sends a request. Nothing is told to the transfer from within this call, but that it begins.
    func begin(_ transfer: Transfer) {
        self.transfer = transfer
        transfer.carrier = self
        reading = .head
        var begun = TransferTimes()
        (begun.resolved, begun.connected, begun.secured) = wasUsed ? (0, 0, 0) : (times.resolved, times.connected, times.secured)
        // Only what may be repeated comes here again.
        _ = transfer.requestBegins(begun)
        output = connections.writer.write(transfer.request)
        isUploading = transfer.request.hasContent
        goOnSending()
    }

    func goOn(_ transfer: Transfer) {
        guard self.transfer === transfer else { return }
        if isUploading { goOnSending() }
        if isPaused { connections.loop.atEndOfBatch { [self] in goOnReading(transfer) } }
    }

    func abandon(_ transfer: Transfer) {
        guard self.transfer === transfer else { return }
        letGo(transfer)
        close()
    }

    private func letGo(_ transfer: Transfer) {
        self.transfer = nil
        connections.releaseShares(of: transfer)
    }

    func close() {
        guard isOpen else { return }
        isOpen = false
        if isWatched { connections.loop.remove(descriptor) }
        closeDescriptor(descriptor)
        connections.isGone(self)
    }

    func ready(_ events: ReadyEvents) {
        if events.isWritable { goOnSending() }
        if isPaused {
            guard events.isBroken else { return }
            connections.loop.remove(descriptor)
            isWatched = false
        } else if events.isReadable || events.isBroken {
            read()
        }
    }

    // MARK: Sending

    private func goOnSending() {
        while !cannotSend {
            guard sent < output.count else {
                output = []
                sent = 0
                guard isUploading, let transfer, takeContent(transfer) else { break }
                continue
            }
            let count = output.withUnsafeBytes { csystem_send(descriptor, $0.baseAddress! + sent, $0.count - sent) }
            if count >= 0 {
                sent += count
                transfer?.noteProgress()
            } else if errno == EAGAIN {
                break
            } else if errno != EINTR {
                cannotSend = true
            }
        }
        if cannotSend { output = [] }
        watch()
    }

    /// Takes a piece of the request's content, in chunks where its length is not known (RFC 9112 §7.1).
    /// - Returns: false where there is nothing to send now.
    private func takeContent(_ transfer: Transfer) -> Bool {
        let isChunked = transfer.request.content == .chunked
        return withUnsafeTemporaryAllocation(byteCount: Self.pieceBytes, alignment: 1) { space in
            guard let count = transfer.readContent(into: space) else { return false }
            isUploading = count > 0
            if isChunked { output.append(chunkSize: count) }
            output.append(contentsOf: space[..<count])
            if isChunked { output.append("\r\n") }
            return !output.isEmpty
        }
    }

    private func watch() {
        guard isOpen, isWatched else { return }
        var events: ReadyEvents = isPaused ? [] : .readable
        if !output.isEmpty { events.insert(.writable) }
        connections.loop.modify(descriptor, events)
    }

    // MARK: Reading

    private func read() {
        let buffer = connections.readBuffer
        let count = csystem_receive(descriptor, buffer.baseAddress!, buffer.count)
        if count > 0 {
            take(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        } else if count == 0 || (errno != EAGAIN && errno != EINTR) {
            peerEnded(isClean: count == 0)
        }
    }

    /// After a pause: what was held, and then what comes.
    private func goOnReading(_ transfer: Transfer) {
        guard self.transfer === transfer, isPaused else { return }
        isPaused = false
        let bytes = held
        held = []
        bytes.withUnsafeBytes { take($0) }
        guard isOpen, !isPaused else { return }
        if isWatched { return watch() }
        isWatched = true
        connections.loop.add(descriptor, output.isEmpty ? .readable : [.readable, .writable], self)
    }

    private func take(_ bytes: UnsafeRawBufferPointer) {
        guard let transfer else { return close() }
        guard !held.isEmpty else { return take(bytes, transfer) }
        held.append(contentsOf: bytes)
        // The line that is held has no end yet.
        guard lineLength(bytes) != nil else { return checkLine(transfer) }
        let whole = held
        held = []
        whole.withUnsafeBytes { take($0, transfer) }
    }

    private func take(_ bytes: UnsafeRawBufferPointer, _ transfer: Transfer) {
        var position = 0
        while self.transfer === transfer {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[position...])
            if case .head = reading {
                guard let line = lineLength(rest) else {
                    held = Array(rest)
                    return checkLine(transfer)
                }
                position += line
                takeLine(UnsafeRawBufferPointer(rebasing: rest[..<line]), transfer, isLast: position == bytes.count)
            } else {
                guard !rest.isEmpty else { return }
                position += takeContent(rest, transfer)
                if isPaused {
                    held = Array(bytes[position...])
                    return watch()
                }
            }
        }
    }

    private func lineLength(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard let start = bytes.baseAddress, let end = memchr(start, 0x0a, bytes.count) else { return nil }
        return UnsafeRawPointer(end) - start + 1
    }

    private func checkLine(_ transfer: Transfer) {
        let begun = held
        if !begun.isEmpty, !transfer.headLineBegins(begun.span) { fail(.protocolError) }
    }

    /// - Parameter isLast: nothing came after it so far.
    private func takeLine(_ line: UnsafeRawBufferPointer, _ transfer: Transfer, isLast: Bool) {
        guard transfer.headLine(Span(_unsafeBytes: line)) else { return fail(.connectionTerminated) }
        switch transfer.framing {
        case nil: break
        case .byProtocol: complete(hasSurplus: !isLast)
        case .length(0): complete(hasSurplus: !isLast)
        case .length(let count): reading = .length(count)
        case .chunked: reading = .chunked
        case .connectionEnd: reading = .untilEnd
        }
    }

    /// - Returns: bytes that were taken.
    private func takeContent(_ bytes: UnsafeRawBufferPointer, _ transfer: Transfer) -> Int {
        var count = bytes.count
        if case .length(let left) = reading { count = min(count, left) }
        let content = UnsafeRawBufferPointer(rebasing: bytes[..<count])
        switch transfer.content(Span(_unsafeBytes: content)) {
        case .taken: break
        case .held:
            isPaused = true
            return 0
        case .refused:
            fail(.connectionTerminated)
            return 0
        }
        guard self.transfer === transfer else { return count }
        switch reading {
        case .length(let left) where left == count: complete(hasSurplus: count < bytes.count)
        case .length(let left): reading = .length(left - count)
        case .chunked where transfer.hasLastChunk: complete(hasSurplus: false)
        case .idle, .head, .chunked, .untilEnd: break
        }
        return count
    }

    // MARK: Ends

    private func peerEnded(isClean: Bool) {
        guard let transfer else { return close() }
        switch reading {
        case .untilEnd where isClean: complete(hasSurplus: false)
        case .head where !transfer.gotBytes && held.isEmpty:
            // It ended before our request came to it, or because of it: only where the connection was kept the first is likely.
            guard wasUsed, transfer.mayRepeat else { return fail(.connectionTerminated) }
            letGo(transfer)
            close()
            connections.startAgain(transfer)
        case .idle, .head, .length, .chunked, .untilEnd: fail(.responseIncomplete)
        }
    }

    /// The answer is whole.
    /// - Parameter hasSurplus: bytes came after its end.
    private func complete(hasSurplus: Bool) {
        guard let transfer else { return }
        if hasSurplus, transfer.isPersistent, case .length = transfer.framing { return fail(.protocolError) }
        letGo(transfer)
        reading = .idle
        if transfer.isPersistent, !hasSurplus, !isUploading, output.isEmpty, !cannotSend {
            wasUsed = true
            connections.isFree(self)
        } else {
            close()
        }
        connections.client.end(transfer)
    }

    private func fail(_ error: UpstreamError) {
        guard let transfer else { return }
        letGo(transfer)
        close()
        connections.client.end(transfer, error)
    }
}
