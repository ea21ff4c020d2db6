// One connection to the upstream on which HTTP/2 is spoken, in clear or through TLS: many exchanges at once, each a stream of its own. Frames, windows
// and field tables are `HTTP2Session`'s, what a response's parts mean is said by `HTTP2ResponseReader`. What comes is in the other file.
//
// A stream's window is given back when its client has taken the content, the connection's at once: so one slow client holds no more than its own
// window, and stops no other.

import Figures
import HTTP2
import HTTPCore
import Reactor

final class HTTP2OriginConnection: EventHandler {
    private enum State: Equatable {
        case open
        /// It takes no more requests, and ends when it carries none.
        case draining(ConnectionEnd)
        case closed
    }

    /// Where it leads, where that may change.
    var peer: NamedAddress?
    /// It is for requests that are kept apart, one at a time.
    let isApart: Bool
    /// Counted from 1 among all connections of this loop.
    let number: Int
    let connections: OriginConnections
    let session: HTTP2Session
    /// By stream: those whose response has not come whole.
    var exchanges = HTTP2StreamTable<HTTP2Exchange>()
    /// A response has come whole on it.
    var wasUsed = false
    /// When it was last heard of, and when it last carried something, in milliseconds of the loop's clock.
    private(set) var heardAt: Int64
    private(set) var usedAt: Int64
    /// When a PING went out that nothing has come after; nil where there is none.
    private var askedAt: Int64?
    /// Streams that the upstream takes at once.
    private var limit: Int
    /// When it was last said, in milliseconds of the loop's clock.
    private var limitedAt: Int64

    private let stream: ByteStream
    private let times: TransferTimes
    private var state = State.open
    /// The session reads or writes: it may not be asked to do either within.
    private var isInSession = false
    private var isFlushQueued = false
    /// Reason for which either side ends the connection; nil before that.
    var breach: UpstreamCause?
    /// Whether no byte was read before.
    private var isFirstRead = true
    /// Why we have said that it ends, for what the upstream did wrong.
    private var renounced: ConnectionEnd?
    private var walk = HTTP2FrameWalk(skipping: 0)
    /// Frames that bring nothing.
    var conduct: HTTP2ControlBudget
    /// What the kernel has not taken.
    private var output: [UInt8] = []
    private var sent = 0
    private var readWaitsForWrite = false
    private var writeWaitsForRead = false

    /// On one connection at once, also where the upstream would take more: beyond it another is made.
    static let maximumExchanges = 100
    /// What may be on its way of one response before its client has taken any of it, and of all of one connection together.
    static let streamWindowBytes: Int32 = 256 << 10
    static let connectionWindowBytes: Int32 = 8 << 20
    /// Frames that bring nothing, each second; what we send earns some more.
    private static let controlFrames = 1_000
    /// Where nothing has come for so long, a PING goes out with the next request.
    private static let silenceMilliseconds: Int64 = 1_000
    /// What is read, and sent, at one event: the others on the loop have their turn then.
    private static let bytesPerEvent = 64 * 1024
    private static let recordsPerEvent = 64
    private static let sentBytesPerEvent = 1 << 20
    /// What is put together before it is sent.
    private static let pieceBytes = 64 * 1024

    init?(_ stream: ByteStream, _ times: TransferTimes, number: Int, isApart: Bool, _ connections: OriginConnections) {
        let head = connections.client.limits.head
        var settings = HTTP2SessionSettings()
        settings.streamWindowBytes = Self.streamWindowBytes
        settings.connectionWindowBytes = Self.connectionWindowBytes
        // The lines' own bytes are counted in HTTP/1.1, and 32 more for each in HTTP/2.
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
    /// How many more it takes.
    var room: Int { state == .open && session.mayRequest ? max(0, limit - exchanges.count) : 0 }
    var hasRoom: Bool { room > 0 }
    /// It may carry requests later, and its peer takes none for now.
    func takesNone(since time: Int64) -> Bool { state == .open && limit == 0 && session.mayRequest && limitedAt > time }

    // MARK: Requests

    /// Sends a request on a stream of its own. The transfer hears nothing from within this call, but that it begins.
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
            // Only where there is no memory: whether there is room was asked.
            connections.loop.atEndOfBatch { transfer.giveUp(.proxyInternalError) }
            return
        }
        exchange.stream = id
        exchanges[id] = exchange
        usedAt = now
        connections.client.counters[.upstreamHTTP2Streams] += 1
        if askedAt == nil, now - heardAt >= Self.silenceMilliseconds {
            askedAt = now
            session.ping()
        }
        queueFlush()
    }

    /// There is more of the request's content, or it is whole.
    func sendMore(for exchange: HTTP2Exchange) {
        guard exchanges[exchange.stream] === exchange else { return }
        session.resumeContent(of: exchange.stream)
        queueFlush()
    }

    /// Nobody waits for the response any more.
    func abandon(_ exchange: HTTP2Exchange) {
        if exchanges[exchange.stream] === exchange { session.reset(exchange.stream, .cancel) }
        letGo(exchange, .givenUp)
        queueFlush()
        connections.noteFree()
    }

    /// It carries this one no more.
    func letGo(_ exchange: HTTP2Exchange, _ end: HTTP2ExchangeEnd) {
        if exchanges[exchange.stream] === exchange { forgetStream(of: exchange, end) }
        if exchange.held != nil { connections.noteGoesOn(exchange.transfer) }
        exchange.held = nil
        connections.releaseShares(of: exchange.transfer)
    }

    /// Its stream is over; what of the response is held may still have to be taken.
    func forgetStream(of exchange: HTTP2Exchange, _ end: HTTP2ExchangeEnd) {
        exchanges[exchange.stream] = nil
        usedAt = connections.client.coarseNow
        connections.client.counters[.upstreamHTTP2Streams] -= 1
        connections.client.counters.http2Ended[end, default: 0] += 1
    }

    // MARK: Ends

    /// It takes no more requests; what it carries goes on.
    func drain(_ cause: ConnectionEnd) {
        guard state == .open else { return }
        state = .draining(cause)
        queueFlush()
    }

    /// All that it carries has been taken from it, or has ended.
    func close(_ cause: ConnectionEnd) {
        guard isOpen else { return }
        state = .closed
        if !isInSession {
            // A word, where it can be said at once.
            session.end(.noError)
            _ = fill()
            if !output.isEmpty { _ = output.withUnsafeBytes { stream.send(UnsafeRawBufferPointer(rebasing: $0[sent...])) } }
        }
        session.abandon()
        connections.loop.remove(stream.descriptor)
        stream.close()
        connections.remove(self, cause)
    }

    /// The connection is of no more use, and what it carries has to end.
    func fail(_ cause: ConnectionEnd, _ error: UpstreamError) {
        guard isOpen else { return }
        let left = exchanges.values.sorted { $0.stream < $1.stream }
        close(cause)
        if error.kind == .protocolError { connections.keepApart(left.map(\.transfer)) }
        let error = error.cause == nil ? UpstreamError(error.kind, breach) : error
        let incomplete = error.kind == .connectionTerminated ? UpstreamError(.responseIncomplete, error.cause) : error
        for exchange in left where exchanges[exchange.stream] === exchange {
            endEarly(exchange, .connectionEnded, exchange.reader.hasBegun ? incomplete : error)
        }
    }

    private func closeIfDone() {
        guard case .draining(let cause) = state, exchanges.isEmpty else { return }
        close(cause)
    }

    // MARK: Whether it is still there

    private func noteHeard() {
        heardAt = connections.client.coarseNow
        askedAt = nil
    }

    /// A peer that says nothing to a PING for as long as connecting may take is treated as gone: requests go elsewhere. What was sent has its own
    /// time-outs.
    func checkIsResponsive(at now: Int64) {
        guard let askedAt, now - askedAt >= connections.client.limits.connect else { return }
        drain(.unresponsive)
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

    /// Reads what is there, within bounds. TLS may hold bytes that the kernel no longer tells of: it is read until it has none.
    private func read() {
        var count = 0
        for _ in 0..<Self.recordsPerEvent where count < Self.bytesPerEvent {
            let received = stream.receive(into: connections.readBuffer) { span in span.withUnsafeBytes { take($0) } }
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
        noteHeard()
        noteFirst(bytes)
        guard !isFlooded(by: bytes) else {
            session.end(.enhanceYourCalm)
            renounce(.flood)
            return flush()
        }
        isInSession = true
        let result = session.receive(bytes, telling: self)
        isInSession = false
        guard isOpen, result == .ended else { return }
        // The last word may say what was wrong.
        flush()
        if case .draining(let cause) = state, exchanges.isEmpty { return close(cause) }
        fail(.error, .protocolError)
    }

    /// Recognizes an HTTP/1.1 server by its first bytes. The library only reports that they are not a frame.
    private func noteFirst(_ bytes: UnsafeRawBufferPointer) {
        guard isFirstRead else { return }
        isFirstRead = false
        let bytes = Span<UInt8>(_unsafeBytes: bytes)
        if bytes.count >= 4, ResponseProblem.inStart(bytes) == nil { breach = .response(.http1Response) }
        if case .tlsRecord? = ResponseProblem.inStart(bytes) { breach = .response(.tlsRecord) }
    }

    /// RFC 9113 §10.5.
    private func isFlooded(by bytes: UnsafeRawBufferPointer) -> Bool {
        var position = 0
        while let frame = walk.next(bytes, &position) {
            guard conduct.take(frame, now: connections.loop.time.monotonicMilliseconds) else { return true }
        }
        return false
    }

    /// What has come while it carried nothing: that the upstream has ended it, above all. Nobody is told anything by it.
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

    /// What is to be sent goes out at the end of this batch of events, all in one piece.
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
                // What has come is read all the same, and then the end.
                clearOutput()
                break sending
            }
        }
        if let renounced { fail(renounced, .protocolError) }
        closeIfDone()
        watch()
    }

    /// We have said that it ends: what is left on it ends as soon as that has gone out.
    func renounce(_ cause: ConnectionEnd) {
        guard isOpen, renounced == nil else { return }
        renounced = cause
        // Who breaks a connection of its own harms nobody.
        if !isApart { connections.note(.broken) }
    }

    /// Puts together what is to be sent next. A stream that ends by it may end the connection: others may need its place.
    /// - Returns: whether there is any.
    private func fill() -> Bool {
        withUnsafeTemporaryAllocation(byteCount: Self.pieceBytes, alignment: 16) { space in
            isInSession = true
            let count = session.write(into: space, telling: self)
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
