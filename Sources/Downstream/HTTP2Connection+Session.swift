// Callbacks of the HTTP/2 session while it reads and writes. They only queue output.

import Addresses
import Figures
import HTTP2
import HTTPCore
import Reactor

extension HTTP2Connection: HTTP2SessionDelegate {
    func received(_ section: borrowing HTTP2FieldSection, _ kind: HTTP2SectionKind, on number: Int32, endsStream: Bool) {
        // Trailer fields are ignored, as in HTTP/1.1.
        guard kind == .head else { return }
        requests += 1
        table.counters[.http2Requests] += 1
        let stream = HTTP2Stream(number, of: self)
        streams[number] = stream
        idleDeadline = 0
        stream.begin(section, endsStream: endsStream)
        let limit = table.settings.requestsPerConnection
        if limit > 0, requests >= limit, phase == .open {
            table.counters[.connectionsRequestLimit] += 1
            stopAccepting()
        }
    }

    func receivedContent(_ bytes: UnsafeRawBufferPointer, on number: Int32) {
        guard let stream = streams[number] else { return session.consume(bytes.count, on: number) }
        stream.receivedContent(bytes)
    }

    func receivedEnd(of number: Int32) { streams[number]?.receivedEnd() }

    func receivedPingAcknowledgement() {
        if case .announcing = phase { stopAccepting() }
    }

    func offerContent(of number: Int32, limit: Int) -> HTTP2ContentOffer { streams[number]?.offerContent(limit: limit) ?? .broken }

    func takeContent(of number: Int32, into buffer: UnsafeMutableRawBufferPointer) {
        conduct.sentContent(bytes: buffer.count)
        streams[number]?.takeContent(into: buffer)
    }

    func sentEnd(of number: Int32) { streams[number]?.sentEnd() }

    func streamClosed(_ number: Int32, _ code: HTTP2ErrorCode) {
        guard let stream = streams.remove(number) else { return }
        if code == .noError { resets.endedWell() }
        if !stream.isReset { pastStreams.end(number) }
        stream.close()
        if streams.isEmpty { idleDeadline = table.keepAliveDeadline }
    }

    func streamReset(_ number: Int32, _ code: HTTP2ErrorCode, isByPeer: Bool) {
        table.counters[.http2Resets] += 1
        if !isByPeer { streams[number]?.isReset = true }
        // Errors on our side, and responses before the end of the content, do not count as resets of the client.
        if !isByPeer, code == .noError || code == .internalError { return }
        // Neither does a client's reset of a stream whose content is being discarded after the response.
        if isByPeer, streams[number]?.discarding != nil { return }
        // RFC 9113 §10.5.
        if !resets.take(now: table.now) { endAfterResets() }
    }

    /// Ends the connection. That of a trusted proxy carries requests of many clients, so its active requests continue.
    private func endAfterResets() {
        guard peer.clientAddress.counted(besides: table.settings.trustedProxies) == nil else { return session.end(.enhanceYourCalm) }
        if phase != .finishing { stopAccepting(.enhanceYourCalm) }
    }

    func sentGoAway(_ code: HTTP2ErrorCode) {
        if code == .enhanceYourCalm {
            table.counters[.http2Floods] += 1
        } else if code != .noError {
            table.counters[.http2Errors] += 1
        }
        // The library writes PING before all other frames. The PING is sent only now, so that a client that acknowledges it has received
        // the GOAWAY.
        if case .announcing = phase { session.ping() }
    }

    // MARK: Requests of the streams

    func reset(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
        guard !isClosed, !stream.isReset else { return }
        stream.isReset = true
        session.reset(stream.number, code)
        pushLater()
        // The stream's memory is released even if the client reads nothing. The exchange is notified at the end of the batch of events,
        // because it may be the current caller.
        table.loop.atEndOfBatch { stream.close() }
    }

    func consumeConnection(_ count: Int) {
        guard count > 0, !isClosed else { return }
        session.consumeConnection(count)
        pushLater()
    }

    func consumeStream(_ count: Int, on number: Int32) {
        guard count > 0, !isClosed else { return }
        session.consumeStream(count, on: number)
        pushLater()
    }

    func submitResponse(_ head: HTTP2Stream.PendingHead, hasContent: Bool, on number: Int32) {
        let isSubmitted =
            switch head {
            case .made(let fields): session.submitResponse(fields, hasContent: hasContent, on: number)
            case .kept(let fields): session.submitResponse(fields, hasContent: hasContent, on: number)
            }
        guard !isSubmitted, let stream = streams[number] else { return }
        // Memory is exhausted, so the response can never begin.
        reset(stream, .internalError)
    }

    func submitInformational(_ fields: HTTP2FieldList, on number: Int32) {
        guard !isClosed else { return }
        session.submitInformational(fields, on: number)
        pushLater()
    }

    func resumeContent(of number: Int32) { session.resumeContent(of: number) }
}
