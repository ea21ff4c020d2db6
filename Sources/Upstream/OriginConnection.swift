// An HTTP/1.1 connection to the upstream, with or without TLS: one request at a time. Bytes of one response are never attributed to
// another one (RFC 9112 §9). `ResponseReader` parses responses; `RequestOutput` holds the output.

import HTTPCore
import Reactor

final class OriginConnection: EventHandler {
    private enum State {
        case idle
        /// Selected for a request that is sent at the end of the batch of events.
        case chosen(Transfer)
        case busy(Transfer)
        case closed
    }

    /// Milliseconds of the loop's clock.
    var idleSince: Int64 = 0
    /// Milliseconds for which the connection was idle before its current request.
    var idleBefore: Int64 = 0
    /// Whether the connection has been counted as open after its current idle time.
    var hasOutlasted = false
    /// The remote address if addresses of the upstream's name are tracked; nil otherwise.
    var peer: NamedAddress?
    /// The client's connection that this connection belongs to; nil if it belongs to the pool.
    var owner: OwnedConnection?
    /// Whether the upstream may associate a user with the connection, so that it must not carry requests of other clients.
    private var isSignedIn = false
    /// Number of uses since the connection last paused.
    var usesInARow = 0

    private let stream: ByteStream
    private let connections: OriginConnections
    private let times: TransferTimes
    private var state = State.idle
    /// Reader of the current or last response.
    private var reader: ResponseReader
    private var output = RequestOutput()
    /// Whether a complete response was received on the connection.
    private var wasUsed = false
    /// Number of bytes written before this request.
    private var writtenBefore = 0
    /// Bytes read while the transfer is paused, after which reading stops; nil while the transfer is not paused.
    private var held: [UInt8]?
    /// False after the peer closed the connection while reading is paused, because the kernel would report that repeatedly.
    private var isWatched = true
    /// Whether content is sent at the end of the batch of events.
    private var isSendQueued = false
    /// True if TLS must write before it can continue reading, or read before it can continue writing.
    private var readWaitsForWrite = false
    private var writeWaitsForRead = false

    /// Maximum bytes and TLS records read per event, so that other connections of the loop are served.
    private static let bytesPerEvent = 64 * 1024
    private static let recordsPerEvent = 64
    /// Maximum bytes sent per event: about a millisecond if the peer is on this machine.
    private static let sentBytesPerEvent = 1 << 20
    /// Maximum length of request content that the peer's kernel accepts even if the peer does not read.
    private static let acceptedBytes = 32 * 1024
    /// Length in bytes below which chunks of a response that arrive together are passed on in one piece.
    private static let smallChunkBytes = 1024

    init(_ stream: ByteStream, _ times: TransferTimes, _ connections: OriginConnections) {
        self.stream = stream
        self.times = times
        self.connections = connections
        reader = ResponseReader(to: .get, limits: connections.limits.head)
        connections.loop.add(stream.descriptor, .readable, self)
    }

    /// Idle time in milliseconds within which the upstream keeps the connection by its Keep-Alive field, with a margin of a second; nil if
    /// the field is missing.
    var promisedIdleTime: Int64? { reader.keepAlive.map { max(0, $0 - 1000) } }

    var home: OriginConnections { connections }

    private var isOpen: Bool { if case .closed = state { false } else { true } }

    private func carries(_ transfer: Transfer) -> Bool { if case .busy(let current) = state { current === transfer } else { false } }

    private func isChosen(for transfer: Transfer) -> Bool { if case .chosen(let current) = state { current === transfer } else { false } }

    // MARK: Requests

    /// Sends the first request on the connection. Bytes received before it do not belong to a request.
    func beginFirst(_ transfer: Transfer) {
        prepare(transfer)
        read()
        resumeSending()
    }

    /// Selects the connection for a request. All requests of this batch of events are sent together, so that a sleeping peer is woken only
    /// once.
    func choose(for transfer: Transfer) {
        state = .chosen(transfer)
        transfer.carrier = .connection(self)
        // The request has a connection and no longer waits.
        transfer.note(.connectionBegan)
        connections.chosen.append(self)
        guard connections.chosen.count == 1 else { return }
        connections.loop.atEndOfBatch { [connections] in
            // Connections selected meanwhile are sent next. Both arrays keep their memory.
            swap(&connections.chosen, &connections.sending)
            for connection in connections.sending { connection.sendChosen() }
            connections.sending.removeAll(keepingCapacity: true)
        }
    }

    /// Sends the selected request if the connection is open and no unexpected bytes have arrived since the last response. During this call
    /// the transfer receives only `sendingBegan`.
    private func sendChosen() {
        guard case .chosen(let transfer) = state else { return }
        guard stream.isQuiet else { return startElsewhere(transfer, .surplus) }
        prepare(transfer)
        resumeSending()
    }

    /// Moves a request of which nothing was sent to another connection.
    private func startElsewhere(_ transfer: Transfer, _ cause: ConnectionEnd) {
        release(transfer)
        close(cause)
        connections.startAgain(transfer)
    }

    private func prepare(_ transfer: Transfer) {
        state = .busy(transfer)
        transfer.carrier = .connection(self)
        transfer.spoken = .http1
        if transfer.signsIn { isSignedIn = true }
        if let owned = transfer.request.owned {
            owner = owned
            owned.use(self)
        }
        reader = ResponseReader(
            to: transfer.request.method, mayUpgrade: transfer.request.content == .tunnel, limits: connections.limits.head)
        var begun = TransferTimes()
        (begun.resolved, begun.connected, begun.secured) = wasUsed ? (0, 0, 0) : (times.resolved, times.connected, times.secured)
        transfer.beginRequest(begun)
        // The kernel also counts the time in which the peer does not read, which a peer may do during a long upload.
        stream.acknowledgementLimit = (transfer.request.boundedLength ?? .max) <= Self.acceptedBytes ? connections.acknowledgementLimit : 0
        output.begin(hasContent: transfer.request.hasContent) { connections.writer.write(transfer.request, to: &$0) }
        writtenBefore = stream.written
    }

    /// Continues after more of the request's content, or its end, has become available.
    /// - Parameter atOnce: false to send at the end of the batch of events, so that its small pieces need one system call.
    func sendMore(for transfer: Transfer, atOnce: Bool) {
        guard carries(transfer) else { return }
        if atOnce { return resumeSending() }
        guard !isSendQueued else { return }
        isSendQueued = true
        connections.loop.atEndOfBatch { [self] in
            isSendQueued = false
            resumeSending()
        }
    }

    /// Whether the whole request of the current transfer was sent.
    var hasSentRequest: Bool { if case .busy = state { output.isAllSent } else { false } }

    func abandon(_ transfer: Transfer) {
        guard carries(transfer) || isChosen(for: transfer) else { return }
        release(transfer)
        close(.givenUp)
    }

    private func release(_ transfer: Transfer) {
        state = .idle
        if held != nil { connections.noteResumed(transfer) }
        held = nil
        connections.releaseShares(of: transfer)
    }

    func close(_ cause: ConnectionEnd) {
        guard isOpen else { return }
        state = .closed
        if isWatched { connections.loop.remove(stream.descriptor) }
        stream.close()
        connections.remove(self, cause)
        owner?.lost(self)
        owner = nil
    }

    func ready(_ events: ReadyEvents) {
        if events.isWritable {
            if readWaitsForWrite {
                readWaitsForWrite = false
                read()
            }
            resumeSending()
        }
        guard isOpen else { return }
        if held != nil {
            guard events.isBroken else { return }
            connections.loop.remove(stream.descriptor)
            isWatched = false
        } else if events.isReadable || events.isBroken {
            read()
            if writeWaitsForRead { resumeSending() }
        }
    }

    private func watch() {
        guard isOpen, isWatched else { return }
        connections.loop.modify(stream.descriptor, interest)
    }

    private var interest: ReadyEvents {
        var events: ReadyEvents = held != nil || readWaitsForWrite ? [] : .readable
        if (!output.isEmpty && !writeWaitsForRead) || readWaitsForWrite { events.insert(.writable) }
        return events
    }

    // MARK: Sending

    private func resumeSending() {
        writeWaitsForRead = false
        guard case .busy(let transfer) = state else { return watch() }
        var left = Self.sentBytesPerEvent
        // The rest is sent when the socket is next reported as writable.
        sending: while fillOutput(from: transfer), left > 0 {
            switch output.bytes.withUnsafeBytes({ stream.send(UnsafeRawBufferPointer(rebasing: $0[output.sent...])) }) {
            case .bytes(let count):
                output.noteSent(count)
                left -= count
                transfer.note(.bytesSent)
            case .wantsWrite: break sending
            case .wantsRead:
                writeWaitsForRead = true
                break sending
            case .broken: output.breakOff()
            }
        }
        // The client has ended its side of the tunnel, so the sending side to the upstream is ended too.
        if reader.isTunnel, output.isAllSent { stream.endSending() }
        watch()
    }

    /// Takes the next piece of the content if all other output was sent.
    /// - Returns: whether there is output.
    private func fillOutput(from transfer: Transfer) -> Bool {
        if output.isEmpty, output.takesContent { output.takeContent { transfer.takeContent(into: &$0) } }
        return !output.isEmpty
    }

    // MARK: Reading

    /// Reads available bytes, within limits. TLS may have buffered bytes that the kernel does not report, so reading continues until TLS
    /// has none.
    private func read() {
        // Without TLS no bytes are buffered, and `before` is unused.
        let before = stream.mayHoldBytes ? state : .idle
        var count = 0
        for _ in 0..<Self.recordsPerEvent where count < Self.bytesPerEvent {
            let space = connections.readBuffer.space
            let received = stream.receive(into: space)
            if case .bytes(let count) = received { take(Span(_unsafeBytes: UnsafeRawBufferPointer(rebasing: space[..<count]))) }
            switch received {
            case .bytes(let more): count += more
            case .nothing: return
            case .wantsWrite:
                readWaitsForWrite = true
                return watch()
            case .ended(let isClean): return endByPeer(isClean: isClean)
            }
            // Bytes buffered after the end of a response are checked before the connection is used again.
            guard stream.mayHoldBytes, held == nil, case .busy(let transfer) = before, carries(transfer) else { return }
        }
        connections.loop.inNextRound { [weak self] in
            guard let self, isOpen, held == nil else { return }
            read()
        }
    }

    /// Continues after a pause: first held content, then new content.
    func readOn(for transfer: Transfer) {
        guard carries(transfer), let bytes = held else { return }
        held = nil
        connections.noteResumed(transfer)
        deliver(bytes.span, to: transfer)
        guard isOpen, held == nil else { return }
        if isWatched {
            watch()
        } else {
            isWatched = true
            connections.loop.add(stream.descriptor, interest, self)
        }
        if stream.mayHoldBytes, carries(transfer) { read() }
    }

    private func take(_ bytes: Span<UInt8>) {
        if case .chosen(let transfer) = state { return startElsewhere(transfer, .surplus) }
        guard case .busy(let transfer) = state else { return close(.surplus) }
        // These bytes belong to no response: they were sent before the request was (RFC 9112 §9.2), or before any of it arrived. A peer
        // that responds acknowledges the request with its first packet at the latest (RFC 9293 §3.8).
        guard output.isHeadSent, reader.hasBegun || stream.arrived > writtenBefore else {
            return endWithoutResponse(transfer, .earlyBytes, UpstreamError(ResponseProblem.inStart(bytes) ?? .earlyBytes))
        }
        deliver(bytes, to: transfer)
    }

    private func deliver(_ bytes: Span<UInt8>, to transfer: Transfer) {
        if reader.isInContent, !transfer.offerContent() { return hold(bytes, of: transfer) }
        var position = 0
        var small: [UInt8] = []
        repeat {
            let event = reader.next(bytes, &position)
            if case .content(let range) = event, range.count < Self.smallChunkBytes, position < bytes.count {
                small.append(copying: bytes.extracting(range))
                continue
            }
            if !small.isEmpty {
                transfer.receiver?.transfer(transfer, content: small.span)
                guard carries(transfer) else { return }
                small.removeAll(keepingCapacity: true)
            }
            switch consume event {
            case .needsMore: return
            case .headLines: transfer.noteHeadLines()
            case .informational(let head): transfer.take(informational: head)
            case .final(let head):
                if ConnectionAuthentication.challenge(in: head.fields) == .underWay { isSignedIn = true }
                guard connections.isMeant(head.status, to: transfer) else {
                    return fail(.error, UpstreamError(.protocolError, .unprovenHTTP1))
                }
                transfer.take(final: head)
            case .content(let range): transfer.receiver?.transfer(transfer, content: bytes.extracting(range))
            case .end(let hasSurplus): return complete(transfer, isDelimited: true, hasSurplus: hasSurplus)
            case .refused(.surplus): return fail(.surplus, UpstreamError(.surplus))
            case .refused(.chunks(let problem)): return fail(.error, UpstreamError(.protocolError, .chunks(problem)))
            case .refused(.head(let problem)): return fail(.error, UpstreamError(problem))
            }
        } while carries(transfer)
    }

    private func hold(_ bytes: Span<UInt8>, of transfer: Transfer) {
        var copy: [UInt8] = []
        copy.append(copying: bytes)
        held = copy
        connections.noteHeldBack(transfer)
        watch()
    }

    // MARK: Ends

    private func endByPeer(isClean: Bool) {
        if stream.hasTimedOut { connections.closeIdle() }
        guard case .busy(let transfer) = state else {
            if wasUsed, owner == nil { connections.noteIdleClose(self) }
            if case .chosen(let transfer) = state { return startElsewhere(transfer, isClean ? .closedByPeer : .error) }
            return close(isClean ? .closedByPeer : .error)
        }
        switch reader.atConnectionEnd(isClean: isClean) {
        case .whole: complete(transfer, isDelimited: false, hasSurplus: false)
        case .nothing:
            let error = isClean ? UpstreamError(.connectionTerminated, .noResponse) : stream.endError
            endWithoutResponse(transfer, isClean ? .closedByPeer : .error, error)
        case .incomplete: fail(.error, UpstreamError(.responseIncomplete, isClean ? nil : stream.endError.cause))
        }
    }

    /// Ends a request without a usable byte of a response. The decision whether to send it again is made only here.
    private func endWithoutResponse(_ transfer: Transfer, _ cause: ConnectionEnd, _ error: UpstreamError) {
        let isUnwritten = stream.written == writtenBefore
        if wasUsed, owner == nil, cause != .earlyBytes, !transfer.request.isRepeatable { connections.noteFailedWrite(self) }
        guard connections.client.mayRepeat(transfer, onKept: wasUsed, isUnwritten: isUnwritten) else { return fail(cause, error) }
        if !wasUsed { transfer.exclude(peer) }
        release(transfer)
        close(cause)
        connections.startAgain(transfer)
    }

    /// Handles a complete response.
    private func complete(_ transfer: Transfer, isDelimited: Bool, hasSurplus: Bool) {
        release(transfer)
        if hasSurplus {
            close(.surplus)
        } else if reader.isPersistent, output.isAllSent {
            wasUsed = true
            if let owner {
                owner.keep(self)
            } else if isSignedIn {
                close(.ownerGone)
            } else {
                connections.keep(self)
            }
        } else {
            close(reader.isPersistent ? .error : .closedByPeer)
        }
        transfer.end(.whole(isDelimited: isDelimited))
    }

    /// Detaches the connection from its owner. An active request continues.
    func leaveOwner() {
        owner = nil
        guard case .idle = state else { return }
        if isSignedIn { close(.ownerGone) } else { connections.keep(self) }
    }

    private func fail(_ cause: ConnectionEnd, _ error: UpstreamError) {
        guard case .busy(let transfer) = state else { return }
        release(transfer)
        close(cause)
        transfer.end(.failed(error))
    }
}

/// The output of one request on a connection: its head, then its content in pieces. Tracks how much was sent. Pure; the connection sends.
private struct RequestOutput {
    private enum Rest {
        /// More content must be taken.
        case content
        case nothing
        /// The peer accepts no more bytes. It may have sent a response nevertheless.
        case broken
    }

    /// The current output; the part from `sent` on remains to be sent.
    private(set) var bytes: [UInt8] = []
    private(set) var sent = 0
    /// Number of bytes of the head that the kernel has not accepted yet.
    private var unsentHead = 0
    private var rest = Rest.nothing

    /// Maximum capacity in bytes that is kept for the next request.
    private static let keptBytes = 4 * 1024

    /// Begins a request.
    /// - Parameter writeHead: appends its head.
    mutating func begin(hasContent: Bool, _ writeHead: (inout [UInt8]) -> Void) {
        writeHead(&bytes)
        unsentHead = bytes.count
        rest = hasContent ? .content : .nothing
    }

    /// Whether nothing must be sent now.
    var isEmpty: Bool { sent == bytes.count }
    var isHeadSent: Bool { unsentHead == 0 }
    var isAllSent: Bool { rest == .nothing && isEmpty }
    /// Whether the next piece of the content must be taken when the current output was sent.
    var takesContent: Bool { rest == .content }

    mutating func noteSent(_ count: Int) {
        sent += count
        unsentHead = max(0, unsentHead - count)
        guard isEmpty else { return }
        if bytes.capacity > Self.keptBytes { bytes = [] } else { bytes.removeAll(keepingCapacity: true) }
        sent = 0
    }

    /// - Parameter take: appends a piece of the content.
    mutating func takeContent(_ take: (inout [UInt8]) -> PendingContent.Piece) {
        if take(&bytes) == .end { rest = .nothing }
    }

    /// Drops the remaining output because the peer accepts no more bytes.
    mutating func breakOff() {
        rest = .broken
        bytes = []
        sent = 0
    }
}
