// One connection to the upstream on which HTTP/1.1 is spoken, in clear or through TLS: one request at a time, and no byte of a response is
// taken for another's (RFC 9112 §9). Reading gives the transfer lines and content, in the order in which they come; it decides what they mean.

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
    /// How often it was used since it had a rest.
    var usesInARow = 0
    /// What the upstream said of how long it keeps the connection, in milliseconds; nil where it said nothing.
    private(set) var keepAlive: Int64?

    private let stream: ByteStream
    private let connections: OriginConnections
    private let times: TransferTimes
    private var transfer: Transfer?
    private var reading = Reading.idle
    /// A response has come whole on it.
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
    /// What of the request's head the kernel has not taken.
    private var unsentHead = 0
    /// What had been written before this request.
    private var writtenBefore = 0
    /// The transfer has more of the request's content, or will have.
    private var isUploading = false
    /// The peer takes no more. It may have responded all the same.
    private var cannotSend = false
    /// What TLS waits for before it goes on in the other direction.
    private var readWaitsForWrite = false
    private var writeWaitsForRead = false

    /// Content is taken from the transfer in pieces of this size.
    private static let pieceBytes = 16 * 1024
    /// What is read at one event, in bytes and in records of TLS: the others on the loop have their turn then.
    private static let bytesPerEvent = 64 * 1024
    /// The same of what is sent: about a millisecond where the peer is on this machine.
    private static let sentBytesPerEvent = 1 << 20
    private static let recordsPerEvent = 64

    init(_ stream: ByteStream, _ times: TransferTimes, _ connections: OriginConnections) {
        self.stream = stream
        self.times = times
        self.connections = connections
        connections.loop.add(stream.descriptor, .readable, self)
    }

    var hasResolved: Bool { true }

    /// Whether it stands, and the peer has said nothing since its last response.
    var isQuiet: Bool { stream.isQuiet }

    /// Sends the first request. Who speaks before was asked nothing.
    func beginFirst(_ transfer: Transfer) {
        prepare(transfer)
        read()
        goOnSending()
    }

    /// Sends another request, where the connection was found quiet. The transfer hears nothing from within this call, but that it begins.
    func begin(_ transfer: Transfer) {
        prepare(transfer)
        goOnSending()
    }

    private func prepare(_ transfer: Transfer) {
        self.transfer = transfer
        transfer.carrier = self
        reading = .head
        var begun = TransferTimes()
        (begun.resolved, begun.connected, begun.secured) = wasUsed ? (0, 0, 0) : (times.resolved, times.connected, times.secured)
        transfer.beginRequest(begun)
        output = connections.writer.write(transfer.request)
        unsentHead = output.count
        writtenBefore = stream.written
        isUploading = transfer.request.hasContent
    }

    func goOn(_ transfer: Transfer) {
        guard self.transfer === transfer else { return }
        if isUploading { goOnSending() }
        if isPaused { connections.loop.atEndOfBatch { [self] in goOnReading(transfer) } }
    }

    func abandon(_ transfer: Transfer) {
        guard self.transfer === transfer else { return }
        letGo(transfer)
        close(.givenUp)
    }

    private func letGo(_ transfer: Transfer) {
        self.transfer = nil
        connections.releaseShares(of: transfer)
    }

    /// Its response has been held back for too long, and others wait.
    func giveUp() { fail(.givenUp, .connectionLimitReached) }

    func close(_ cause: ConnectionEnd) {
        guard isOpen else { return }
        isOpen = false
        if isWatched { connections.loop.remove(stream.descriptor) }
        stream.close()
        connections.remove(self, cause)
    }

    func ready(_ events: ReadyEvents) {
        if events.isWritable {
            if readWaitsForWrite {
                readWaitsForWrite = false
                read()
            }
            goOnSending()
        }
        guard isOpen else { return }
        if isPaused {
            guard events.isBroken else { return }
            connections.loop.remove(stream.descriptor)
            isWatched = false
        } else if events.isReadable || events.isBroken {
            read()
            if writeWaitsForRead { goOnSending() }
        }
    }

    // MARK: Sending

    private func goOnSending() {
        guard isOpen else { return }
        writeWaitsForRead = false
        var left = Self.sentBytesPerEvent
        sending: while !cannotSend {
            guard sent < output.count else {
                output = []
                sent = 0
                guard isUploading, let transfer, takeContent(transfer) else { break }
                continue
            }
            // The rest goes out when the socket says once more that it takes it.
            guard left > 0 else { break sending }
            switch output.withUnsafeBytes({ stream.send(UnsafeRawBufferPointer(rebasing: $0[sent...])) }) {
            case .bytes(let count):
                sent += count
                left -= count
                unsentHead = max(0, unsentHead - count)
                transfer?.noteProgress()
            case .wantsWrite: break sending
            case .wantsRead:
                writeWaitsForRead = true
                break sending
            case .broken: cannotSend = true
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
        var events: ReadyEvents = isPaused || readWaitsForWrite ? [] : .readable
        if (!output.isEmpty && !writeWaitsForRead) || readWaitsForWrite { events.insert(.writable) }
        connections.loop.modify(stream.descriptor, events)
    }

    // MARK: Reading

    /// Reads what is there, within bounds. TLS may hold bytes that the kernel no longer tells of: it is read until it has none.
    private func read() {
        let reader = transfer
        let buffer = connections.readBuffer
        var count = 0
        for _ in 0..<Self.recordsPerEvent where count < Self.bytesPerEvent {
            switch stream.receive(into: buffer) {
            case .bytes(let more):
                count += more
                take(UnsafeRawBufferPointer(rebasing: buffer[..<more]))
            case .nothing: return
            case .wantsWrite:
                readWaitsForWrite = true
                return watch()
            case .ended(let isClean): return endByPeer(isClean: isClean)
            }
            // What may still be held after a response's end is looked at before the connection is used again.
            guard stream.mayHoldBytes, isOpen, !isPaused, reader != nil, transfer === reader else { return }
        }
        connections.loop.inNextRound { [weak self] in
            guard let self, isOpen, !isPaused else { return }
            read()
        }
    }

    /// After a pause: what was held, and then what comes.
    private func goOnReading(_ transfer: Transfer) {
        guard self.transfer === transfer, isPaused else { return }
        isPaused = false
        connections.noteGoesOn(self)
        let bytes = held
        held = []
        bytes.withUnsafeBytes { take($0) }
        guard isOpen, !isPaused else { return }
        if isWatched {
            watch()
        } else {
            isWatched = true
            connections.loop.add(stream.descriptor, output.isEmpty ? .readable : [.readable, .writable], self)
        }
        if stream.mayHoldBytes, self.transfer === transfer { read() }
    }

    private func take(_ bytes: UnsafeRawBufferPointer) {
        guard let transfer else { return close(.surplus) }
        // Nothing has asked for these: they were on their way before the request was (RFC 9112 §9.2), or before any of it arrived. Whoever
        // responds has told of its arrival with the same packet, if not before (RFC 9293 §3.8).
        guard unsentHead == 0, transfer.gotBytes || !held.isEmpty || stream.arrived > writtenBefore else {
            return endWithoutResponse(.earlyBytes, .protocolError)
        }
        guard !held.isEmpty else { return take(bytes, transfer) }
        held.append(contentsOf: bytes)
        // The line that is held has no end yet.
        guard bytes.contains(0x0a) else { return checkLine(transfer) }
        let whole = held
        held = []
        whole.withUnsafeBytes { take($0, transfer) }
    }

    private func take(_ bytes: UnsafeRawBufferPointer, _ transfer: Transfer) {
        var position = 0
        while self.transfer === transfer {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[position...])
            if case .head = reading {
                guard let count = transfer.takeHead(Span(_unsafeBytes: rest)) else { return fail(.error, .connectionTerminated) }
                guard count > 0 else {
                    held = Array(rest)
                    return checkLine(transfer)
                }
                position += count
                beginContent(transfer, isLast: position == bytes.count)
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

    private func checkLine(_ transfer: Transfer) {
        let begun = held
        if !begun.isEmpty, !transfer.headLineBegins(begun.span) { fail(.error, .protocolError) }
    }

    /// As the head says, if it is whole.
    /// - Parameter isLast: nothing came after it so far.
    private func beginContent(_ transfer: Transfer, isLast: Bool) {
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
            connections.noteHeldBack(self)
            return 0
        case .refused:
            fail(transfer.hasLastChunk ? .surplus : .error, .connectionTerminated)
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

    private func endByPeer(isClean: Bool) {
        guard let transfer else { return close(isClean ? .closedByPeer : .error) }
        switch reading {
        case .untilEnd where isClean: complete(hasSurplus: false)
        case .head where !transfer.gotBytes && held.isEmpty: endWithoutResponse(isClean ? .closedByPeer : .error, .connectionTerminated)
        case .idle, .head, .length, .chunked, .untilEnd: fail(.error, .responseIncomplete)
        }
    }

    /// No byte of a response to this request has come, or none that can be used: whether it is sent again is decided here, and nowhere else.
    private func endWithoutResponse(_ cause: ConnectionEnd, _ error: UpstreamError) {
        guard let transfer else { return }
        let isUnwritten = stream.written == writtenBefore
        guard connections.client.mayRepeat(transfer, onKept: wasUsed, isUnwritten: isUnwritten) else { return fail(cause, error) }
        letGo(transfer)
        close(cause)
        connections.startAgain(transfer)
    }

    /// The response is whole.
    /// - Parameter hasSurplus: bytes came after its end.
    private func complete(hasSurplus: Bool) {
        guard let transfer else { return }
        if hasSurplus, transfer.isPersistent, case .length = transfer.framing { return fail(.surplus, .protocolError) }
        letGo(transfer)
        reading = .idle
        if hasSurplus {
            close(.surplus)
        } else if transfer.isPersistent, !isUploading, output.isEmpty, !cannotSend {
            wasUsed = true
            keepAlive = transfer.keepAlive
            connections.keep(self)
        } else {
            close(transfer.isPersistent ? .error : .closedByPeer)
        }
        connections.client.end(transfer)
    }

    private func fail(_ cause: ConnectionEnd, _ error: UpstreamError) {
        guard let transfer else { return }
        letGo(transfer)
        close(cause)
        connections.client.end(transfer, error)
    }
}
