// Serves a recording without an upstream. `Archives/Replay` selects the responses.

import Archives
import CachePolicy
import Downstream
import Forwarding
import Glibc
import HTTPCore
import Reactor

/// `@unchecked Sendable` because mutable state is confined to `loop` after `init`.
final class ReplayServer: @unchecked Sendable {
    let address: ListenAddress
    private let loop = EventLoop(label: "cistern.replay")
    private let connections: ClientConnections
    private let listener: Listener
    private let receiver: ReplayReceiver

    /// - Throws: `ListenError`.
    init(_ recording: Recording, _ options: ReplayOptions, at wanted: ListenAddress) throws(ListenError) {
        let socket = try BoundSocket(wanted, backlog: 4_096)
        var settings = DownstreamSettings()
        settings.contentLimitBytes = ReplayLimits.contentBytes
        settings.requestBufferBytes = ReplayLimits.contentBytes
        address = socket.address
        connections = ClientConnections(loop: loop, settings: settings)
        receiver = ReplayReceiver(recording, options, loop: loop, budget: ContentBudget(settings))
        listener = Listener(loop: loop, socket: socket, connections: connections, receiver: receiver)
    }

    func start() {
        loop.execute { [self] in
            connections.start()
            listener.start()
        }
        loop.start()
    }

    /// Stops the server after running responses have finished, at the latest after `deadline`. Returns at once.
    /// - Parameter then: called with the numbers of the replay, and with captured exchanges as texts of the archive.
    func stop(deadline: Duration, then: @escaping @Sendable (Replay, _ captured: [[UInt8]]) -> Void) {
        loop.execute { [self] in
            listener.close()
            connections.drain(deadline: deadline) { [self] in
                receiver.capture?.close()
                // The worker prepares captured responses in order, so this comes after them.
                receiver.worker.perform(0) {
                } then: { [self] in
                    let (replay, captured) = (receiver.replay, receiver.capture?.entries ?? [])
                    loop.stop { then(replay, captured) }
                }
            }
        }
    }
}

struct ReplayOptions {
    var order = ReplayOrder.repeating
    /// Whether responses are delayed by their recorded duration.
    var delays = false
    /// Origins with scripts that may read everything. Empty: the recorded permissions apply.
    var origins: [String] = []
    /// Where requests without a recorded response are forwarded; nil to refuse them.
    var capture: CaptureSettings?
}

enum ReplayLimits {
    /// Maximum length of request content that is recorded and compared.
    static let contentBytes = 8 << 20
    /// Maximum length of content that is normalized on the event loop, times the number of passes. Longer content is normalized by a worker
    /// thread.
    static let comparedAtOnceBytes = 64 << 10
    /// Maximum number of unmatched requests that are logged individually.
    static let loggedRefusals = 1_000
}

/// `@unchecked Sendable` because it is confined to its loop; the worker thread only passes the reference back to it.
private final class ReplayReceiver: RequestReceiver, @unchecked Sendable {
    fileprivate var replay: Replay
    let loop: EventLoop
    let budget: ContentBudget
    let worker: LoopWorker
    let secrets: SecretRedaction
    let rules: ReplayRules
    let cors: ReplayCORS
    let capture: MissingCapture?
    private var responses: [ReplayResponse]
    private let delays: Bool
    private var logged = 0

    init(_ recording: Recording, _ options: ReplayOptions, loop: EventLoop, budget: ContentBudget) {
        replay = Replay(recording.requests, order: options.order, needsVariant: options.capture != nil)
        cors = ReplayCORS(recording.requests.map(\.response), origins: options.origins)
        (responses, secrets, rules) = (recording.responses, recording.secrets, recording.rules)
        let worker = LoopWorker(loop: loop)
        (delays, self.loop, self.budget, self.worker) = (options.delays, loop, budget, worker)
        capture = options.capture.map { MissingCapture($0, recording, loop: loop, worker) }
    }

    func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        let exchange = ReplayExchange(self, request.head, stream)
        if request.framing != .none {
            stream.startContentTotal()
            stream.sendContinue()
        }
        return exchange
    }

    func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream) {}

    func respond(to request: ReplayRequest, _ head: RequestHead) -> Answer {
        loop.assertOnLoop()
        let decision = replay.serveIfRecorded(request)
        if head.method == .options, let lines = cors.preflight(head) {
            guard case .serve = decision, !cors.replacesRecorded else { return .send(.preflight(lines)) }
        }
        switch decision {
        case .serve(let number):
            return .send(.recorded(responses[number].echoing(request)), after: delays ? .milliseconds(responses[number].duration) : .zero)
        case .refuse(let refusal):
            if let capture, refusal.isUnknown { return .forward(capture, refusal) }
            return .send(refuse(refusal, request, head))
        }
    }

    /// - Parameter reason: why the request was not captured; nil if it was not forwarded.
    func refuse(_ refusal: ReplayRefusal, _ request: ReplayRequest, _ head: RequestHead, reason: String? = nil) -> Response {
        let difference = replay.difference(refusal, request)
        replay.note(refusal, of: request, difference, notCaptured: reason)
        let sentence = replay.sentence(refusal, to: request, difference) + (reason.map { " \($0)" } ?? "")
        log(sentence)
        var own = OwnResponse(status: 404, sentence: sentence, accept: head.fields.combined(.accept))
        if own.contentType.isProblem { own.content = replay.problem(refusal, status: 404, sentence) }
        return .own(own)
    }

    /// Returns the response to a request that was forwarded.
    func response(
        _ outcome: MissingCapture.Outcome, from capture: MissingCapture, _ refusal: ReplayRefusal, to request: ReplayRequest,
        _ head: RequestHead
    ) -> Response {
        switch outcome {
        case .captured(let captured, let response):
            // The response to an equal request may have been captured meanwhile.
            if head.method.isSafe, case .serve(let number) = replay.serveIfRecorded(request) {
                return .recorded(responses[number].echoing(request))
            }
            guard capture.keep(captured) else {
                _ = refuse(refusal, request, head, reason: capture.limitSentence)
                return .recorded(response)
            }
            replay.add(captured.request, response: captured.fields)
            responses.append(captured.response)
            return .recorded(response)
        case .notCaptured(let reason, let response):
            let refused = refuse(refusal, request, head, reason: reason)
            return response.map { .recorded($0) } ?? refused
        }
    }

    enum Answer {
        case send(Response, after: Duration = .zero)
        /// Forward the request. If that fails, refuse it for this reason.
        case forward(MissingCapture, ReplayRefusal)
    }

    enum Response {
        case recorded(ReplayResponse)
        /// An allowed preflight that was not recorded, with its field lines.
        case preflight([UInt8])
        case own(OwnResponse)
    }

    /// Logs an unmatched request, to explain failures of tests.
    private func log(_ sentence: String) {
        logged += 1
        if logged <= ReplayLimits.loggedRefusals { StandardError.write("cistern: \(sentence)\n") }
        if logged == ReplayLimits.loggedRefusals {
            StandardError.write("cistern: further requests without a recorded response are only counted\n")
        }
    }
}

extension StaticString {
    fileprivate var isProblem: Bool { description == "application/problem+json" }
}

/// A request: collects its content and sends the response. `@unchecked Sendable` because it is confined to its loop; the worker thread only
/// passes the reference back to it.
private final class ReplayExchange: ClientExchange, @unchecked Sendable {
    private let receiver: ReplayReceiver
    private let head: RequestHead
    /// nil after the response, or after the client has left.
    private var stream: (any ClientStream)?
    private let hold: ContentHold
    private var content: [UInt8] = []
    private var timer: LoopTimer?

    init(_ receiver: ReplayReceiver, _ head: RequestHead, _ stream: any ClientStream) {
        (self.receiver, self.head, self.stream) = (receiver, head, stream)
        hold = ContentHold(receiver.budget, limit: ReplayLimits.contentBytes)
    }

    func requestContent(_ bytes: Span<UInt8>) {
        guard stream != nil else { return }
        switch hold.take(bytes.count) {
        case .whole: content.append(copying: bytes)
        case .streamed(.tooLong): refuse(413, "A replay supports request content up to \(ReplayLimits.contentBytes >> 20) MiB.")
        case .streamed(.noCapacity): refuse(503, "The content of other requests fills the limit, so this request's content cannot be read.")
        }
    }

    func requestEnded() {
        guard stream != nil else { return }
        let compared = { @Sendable [head, content, secrets = receiver.secrets, rules = receiver.rules] in
            ReplayRequest(
                method: head.method.bytes, target: Array(RequestTarget.escaped(head.pathAndQuery)), fields: head.fields, content: content,
                secrets, rules)
        }
        guard content.count * receiver.rules.passes > ReplayLimits.comparedAtOnceBytes else { return respond(to: compared()) }
        receiver.worker.perform(content.count, compared) { self.respond(to: $0) }
    }

    private func respond(to request: ReplayRequest) {
        // If the client has disconnected, the request does not consume a recorded response.
        guard let stream else { return }
        switch receiver.respond(to: request, head) {
        case .send(let response, after: .zero): send(response)
        case .send(let response, let delay): timer = receiver.loop.schedule(after: delay) { self.send(response) }
        case .forward(let capture, let refusal):
            capture.forward(head, content, of: stream.client) { [self] outcome in
                send(receiver.response(outcome, from: capture, refusal, to: request, head))
            }
        }
    }

    private func send(_ response: ReplayReceiver.Response) {
        timer?.cancel()
        timer = nil
        guard let stream else { return }
        self.stream = nil
        content = []
        hold.giveBack()
        let date = HTTPDate.format(Int64(time(nil)))
        switch response {
        case .own(var own):
            own.fieldLines += receiver.cors.lines(for: head)
            stream.sendWhole(head: own.head(date: date), body: .bytes(own.content))
        case .preflight(let lines):
            var own = OwnResponse(status: 200, contentType: "text/plain; charset=utf-8", content: [])
            own.fieldLines += lines
            stream.sendWhole(head: own.head(date: date), body: .bytes([]))
        case .recorded(let recorded):
            let cors = receiver.cors
            let head =
                cors.replacesRecorded ? CrossOriginRules.strip(recorded.head.span) + cors.lines(for: head) : recorded.head
            stream.sendWhole(head: head + lines(of: recorded, date: date), body: .bytes(recorded.content))
        }
    }

    private func lines(of response: ReplayResponse, date: [UInt8]) -> [UInt8] {
        var lines: [UInt8] = []
        FieldSerializer.append(.date, date, to: &lines)
        // The response to HEAD has the Content-Length of GET's (RFC 9110 §8.6).
        let length = head.method == .head && response.content.isEmpty ? response.recordedLength : response.content.count
        if let length, !response.status.forbidsContent {
            lines += Array("Content-Length: \(length)\r\n".utf8)
        }
        return lines
    }

    private func refuse(_ status: Status, _ sentence: String) {
        send(.own(OwnResponse(status: status, sentence: sentence, accept: head.fields.combined(.accept))))
    }

    func responseDrained() {}

    /// A request that was forwarded continues, because the upstream may have acted on it.
    func clientLeft() {
        stream = nil
        timer?.cancel()
        timer = nil
    }

    func respondNow() { refuse(503, "The replay is stopping.") }
}
