// Forwards requests that a recording lacks to one upstream, and keeps their exchanges for the archive (`replay --capture-missing`). Neither
// the target nor the Host of a request can select another upstream.

import Archives
import CachePolicy
import Downstream
import Forwarding
import HTTPCore
import JSON
import Reactor
import Upstream

struct CaptureSettings {
    let upstream: UpstreamURL
    /// Base URL of captured exchanges in the archive: that of the recorded ones, so that one replay serves both.
    let base: ArchiveOrigin
    let writer: ArchiveWriter
    /// Maximum memory of captured exchanges, and of responses that arrive.
    let limitBytes: Int
}

/// `@unchecked Sendable` because mutable state is confined to `loop`; the worker thread gets only values.
final class MissingCapture: @unchecked Sendable {
    enum Outcome: Sendable {
        /// - Parameter captured: the exchange as a later replay of the archive reads it; nil if it cannot be replayed.
        case response(ReplayResponse, captured: (request: ReplayRequest, fields: Fields, response: ReplayResponse)?)
        /// - Parameter reason: a sentence.
        case failed(reason: String)
    }

    let loop: EventLoop
    private let settings: CaptureSettings
    private let recording: Recording
    private let worker: LoopWorker
    private let client: UpstreamClient
    private let fields: UpstreamRequestFields
    private let location: LocationRewriting
    /// Captured exchanges as texts of the archive.
    private(set) var entries: [[UInt8]] = []
    private var heldBytes = 0

    /// Maximum number of connections to the upstream. Further requests wait.
    private static let connectionLimit = 32

    init(_ settings: CaptureSettings, _ recording: Recording, loop: EventLoop, _ worker: LoopWorker) {
        (self.settings, self.recording, self.loop, self.worker) = (settings, recording, loop, worker)
        let url = settings.upstream
        var upstream = UpstreamSettings(host: url.host, port: url.port)
        (upstream.isTLS, upstream.basePath, upstream.maximumConnections) = (url.isTLS, url.path, Self.connectionLimit)
        client = UpstreamClient(loop: loop, settings: upstream)
        // Via with a name of this process detects an upstream that forwards to this replay.
        fields = UpstreamRequestFields(
            settings: ForwardingSettings(), authority: Array(upstream.authority.utf8),
            instance: String(UInt64.random(in: .min ... .max), radix: 16))
        location = LocationRewriting(
            isOn: true, origin: Array(upstream.origin.lowercased().utf8), basePath: Array(upstream.basePath.utf8))
    }

    /// Must be called before the loop stops.
    func close() { client.close() }

    /// - Parameter then: called on the loop with the outcome, unless the transfer is cancelled.
    /// - Returns: the transfer; nil if `then` was called already.
    func forward(
        _ head: RequestHead, _ content: [UInt8], of owner: RequestClient, then: @escaping @Sendable (Outcome) -> Void
    ) -> Transfer? {
        if let refusal = RequestRefusal(head, fields) {
            let sentence = String(decoding: refusal.response(accept: nil, name: fields.settings.name).content.dropLast(), as: UTF8.self)
            then(.failed(reason: sentence))
            return nil
        }
        var origin = UpstreamRequestFields.Client(address: owner.text, isIPv6: owner.isIPv6, host: head.host)
        (origin.isSecure, origin.isTrusted) = (owner.isSecure, false)
        var sent = fields.make(from: head, client: origin, UpstreamFieldRules())
        // A 304 cannot be replayed, and contents are stored decoded.
        Validation.removeConditions(from: &sent)
        if sent.contains(.acceptEncoding) { sent.set(.acceptEncoding, AcceptedCoding.passedOn(sent)) }
        let request = UpstreamRequest(
            method: head.method, target: head.pathAndQuery, fields: sent, content: content.isEmpty ? .none : .length(content.count))
        guard let transfer = client.start(request, receiver: CaptureReceiver(self, head, content, then)) else {
            then(.failed(reason: "Too many requests wait for the upstream."))
            return nil
        }
        if !content.isEmpty { transfer.write(whole: content) }
        return transfer
    }

    fileprivate func hold(_ bytes: Int) -> Bool {
        guard heldBytes + bytes <= settings.limitBytes else { return false }
        heldBytes += bytes
        return true
    }

    fileprivate func release(_ bytes: Int) { heldBytes -= bytes }

    /// Prepares a complete exchange on the worker thread.
    fileprivate func take(
        _ head: RequestHead, _ requestContent: [UInt8], _ response: ResponseHead, _ content: [UInt8], started: Int64, duration: Int64,
        then: @escaping @Sendable (Outcome) -> Void
    ) {
        worker.perform(content.count) { [settings, recording, location] in
            let fields = response.fields.removingHopByHop()
            let exchange = ArchivedExchange(
                head, requestContent, ResponseHead(status: response.status, fields: location.kept(fields) ?? fields), content,
                upstream: settings.base.description, started: started, duration: duration)
            let entry = settings.writer.text(exchange)
            let now = started / 1_000
            // Read as a later replay reads it, so that both serve equal responses, without secrets.
            let captured = JSONValue(entry).flatMap { recording.prepare(captured: $0, of: settings.base, now: now) }
            return (entry: entry, captured: captured, response: ReplayResponse(exchange, origins: recording.origins, now: now))
        } then: { [self] made in
            var captured = made.captured
            if let one = captured, hold(made.entry.count + one.response.content.count) {
                entries.append(made.entry)
            } else {
                captured = nil
            }
            then(.response(made.response, captured: captured))
        }
    }
}

/// Collects the response to one forwarded request.
private final class CaptureReceiver: TransferReceiver {
    private let capture: MissingCapture
    private let head: RequestHead
    private let requestContent: [UInt8]
    private let then: @Sendable (MissingCapture.Outcome) -> Void
    private let started: Int64
    private let began: Int64
    private var response = ResponseHead(status: 200)
    private var content: [UInt8] = []

    init(
        _ capture: MissingCapture, _ head: RequestHead, _ content: [UInt8], _ then: @escaping @Sendable (MissingCapture.Outcome) -> Void
    ) {
        (self.capture, self.head, requestContent, self.then) = (capture, head, content, then)
        (started, began) = (capture.loop.batchWallMilliseconds, capture.loop.time.monotonicMilliseconds)
    }

    deinit { capture.release(content.count) }

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {}

    func transfer(_ transfer: Transfer, received head: consuming ResponseHead) { response = head }

    func transfer(_ transfer: Transfer, content bytes: Span<UInt8>) {
        guard capture.hold(bytes.count) else {
            transfer.cancel()
            return then(.failed(reason: "Captured responses fill the limit, so this response cannot be captured."))
        }
        content.append(copying: bytes)
    }

    func transferEnded(_ transfer: Transfer, isDelimited: Bool) {
        let duration = max(0, capture.loop.time.monotonicMilliseconds - began)
        capture.take(head, requestContent, response, content, started: started, duration: duration, then: then)
    }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        then(.failed(reason: "The upstream sent no complete response: \(error.text)."))
    }

    func transferDrained(_ transfer: Transfer) {}
}
