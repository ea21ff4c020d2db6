// A client's stream that changes the fields of each response. It wraps the stream, so it covers every way to send a response.

import CachePolicy
import Downstream
import Forwarding
import HTTPCore

enum ResponseChange {
    /// The request's ID (`log.request_id`) replaces the ID of the upstream or of a stored response.
    case requestID(line: [UInt8])
    /// The lines of the operator's CORS rules replace the upstream's CORS fields.
    case crossOrigin(lines: [UInt8])

    fileprivate var lines: [UInt8] {
        switch self {
        case .requestID(let lines), .crossOrigin(let lines): lines
        }
    }

    /// The new last line of a response that is sent again; nil to keep it.
    fileprivate var lastLine: [UInt8]? { if case .requestID(let line) = self { line } else { nil } }

    /// The head without the replaced fields; nil if it has none.
    fileprivate func rest(of head: Span<UInt8>) -> [UInt8]? {
        switch self {
        case .requestID: RequestID.removing(from: head)
        case .crossOrigin: CrossOriginRules.strip(head)
        }
    }
}

final class ChangedStream: ClientStream {
    private let stream: any ClientStream
    private let change: ResponseChange

    init(_ stream: any ClientStream, _ change: ResponseChange) { (self.stream, self.change) = (stream, change) }

    // MARK: Changed methods

    /// - Returns: the sent bytes, with the request's ID in the last line (see `sendComplete`, `sendAgain`). nil with CORS rules, so that
    ///   the response is not repeated for a request of another origin.
    @discardableResult
    func sendWhole(head: Span<UInt8>, lines: Span<UInt8>, body: WholeBody) -> SentBytes? {
        let sent = changed(head, lines) { stream.sendWhole(head: $0, lines: $1, body: body) }
        return if case .requestID = change { sent } else { nil }
    }

    func sendProduced(head: Span<UInt8>, lines: Span<UInt8>, content producer: any ContentProducer) {
        changed(head, lines) { stream.sendProduced(head: $0, lines: $1, content: producer) }
    }

    func startResponse(head: consuming [UInt8], lines: [UInt8], framing: ResponseFraming, readAhead: Int) {
        if let rest = change.rest(of: head.span) { head = rest }
        stream.startResponse(head: head, lines: lines + change.lines, framing: framing, readAhead: readAhead)
    }

    private func changed<Result>(
        _ head: Span<UInt8>, _ lines: Span<UInt8>, _ send: (_ head: Span<UInt8>, _ lines: Span<UInt8>) -> Result
    ) -> Result {
        let own = change.lines
        let all = [UInt8](atMost: lines.count + own.count) { all in
            all.put(lines)
            all.put(own)
        }
        guard let rest = change.rest(of: head) else { return send(head, all.span) }
        return send(rest.span, all.span)
    }

    func sendComplete(_ response: CompleteResponse, endingWith line: [UInt8]?) {
        stream.sendComplete(response, endingWith: change.lastLine ?? line)
    }

    func sendAgain(_ response: CompleteResponse, endingWith line: [UInt8]?) {
        stream.sendAgain(response, endingWith: change.lastLine ?? line)
    }

    func spaceNeeded(lines: [UInt8], _ framing: ResponseFraming) -> Int { stream.spaceNeeded(lines: lines, framing) + change.lines.count }

    // MARK: Forwarded methods

    var listener: Listener { stream.listener }
    var peer: PeerAddress { stream.peer }
    var companion: (any ConnectionCompanion)? {
        get { stream.companion }
        set { stream.companion = newValue }
    }
    var isMultiplexed: Bool { stream.isMultiplexed }
    var client: RequestClient { stream.client }
    func attribute(to client: RequestClient) { stream.attribute(to: client) }
    var security: ConnectionSecurity? { stream.security }
    func handOver(to exchange: any ClientExchange) { stream.handOver(to: exchange) }
    func startContentTotal() { stream.startContentTotal() }
    func pauseContent() { stream.pauseContent() }
    func resumeContent() { stream.resumeContent() }
    var isContinueAwaited: Bool { stream.isContinueAwaited }
    func sendContinue() { stream.sendContinue() }
    var hasPeerEnded: Bool { stream.hasPeerEnded }
    func sendInformational(_ head: ResponseHead) { stream.sendInformational(head) }
    var staysOpen: Bool { stream.staysOpen }
    func spareOutput() -> [UInt8] { stream.spareOutput() }
    var takesChunks: Bool { stream.takesChunks }
    func write(_ bytes: Span<UInt8>) -> Bool { stream.write(bytes) }
    func endResponse() { stream.endResponse() }
    func takeBackResponse() -> Bool { stream.takeBackResponse() }
    func abortResponse() { stream.abortResponse() }
}
