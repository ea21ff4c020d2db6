// One connection to the upstream on which HTTP/1.1 is spoken, in clear or through TLS: one request at a time, and no byte of a response is
// taken for another's (RFC 9112 §9). What the bytes mean is said by `ResponseReader`, what goes out by `RequestOutput`.

import HTTPCore
import Reactor

final class OriginConnection: EventHandler {
    private enum State {
        case idle
        /// Its request goes out at the end of the batch of events.
        case chosen(Transfer)
        case busy(Transfer)
        case closed
    }

    /// Milliseconds of the loop's clock.
    var idleSince: Int64 = 0
    /// Where it leads, where that may change.
    var peer: NamedAddress?
    /// The client's connection that it belongs to. nil: it is everybody's.
    var owner: OwnedConnection?
    /// The upstream may know a user by it: it never carries a request of anybody else.
    private var isSignedIn = false
    /// How often it was used since it had a rest.
    var usesInARow = 0

    private let stream: ByteStream
    private let connections: OriginConnections
    private let times: TransferTimes
    private var state = State.idle
    /// Of the response that comes, or has come last.
    private var reader: ResponseReader
    private var output = RequestOutput()
    /// A response has come whole on it.
    private var wasUsed = false
    /// What had been written before this request.
    private var writtenBefore = 0
    /// What was read and the transfer would not take. Nothing more is read then; nil where it takes what comes.
    private var held: [UInt8]?
    /// False where the peer has gone while nothing is read: the kernel would say so again and again.
    private var isWatched = true
    /// What TLS waits for before it goes on in the other direction.
    private var readWaitsForWrite = false
    private var writeWaitsForRead = false

    /// What is read at one event, in bytes and in records of TLS: the others on the loop have their turn then.
    private static let bytesPerEvent = 64 * 1024
    private static let recordsPerEvent = 64
    /// The same of what is sent: about a millisecond where the peer is on this machine.
    private static let sentBytesPerEvent = 1 << 20

    init(_ stream: ByteStream, _ times: TransferTimes, _ connections: OriginConnections) {
        self.stream = stream
        self.times = times
        self.connections = connections
        reader = ResponseReader(to: .get, limits: connections.limits.head)
        connections.loop.add(stream.descriptor, .readable, self)
    }

    /// What the upstream said of how long it keeps the connection, in milliseconds; nil where it said nothing.
    var keepAlive: Int64? { reader.keepAlive }

    var home: OriginConnections { connections }

    private var isOpen: Bool { if case .closed = state { false } else { true } }

    private func carries(_ transfer: Transfer) -> Bool { if case .busy(let current) = state { current === transfer } else { false } }

    private func isChosen(for transfer: Transfer) -> Bool { if case .chosen(let current) = state { current === transfer } else { false } }

    // MARK: Requests

    /// Sends the first request. Who speaks before was asked nothing.
    func beginFirst(_ transfer: Transfer) {
        prepare(transfer)
        read()
        goOnSending()
    }

    /// Another request goes out on it, with all others of this batch of events: so that a peer who sleeps is woken once, and not for each.
    func choose(for transfer: Transfer) {
        state = .chosen(transfer)
        transfer.carrier = .connection(self)
        // It waits for no connection any more.
        transfer.noteConnecting()
        connections.sendAtEndOfBatch(self)
    }

    /// Sends the request that it was chosen for, where it stands and the peer has said nothing since its last response. The transfer hears nothing
    /// from within this call, but that it begins.
    func sendChosen() {
        guard case .chosen(let transfer) = state else { return }
        guard stream.isQuiet else { return startElsewhere(transfer, .surplus) }
        prepare(transfer)
        goOnSending()
    }

    /// Nothing of the request has gone out.
    private func startElsewhere(_ transfer: Transfer, _ cause: ConnectionEnd) {
        letGo(transfer)
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
        output.begin(hasContent: transfer.request.hasContent) { connections.writer.write(transfer.request, to: &$0) }
        writtenBefore = stream.written
    }

    /// There is more of the request's content, or it is whole.
    func sendMore(for transfer: Transfer) {
        if carries(transfer) { goOnSending() }
    }

    /// The transfer takes content again.
    func readOn(for transfer: Transfer) {
        connections.loop.atEndOfBatch { [self] in goOnReading(transfer) }
    }

    func abandon(_ transfer: Transfer) {
        guard carries(transfer) || isChosen(for: transfer) else { return }
        letGo(transfer)
        close(.givenUp)
    }

    private func letGo(_ transfer: Transfer) {
        state = .idle
        if held != nil { connections.noteGoesOn(transfer) }
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
            goOnSending()
        }
        guard isOpen else { return }
        if held != nil {
            guard events.isBroken else { return }
            connections.loop.remove(stream.descriptor)
            isWatched = false
        } else if events.isReadable || events.isBroken {
            read()
            if writeWaitsForRead { goOnSending() }
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

    private func goOnSending() {
        writeWaitsForRead = false
        guard case .busy(let transfer) = state else { return watch() }
        var left = Self.sentBytesPerEvent
        // What is left then goes out when the socket says once more that it takes it.
        sending: while fillOutput(from: transfer), left > 0 {
            switch stream.send(output.bytes, from: output.sent) {
            case .bytes(let count):
                output.noteSent(count)
                left -= count
                transfer.noteSent()
            case .wantsWrite: break sending
            case .wantsRead:
                writeWaitsForRead = true
                break sending
            case .broken: output.breakOff()
            }
        }
        // The client says nothing more: so its upstream hears.
        if reader.isTunnel, output.isAllSent { stream.endSending() }
        watch()
    }

    /// Takes the content's next piece where nothing else is left to send.
    /// - Returns: whether there is something to send.
    private func fillOutput(from transfer: Transfer) -> Bool {
        if output.isEmpty, output.takesContent { output.takeContent { transfer.takeContent(into: &$0) } }
        return !output.isEmpty
    }

    // MARK: Reading

    /// Reads what is there, within bounds. TLS may hold bytes that the kernel no longer tells of: it is read until it has none.
    private func read() {
        // In clear nothing is held, and nobody asks.
        let before = stream.mayHoldBytes ? state : .idle
        var count = 0
        for _ in 0..<Self.recordsPerEvent where count < Self.bytesPerEvent {
            switch stream.receive(into: connections.readBuffer, { take($0) }) {
            case .bytes(let more): count += more
            case .nothing: return
            case .wantsWrite:
                readWaitsForWrite = true
                return watch()
            case .ended(let isClean): return endByPeer(isClean: isClean)
            }
            // What may still be held after a response's end is looked at before the connection is used again.
            guard stream.mayHoldBytes, held == nil, case .busy(let transfer) = before, carries(transfer) else { return }
        }
        connections.loop.inNextRound { [weak self] in
            guard let self, isOpen, held == nil else { return }
            read()
        }
    }

    /// After a pause: what was held, and then what comes.
    private func goOnReading(_ transfer: Transfer) {
        guard carries(transfer), let bytes = held else { return }
        held = nil
        connections.noteGoesOn(transfer)
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
        // Nothing has asked for these: they were on their way before the request was (RFC 9112 §9.2), or before any of it arrived. Whoever
        // responds has told of its arrival with the same packet, if not before (RFC 9293 §3.8).
        guard output.isHeadSent, reader.hasBegun || stream.arrived > writtenBefore else {
            return endWithoutResponse(transfer, .earlyBytes, UpstreamError(ResponseProblem.inStart(bytes) ?? .earlyBytes))
        }
        deliver(bytes, to: transfer)
    }

    private func deliver(_ bytes: Span<UInt8>, to transfer: Transfer) {
        if reader.isInContent, !transfer.offerContent() { return hold(bytes, of: transfer) }
        var position = 0
        repeat {
            switch reader.next(bytes, &position) {
            case .needsMore: return
            case .headLines: transfer.noteHeadLines()
            case .informational(let head): transfer.take(informational: head)
            case .final(let head):
                if ConnectionAuthentication.challenge(in: head.fields) == .underWay { isSignedIn = true }
                guard connections.isMeant(head.status, to: transfer) else {
                    return fail(.error, UpstreamError(.protocolError, .unprovenHTTP1))
                }
                transfer.take(final: head)
            case .content(let range): transfer.take(content: bytes.extracting(range))
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
        if case .chosen(let transfer) = state { return startElsewhere(transfer, isClean ? .closedByPeer : .error) }
        guard case .busy(let transfer) = state else { return close(isClean ? .closedByPeer : .error) }
        switch reader.atConnectionEnd(isClean: isClean) {
        case .whole: complete(transfer, isDelimited: false, hasSurplus: false)
        case .nothing:
            let error = isClean ? UpstreamError(.connectionTerminated, .noResponse) : stream.endError
            endWithoutResponse(transfer, isClean ? .closedByPeer : .error, error)
        case .incomplete: fail(.error, UpstreamError(.responseIncomplete, isClean ? nil : stream.endError.cause))
        }
    }

    /// No byte of a response to this request has come, or none that can be used: whether it is sent again is decided here, and nowhere else.
    private func endWithoutResponse(_ transfer: Transfer, _ cause: ConnectionEnd, _ error: UpstreamError) {
        let isUnwritten = stream.written == writtenBefore
        guard connections.client.mayRepeat(transfer, onKept: wasUsed, isUnwritten: isUnwritten) else { return fail(cause, error) }
        letGo(transfer)
        close(cause)
        connections.startAgain(transfer)
    }

    /// The response is whole.
    private func complete(_ transfer: Transfer, isDelimited: Bool, hasSurplus: Bool) {
        letGo(transfer)
        if hasSurplus {
            close(.surplus)
        } else if reader.isPersistent, output.isAllSent {
            wasUsed = true
            keep()
        } else {
            close(reader.isPersistent ? .error : .closedByPeer)
        }
        transfer.end(.whole(isDelimited: isDelimited))
    }

    private func keep() {
        if let owner { owner.keep(self) } else { returnToPool() }
    }

    /// It belongs to nobody any more. While it carries a request, that goes on.
    func leaveOwner() {
        owner = nil
        if case .idle = state { returnToPool() }
    }

    private func returnToPool() {
        if isSignedIn { close(.ownerGone) } else { connections.keep(self) }
    }

    private func fail(_ cause: ConnectionEnd, _ error: UpstreamError) {
        guard case .busy(let transfer) = state else { return }
        letGo(transfer)
        close(cause)
        transfer.end(.failed(error))
    }
}
