// Forwards requests that a recording lacks to one upstream, and keeps their exchanges for the archive (`replay --capture-missing`). Neither
// the target nor the Host of a request can select another upstream.

import Archives
import CachePolicy
import Downstream
import Forwarding
import HTTPCore
import JSON
import Reactor
import ReverseProxy
import Upstream

/// An exchange as a later replay of the archive reads it.
struct CapturedExchange: Sendable {
    /// Text of the archive.
    let entry: [UInt8]
    let request: ReplayRequest
    /// Fields of the response.
    let fields: Fields
    let response: ReplayResponse
}

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
        /// - Parameter response: the upstream's response, with secrets.
        case captured(CapturedExchange, response: ReplayResponse)
        /// - Parameters:
        ///   - reason: a sentence.
        ///   - response: the upstream's response; nil if there is none.
        case notCaptured(reason: String, response: ReplayResponse? = nil)
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
    /// Forwarded requests without a complete response.
    private var running: [ObjectIdentifier: CaptureReceiver] = [:]

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

    /// Ends all running requests. Must be called before the loop stops.
    func close() {
        for receiver in running.values { receiver.end(.notCaptured(reason: "The replay stopped before the response was complete.")) }
        client.close()
    }

    /// - Parameter then: called once on the loop with the outcome, also if the client has left.
    func forward(
        _ head: RequestHead, _ content: [UInt8], of owner: RequestClient, then: @escaping @Sendable (Outcome) -> Void
    ) {
        guard !worker.isFull else { return then(.notCaptured(reason: "Too many responses wait to be captured.")) }
        if let refusal = RequestRefusal(head, fields) {
            let sentence = String(decoding: refusal.response(accept: nil, name: fields.settings.name).content.dropLast(), as: UTF8.self)
            return then(.notCaptured(reason: sentence))
        }
        var sent = fields.make(
            from: head, client: UpstreamRequestFields.Client(owner, head, isTrusted: false), UpstreamFieldRules())
        // A 304 cannot be replayed, and contents are stored decoded.
        Validation.removeConditions(from: &sent)
        if sent.contains(.acceptEncoding) { sent.set(.acceptEncoding, AcceptedCoding.passedOn(sent)) }
        let request = UpstreamRequest(
            method: head.method, target: head.pathAndQuery, fields: sent, content: content.isEmpty ? .none : .length(content.count))
        let receiver = CaptureReceiver(self, head, content, then)
        running[ObjectIdentifier(receiver)] = receiver
        guard let transfer = client.start(request, receiver: receiver) else {
            return receiver.end(.notCaptured(reason: "Too many requests wait for the upstream."))
        }
        if !content.isEmpty { transfer.write(whole: content) }
    }

    fileprivate func remove(_ receiver: CaptureReceiver) { running[ObjectIdentifier(receiver)] = nil }

    /// A sentence about a response that exceeds `CaptureSettings.limitBytes`.
    var limitSentence: String { "Captured responses fill the limit of \(settings.limitBytes >> 20) MiB, so the response is not captured." }

    /// Adds an exchange to the archive.
    /// - Returns: false if captured exchanges fill the limit.
    func keep(_ captured: CapturedExchange) -> Bool {
        guard hold(captured.entry.count + captured.response.content.count) else { return false }
        entries.append(captured.entry)
        return true
    }

    fileprivate func hold(_ bytes: Int) -> Bool {
        guard heldBytes + bytes <= settings.limitBytes else { return false }
        heldBytes += bytes
        return true
    }

    fileprivate func release(_ bytes: Int) { heldBytes -= bytes }

    /// Prepares a complete exchange on the worker thread. Releases the memory of the content afterwards.
    fileprivate func take(
        _ head: RequestHead, _ requestContent: [UInt8], _ response: ResponseHead, _ content: [UInt8], isDelimited: Bool, started: Int64,
        duration: Int64, then: @escaping @Sendable (Outcome) -> Void
    ) {
        worker.perform(content.count) { [settings, recording, location] in
            let fields = response.fields.removingHopByHop()
            let exchange = ArchivedExchange(
                head, requestContent, ResponseHead(status: response.status, fields: location.kept(fields) ?? fields), content,
                upstream: settings.base.description, started: started, duration: duration)
            let now = started / 1_000
            let response = ReplayResponse(exchange, origins: recording.origins, now: now)
            let isWhole = isDelimited || [.valid, .tooDeep, .lenient].contains(JSONTextChecker.check(exchange.content.span))
            if !isWhole, MediaType(of: fields)?.isJSON == true {
                return .notCaptured(
                    reason: "The connection ended within the JSON content, so the response is not captured.", response: response)
            }
            let entry = settings.writer.text(exchange)
            // Read as a later replay reads it, so that both serve equal responses, without secrets.
            guard let read = JSONValue(entry), let (request, fields, later) = recording.prepare(captured: read, of: settings.base, now: now)
            else {
                return .notCaptured(reason: "An archive cannot hold this exchange, so the response is not captured.", response: response)
            }
            return .captured(CapturedExchange(entry: entry, request: request, fields: fields, response: later), response: response)
        } then: { [self] (outcome: Outcome) in
            release(content.count)
            then(outcome)
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

    /// Ends the request without a complete response.
    func end(_ outcome: MissingCapture.Outcome) {
        capture.remove(self)
        capture.release(content.count)
        then(outcome)
    }

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {}

    func transfer(_ transfer: Transfer, received head: consuming ResponseHead) {
        response = head
        guard MediaType(of: response.fields)?.isEssence("text/event-stream") == true else { return }
        transfer.cancel()
        end(.notCaptured(reason: "An event stream cannot be captured."))
    }

    func transfer(_ transfer: Transfer, content bytes: Span<UInt8>) {
        guard capture.hold(bytes.count) else {
            transfer.cancel()
            return end(.notCaptured(reason: capture.limitSentence))
        }
        content.append(copying: bytes)
    }

    func transferEnded(_ transfer: Transfer, isDelimited: Bool) {
        let duration = max(0, capture.loop.time.monotonicMilliseconds - began)
        capture.remove(self)
        capture.take(
            head, requestContent, response, content, isDelimited: isDelimited, started: started, duration: duration, then: then)
    }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        end(.notCaptured(reason: "The upstream sent no complete response: \(error.text)."))
    }

    func transferDrained(_ transfer: Transfer) {}
}
