// An HTTP/2 connection to the upstream, with or without TLS: many concurrent exchanges, each on a stream. `HTTP2Session` handles frames,
// flow control and field compression; `HTTP2ResponseReader` validates responses; `HTTP2OriginConnection+Events.swift` handles events.
// Tricky: the window of a stream grows when its client has taken the content, the window of the connection immediately. A slow client thus
// buffers at most its stream's window and does not block other streams.

import Figures
import HTTP2
import HTTPCore
import Reactor

final class HTTP2OriginConnection: EventHandler {
    private enum State: Equatable {
        case open
        /// Accepts no more requests, and closes when the last exchange has ended.
        case draining(ConnectionEnd)
        case closed
    }

    /// The remote address if addresses of the upstream's name are tracked; nil otherwise.
    var peer: NamedAddress?
    /// Whether the connection is for separated requests (`SeparatedRequests`), one at a time.
    let isApart: Bool
    /// Number of the connection, counted from 1 among all connections of this loop.
    let number: Int
    let connections: OriginConnections
    let session: HTTP2Session
    /// Exchanges with an incomplete response, by stream.
    var exchanges = HTTP2StreamTable<HTTP2Exchange>()
    /// Whether a complete response was received on the connection.
    var wasUsed = false
    /// Time of the last received bytes, and of the last exchange, in milliseconds of the loop's clock.
    private(set) var heardAt: Int64
    private(set) var usedAt: Int64
    /// Time of a PING after which no bytes were received; nil if there is none.
    private var askedAt: Int64?
    /// Maximum number of concurrent streams that the upstream allows.
    private var limit: Int
    /// When the upstream last stated the limit, in milliseconds of the loop's clock.
    private var limitedAt: Int64

    private let stream: ByteStream
    private let times: TransferTimes
    private var state = State.open
    /// True while the session reads or writes. It must not be called to read or write again then.
    private var isInSession = false
    private var isFlushQueued = false
    /// Why either side ends the connection; nil before that.
    var breach: UpstreamCause?
    /// Code of the upstream's last GOAWAY; nil before it.
    var goneAway: HTTP2ErrorCode?
    /// True until the first bytes were read.
    private var isFirstRead = true
    /// Why Cistern announced the end of the connection after a violation by the upstream; nil before that.
    private var renounced: ConnectionEnd?
    private var walk = HTTP2FrameWalk(skipping: 0)
    /// Limit on frames without content.
    var conduct: HTTP2ControlBudget
    var content = ContentWindow()
    /// Output that the kernel has not accepted yet.
    private var output: [UInt8] = []
    private var sent = 0
    private var readWaitsForWrite = false
    private var writeWaitsForRead = false

    /// Maximum number of concurrent exchanges per connection, even if the upstream allows more. Further exchanges use another connection.
    static let maximumExchanges = 100
    /// Flow-control windows: maximum bytes in transit of one response that its client has not taken, and of all responses of one
    /// connection.
    static let streamWindowBytes: Int32 = 256 << 10
    static let connectionWindowBytes: Int32 = 8 << 20
    /// Maximum number of frames without content per second. Sending content raises the limit (see `HTTP2ControlBudget`).
    private static let controlFrames = 1_000
    /// Milliseconds without received bytes after which the next request is accompanied by a PING.
    private static let silenceMilliseconds: Int64 = 1_000
    /// Maximum bytes read, TLS records read, and bytes sent per event, so that other connections of the loop are served.
    private static let bytesPerEvent = 64 * 1024
    private static let recordsPerEvent = 64
    private static let sentBytesPerEvent = 1 << 20
    /// Size of the buffer in which output is assembled.
    private static let pieceBytes = 64 * 1024

    init?(_ stream: ByteStream, _ times: TransferTimes, number: Int, isApart: Bool, _ connections: OriginConnections) {
        let head = connections.client.limits.head
        var settings = HTTP2SessionSettings()
        settings.streamWindowBytes = Self.streamWindowBytes
        settings.connectionWindowBytes = Self.connectionWindowBytes
        // HTTP/1.1 counts the bytes of the field lines; HTTP/2 adds 32 for each line.
        settings.fieldLimits = HTTP2FieldLimits(bytes: head.headBytes + 32 * head.fieldCount, count: head.fieldCount + 1)
        guard let session = try? HTTP2Session(.client, settings) else { return nil }
        (self.stream, self.times, self.number, self.connections, self.session) = (stream, times, number, connections, session)
        self.isApart = isApart
        heardAt = connections.client.coarseNow
        (usedAt, limitedAt) = (heardAt, heardAt)
        limit = connections.expectedStreams
        conduct = HTTP2ControlBudget(perSecond: Self.controlFrames, now: connections.loop.time.monotonicMilliseconds)
        connections.loop.add(stream.descriptor, .readable, self)
        queueFlush()
    }

    var isOpen: Bool { state != .closed }
    var isUnused: Bool { exchanges.isEmpty && isOpen }
    /// Whether the connection accepts a further exchange.
    var hasCapacity: Bool { state == .open && session.mayRequest && exchanges.count < limit }
    /// Whether the connection accepts the request, and has enough window for its content.
    func mayCarry(_ transfer: Transfer) -> Bool {
        hasCapacity && content.mayCarry(transfer.request.contentBytes, window: session.remoteWindowBytes)
    }
    /// Whether the connection is open, but the upstream has set its stream limit to 0 since `time`.
    func takesNone(since time: Int64) -> Bool { state == .open && limit == 0 && session.mayRequest && limitedAt > time }

    // MARK: Exchanges

    /// Sends a request on a new stream. During this call the transfer receives only `sendingBegan`.
    func begin(_ transfer: Transfer) {
        let now = connections.client.coarseNow
        let exchange = HTTP2Exchange(transfer, self)
        transfer.carrier = .exchange(exchange)
        transfer.spoken = .http2
        var begun = TransferTimes()
        let isFirst = !wasUsed && exchanges.isEmpty
        (begun.resolved, begun.connected, begun.secured) = isFirst ? (times.resolved, times.connected, times.secured) : (0, 0, 0)
        transfer.beginRequest(begun)
        guard let id = session.submitRequest(connections.writer.fields(of: transfer.request), hasContent: transfer.request.hasContent)
        else {
            // Fails only if memory is exhausted: the caller has checked that a stream is available.
            connections.loop.atEndOfBatch { transfer.giveUp(.proxyInternalError) }
            return
        }
        exchange.stream = id
        exchanges[id] = exchange
        exchange.unsent = transfer.request.contentBytes
        usedAt = now
        connections.client.counters[.upstreamHTTP2Streams] += 1
        if askedAt == nil, now - heardAt >= Self.silenceMilliseconds {
            askedAt = now
            session.ping()
        }
        queueFlush()
    }

    /// Continues after more of the request's content, or its end, has become available.
    func sendMore(for exchange: HTTP2Exchange) {
        guard exchanges[exchange.stream] === exchange else { return }
        session.resumeContent(of: exchange.stream)
        queueFlush()
    }

    /// Ends an exchange whose response is no longer needed.
    func abandon(_ exchange: HTTP2Exchange) {
        if exchanges[exchange.stream] === exchange { session.reset(exchange.stream, .cancel) }
        release(exchange, .givenUp)
        queueFlush()
        connections.serveWaiting()
    }

    /// Removes an exchange from the connection.
    func release(_ exchange: HTTP2Exchange, _ end: HTTP2ExchangeEnd) {
        if exchanges[exchange.stream] === exchange { forgetStream(of: exchange, end) }
        if exchange.held != nil { connections.noteResumed(exchange.transfer) }
        exchange.held = nil
        connections.releaseShares(of: exchange.transfer)
    }

    /// Removes the stream of an exchange. A buffered part of the response may still be delivered.
    func forgetStream(of exchange: HTTP2Exchange, _ end: HTTP2ExchangeEnd) {
        exchanges[exchange.stream] = nil
        exchange.unsent = 0
        usedAt = connections.client.coarseNow
        connections.client.counters[.upstreamHTTP2Streams] -= 1
        connections.client.counters.labelled.count(.upstreamHTTP2Ended, of: end)
    }

    // MARK: Ends

    /// Accepts no more requests. Active exchanges continue.
    func drain(_ cause: ConnectionEnd) {
        guard state == .open else { return }
        state = .draining(cause)
        queueFlush()
    }

    /// Closes the connection. All exchanges must have ended or been moved.
    func close(_ cause: ConnectionEnd) {
        guard isOpen else { return }
        state = .closed
        if !isInSession {
            // Send GOAWAY if that is possible at once.
            session.end(.noError)
            _ = fill()
            if !output.isEmpty { _ = output.withUnsafeBytes { stream.send(UnsafeRawBufferPointer(rebasing: $0[sent...])) } }
        }
        session.abandon()
        connections.loop.remove(stream.descriptor)
        stream.close()
        connections.remove(self, cause)
    }

    /// Closes a connection that has failed, and ends its exchanges.
    func fail(_ cause: ConnectionEnd, _ error: UpstreamError) {
        guard isOpen else { return }
        let left = exchanges.values.sorted { $0.stream < $1.stream }
        close(cause)
        if error.kind == .protocolError { connections.separateAfterViolation(left.map(\.transfer)) } else { separate(left) }
        let wasTerminated = error.kind == .connectionTerminated
        let detail = error.cause ?? breach
        let unanswered = UpstreamError(error.kind, detail ?? (wasTerminated ? .noResponse : nil))
        let incomplete = UpstreamError(wasTerminated ? .responseIncomplete : error.kind, detail)
        for exchange in left where exchanges[exchange.stream] === exchange {
            endEarly(exchange, .connectionEnded, exchange.reader.hasBegun ? incomplete : unanswered)
        }
    }

    /// Separates the exchanges of a connection that the upstream ends, so that a repeated request ends no connection of other requests. If
    /// there are several exchanges, each of them may be the cause, unless the upstream has sent nothing at all.
    func separate(_ left: [HTTP2Exchange]) {
        guard !isFirstRead else { return }
        let sent = left.filter(\.isSent).map(\.transfer)
        if isApart { sent.forEach(connections.confirmSuspicion) } else if left.count > 1 { connections.suspect(sent) }
        for exchange in left { exchange.transfer.isSeparated = true }
    }

    // MARK: Liveness

    /// Whether a PING has been unanswered for so long that new requests should use another connection.
    func isSilent(at now: Int64) -> Bool { askedAt.map { now - $0 >= Self.silenceMilliseconds } ?? false }

    /// Drains the connection if the upstream has not responded to a PING within the connect timeout. Requests that may be repeated are sent
    /// on another connection, unless their response has begun. Other requests have their own timeouts.
    func checkIsResponsive(at now: Int64) {
        guard let askedAt, now - askedAt >= connections.client.limits.connect else { return }
        drain(.unresponsive)
        for exchange in exchanges.values.sorted(by: { $0.stream < $1.stream }) where !exchange.reader.hasBegun {
            let stream = exchange.stream
            if sendAgain(exchange, .connectionEnded) { session.reset(stream, .cancel) }
        }
        queueFlush()
    }

    func noteSettings() {
        limit = min(Self.maximumExchanges, session.peerMaximumStreams)
        limitedAt = connections.client.coarseNow
        connections.noteStreams(limit)
    }

    // MARK: Reading

    func ready(_ events: ReadyEvents) {
        if events.isWritable {
            if readWaitsForWrite {
                readWaitsForWrite = false
                read()
            }
            flush()
        }
        guard isOpen, events.isReadable || events.isBroken else { return }
        read()
        if writeWaitsForRead { flush() }
    }

    /// Reads available bytes, within limits. TLS may have buffered bytes that the kernel does not report, so reading continues until TLS
    /// has none.
    private func read() {
        var count = 0
        for _ in 0..<Self.recordsPerEvent where count < Self.bytesPerEvent {
            let space = connections.readBuffer.space
            let received = stream.receive(into: space)
            if case .bytes(let count) = received { take(UnsafeRawBufferPointer(rebasing: space[..<count])) }
            switch received {
            case .bytes(let more): count += more
            case .nothing: return flush()
            case .wantsWrite:
                readWaitsForWrite = true
                return flush()
            case .ended(let isClean): return fail(isClean ? .closedByPeer : .error, isClean ? .connectionTerminated : stream.endError)
            }
            guard isOpen else { return }
            guard stream.mayHoldBytes else { return flush() }
        }
        flush()
        connections.loop.inNextRound { [weak self] in
            guard let self, isOpen else { return }
            read()
        }
    }

    private func take(_ bytes: UnsafeRawBufferPointer) {
        heardAt = connections.client.coarseNow
        askedAt = nil
        noteFirst(bytes)
        guard !isFlooded(by: bytes) else {
            session.end(.enhanceYourCalm)
            renounce(.flood)
            return flush()
        }
        isInSession = true
        let result = session.receive(bytes, notifying: self)
        isInSession = false
        content.note(window: session.remoteWindowBytes)
        guard isOpen, result == .ended else { return }
        // The session may have an error to send. If the connection is draining and has no exchanges, this closes it.
        flush()
        fail(.error, .protocolError)
    }

    /// Detects an HTTP/1.1 server by its first bytes. The library only reports an invalid frame.
    private func noteFirst(_ bytes: UnsafeRawBufferPointer) {
        guard isFirstRead else { return }
        isFirstRead = false
        let bytes = Span<UInt8>(_unsafeBytes: bytes)
        if bytes.count >= 4, ResponseProblem.inStart(bytes) == nil { breach = .response(.http1Response) }
        if case .tlsRecord? = ResponseProblem.inStart(bytes) { breach = .response(.tlsRecord) }
    }

    /// Whether the upstream exceeds the limit on frames without content (RFC 9113 §10.5).
    private func isFlooded(by bytes: UnsafeRawBufferPointer) -> Bool {
        var position = 0
        while let frame = walk.next(bytes, &position) {
            guard conduct.take(frame, now: connections.loop.time.monotonicMilliseconds) else { return true }
        }
        return false
    }

    /// Handles bytes that arrived while the connection was unused, in particular its end. Notifies no transfer.
    func catchUp() {
        withUnsafeTemporaryAllocation(byteCount: 16 * 1024, alignment: 16) { space in
            for _ in 0..<Self.recordsPerEvent where isUnused && !isInSession && !stream.isSilent {
                switch stream.receive(into: space) {
                case .bytes(let count): take(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(space)[..<count]))
                case .nothing: return
                case .wantsWrite:
                    readWaitsForWrite = true
                    return watch()
                case .ended(let isClean): return close(isClean ? .closedByPeer : .error)
                }
            }
        }
    }

    // MARK: Sending

    /// Schedules waiting output to be sent at the end of this batch of events, in one piece.
    func queueFlush() {
        guard !isFlushQueued, isOpen else { return }
        isFlushQueued = true
        connections.loop.atEndOfBatch { [self] in
            isFlushQueued = false
            flush()
        }
    }

    private func flush() {
        guard isOpen, !isInSession else { return }
        writeWaitsForRead = false
        var left = Self.sentBytesPerEvent
        sending: while left > 0, !output.isEmpty || fill() {
            switch output.withUnsafeBytes({ stream.send(UnsafeRawBufferPointer(rebasing: $0[sent...])) }) {
            case .bytes(let count):
                left -= count
                sent += count
                if sent == output.count { clearOutput() }
            case .wantsWrite: break sending
            case .wantsRead:
                writeWaitsForRead = true
                break sending
            case .broken:
                // Bytes that have already arrived are still read, then the end of the stream.
                clearOutput()
                break sending
            }
        }
        if let renounced { fail(renounced, .protocolError) }
        if case .draining(let cause) = state, exchanges.isEmpty { close(cause) }
        watch()
    }

    /// Ends the exchanges of the connection as soon as GOAWAY has been sent.
    func renounce(_ cause: ConnectionEnd) {
        guard isOpen, renounced == nil else { return }
        renounced = cause
        // A violation on a separate connection affects no other request.
        if !isApart { connections.note(.broken) }
    }

    /// Assembles the next output. A stream that ends here may end the connection, because other requests may need its slot.
    /// - Returns: whether there is output.
    private func fill() -> Bool {
        withUnsafeTemporaryAllocation(byteCount: Self.pieceBytes, alignment: 16) { space in
            isInSession = true
            let count = session.write(into: space, notifying: self)
            isInSession = false
            output.append(contentsOf: UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(space)[..<count]))
            return count > 0 && isOpen
        }
    }

    private func clearOutput() {
        output.removeAll(keepingCapacity: output.capacity <= 4 * 1024)
        sent = 0
    }

    private func watch() {
        guard isOpen else { return }
        var events: ReadyEvents = readWaitsForWrite ? [] : .readable
        if (!output.isEmpty && !writeWaitsForRead) || readWaitsForWrite { events.insert(.writable) }
        connections.loop.modify(stream.descriptor, events)
    }
}
