// Handles the events of an HTTP/2 connection to the upstream and their effect on its exchanges. Events arrive while the session reads or
// writes, so resulting output is only queued.

import HTTP2
import HTTPCore
import Reactor

extension HTTP2OriginConnection: HTTP2SessionDelegate {
    func received(_ section: borrowing HTTP2FieldSection, _ kind: HTTP2SectionKind, on stream: Int32, endsStream: Bool) {
        // Trailer fields are not forwarded, as in HTTP/1.1, but they end the stream.
        guard kind == .head, let exchange = exchanges[stream] else { return }
        switch exchange.reader.take(section, isLast: endsStream) {
        case .informational(let head): exchange.transfer.take(informational: head)
        case .final(let head): exchange.transfer.take(final: head)
        case .refused(let problem): return refuse(exchange, UpstreamError(problem))
        }
        if endsStream { receivedEnd(of: stream) }
    }

    func receivedContent(_ bytes: UnsafeRawBufferPointer, on stream: Int32) {
        session.consumeConnection(bytes.count)
        guard let exchange = exchanges[stream] else { return }
        if let problem = exchange.reader.take(contentBytes: bytes.count) { return refuse(exchange, UpstreamError(problem)) }
        let content = Span<UInt8>(_unsafeBytes: bytes)
        if exchange.held != nil {
            exchange.held?.append(copying: content)
        } else if exchange.transfer.offerContent() {
            session.consumeStream(bytes.count, on: stream)
            exchange.transfer.receiver?.transfer(exchange.transfer, content: content)
        } else {
            exchange.held = []
            exchange.held?.append(copying: content)
            connections.noteHeldBack(exchange.transfer)
        }
    }

    func receivedEnd(of stream: Int32) {
        guard let exchange = exchanges[stream] else { return }
        guard exchange.reader.isWhole else { return refuse(exchange, UpstreamError(.responseIncomplete, .response(.contentTooShort))) }
        exchange.hasEnded = true
        wasUsed = true
        // The upstream does not need the rest of the request's content (RFC 9113 §8.1).
        if !exchange.isRequestWhole { session.reset(stream, .cancel) }
        forgetStream(of: exchange, .whole)
        if exchange.held == nil { complete(exchange) } else { connections.serveWaiting() }
    }

    private func complete(_ exchange: HTTP2Exchange) {
        release(exchange, .whole)
        exchange.transfer.end(.whole(isDelimited: true))
        queueFlush()
        connections.serveWaiting()
    }

    /// Continues after a pause: first held content, then new content.
    func readOn(for exchange: HTTP2Exchange) {
        guard let bytes = exchange.held, !exchange.transfer.hasEnded else { return }
        exchange.held = nil
        connections.noteResumed(exchange.transfer)
        if exchanges[exchange.stream] === exchange { session.consumeStream(bytes.count, on: exchange.stream) }
        exchange.transfer.receiver?.transfer(exchange.transfer, content: bytes.span)
        queueFlush()
        if exchange.hasEnded, !exchange.transfer.hasEnded { complete(exchange) }
    }

    // MARK: Ends

    /// Ends the stream because its response is invalid. The connection stays open.
    private func refuse(_ exchange: HTTP2Exchange, _ error: UpstreamError) {
        session.reset(exchange.stream, error.kind == .protocolError ? .protocolError : .cancel)
        endInvalid(exchange, error)
    }

    func streamReset(_ stream: Int32, _ code: HTTP2ErrorCode, isByPeer: Bool) {
        if !isByPeer { exchanges[stream]?.isInvalid = true }
    }

    /// Handles a stream that closed before its response was complete. Streams that ended properly were removed before.
    func streamClosed(_ stream: Int32, _ code: HTTP2ErrorCode) {
        // Closing the connection also closes its streams, which the caller handles.
        guard isOpen, let exchange = exchanges[stream] else { return }
        switch code {
        case _ where exchange.isInvalid: endInvalid(exchange, UpstreamError(.protocolError, .sentReset(code)))
        case _ where exchange.reader.hasBegun: endEarly(exchange, .reset, UpstreamError(.responseIncomplete, .streamReset(code)))
        case .refusedStream:
            // After GOAWAY, the library closes the streams that the upstream has not processed.
            let cause = goneAway.map { UpstreamCause.goAway($0) } ?? .streamReset(code)
            endEarly(exchange, .refused, UpstreamError(.connectionTerminated, cause), isRefused: true)
        case .http11Required:
            connections.note(.http1Asked)
            endEarly(exchange, .refused, UpstreamError(.protocolError, .streamReset(code)), isRefused: true)
        default: endEarly(exchange, .reset, UpstreamError(.connectionTerminated, .streamReset(code)))
        }
    }

    private func endInvalid(_ exchange: HTTP2Exchange, _ error: UpstreamError) {
        release(exchange, .invalid)
        exchange.transfer.end(.failed(error))
        queueFlush()
        connections.serveWaiting()
    }

    /// Ends an exchange without a response, or with an incomplete one. `TransferProgress` alone decides whether the request is sent again.
    /// - Parameter isRefused: whether the upstream states that it did not process the request.
    func endEarly(_ exchange: HTTP2Exchange, _ end: HTTP2ExchangeEnd, _ error: UpstreamError, isRefused: Bool = false) {
        if !sendAgain(exchange, end, isRefused: isRefused) {
            release(exchange, end)
            exchange.transfer.end(.failed(error))
        }
        queueFlush()
        connections.serveWaiting()
    }

    /// Moves the request of an exchange to another connection if that is permitted.
    /// - Returns: whether the request is sent again. Otherwise the exchange is unchanged.
    func sendAgain(_ exchange: HTTP2Exchange, _ end: HTTP2ExchangeEnd, isRefused: Bool = false) -> Bool {
        let isUnsent = !exchange.isSent
        let mayRepeat = connections.client.mayRepeat(
            exchange.transfer, onKept: wasUsed || isUnsent, isUnwritten: isUnsent, isRefused: isRefused)
        guard mayRepeat else { return false }
        release(exchange, end)
        if !isRefused { exchange.transfer.newestWhenFoundDead = connections.madeCount }
        if !isRefused, !wasUsed { exchange.transfer.exclude(peer) }
        connections.startAgain(exchange.transfer)
        return true
    }

    // MARK: The request's content

    func sentRequest(on stream: Int32) {
        exchanges[stream]?.isSent = true
        exchanges[stream]?.transfer.note(.bytesSent)
    }

    func offerContent(of stream: Int32, limit: Int) -> HTTP2ContentOffer {
        // The exchange has ended, and its stream is about to be reset.
        guard let exchange = exchanges[stream] else { return .later }
        guard let (count, isLast) = exchange.transfer.offerRequestContent(upTo: limit) else { return .later }
        if isLast {
            exchange.isRequestWhole = true
            if count == 0 {
                exchange.transfer.noteRequestEnd()
                exchange.unsent = 0
            }
        }
        return .bytes(count, isLast: isLast)
    }

    func takeContent(of stream: Int32, into buffer: UnsafeMutableRawBufferPointer) {
        conduct.sentContent(bytes: buffer.count)
        guard let exchange = exchanges[stream] else { return }
        exchange.transfer.takeRequestContent(into: buffer)
        exchange.unsent = exchange.isRequestWhole ? 0 : max(0, exchange.unsent - buffer.count)
    }

    // MARK: The connection

    func receivedSettings() { noteSettings() }

    func sentGoAway(_ code: HTTP2ErrorCode) {
        // Cistern closes the connection for its own reasons.
        guard code != .noError else { return }
        if breach == nil { breach = .sentGoAway(code) }
        renounce(code == .enhanceYourCalm ? .flood : .error)
    }

    func receivedGoAway(last: Int32, _ code: HTTP2ErrorCode) {
        goneAway = code
        if code != .noError { breach = .goAway(code) }
        switch code {
        case .http11Required: connections.note(.http1Asked)
        case .inadequateSecurity: connections.note(.inadequateSecurity)
        case .noError: break
        // Also requests that the upstream reports as not processed may be the cause: their head may be what it refuses.
        default: separate(Array(exchanges.values))
        }
        drain(code == .noError ? .closedByPeer : .error)
    }
}
