// Serves a recording on our own listener, with no upstream at all. Which response a request gets is said by `Archives/Replay`.

import Archives
import CachePolicy
import Downstream
import Forwarding
import Glibc
import HTTPCore
import Reactor

/// `@unchecked Sendable` because what changes after `init` is touched on `loop` only.
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

    /// Lets running responses finish. Blocks until all is done.
    /// - Returns: what was served and what was not.
    func stop(deadline: Duration, then: @escaping @Sendable (Replay) -> Void) {
        loop.execute { [self] in
            listener.close()
            connections.drain(deadline: deadline) { [self] in
                let replay = receiver.replay
                loop.stop { then(replay) }
            }
        }
    }
}

struct ReplayOptions {
    var order = ReplayOrder.repeating
    /// Responses take as long as they took.
    var delays = false
    /// Whose scripts may read all; empty: what was recorded holds.
    var origins: [String] = []
}

enum ReplayLimits {
    /// Longest content of a request that is compared with what was recorded; a recording keeps none that is longer.
    static let contentBytes = 8 << 20
    /// Content up to this length is brought into one spelling on the loop; what is longer, by a thread beside it.
    static let comparedAtOnceBytes = 64 << 10
    /// So many requests without a recorded response are logged with a line each.
    static let loggedRefusals = 1_000
}

/// `@unchecked Sendable` because it is touched on its loop only; the worker does no more than carry keys back there.
private final class ReplayReceiver: RequestReceiver, @unchecked Sendable {
    fileprivate var replay: Replay
    let loop: EventLoop
    let budget: ContentBudget
    let worker: LoopWorker
    let secrets: SecretCovering
    let leave: ReplayLeave
    private let responses: [ReplayResponse]
    private let delays: Bool
    private var logged = 0

    init(_ recording: Recording, _ options: ReplayOptions, loop: EventLoop, budget: ContentBudget) {
        replay = Replay(recording.requests, order: options.order)
        leave = ReplayLeave(recording.requests.map(\.response), origins: options.origins)
        (responses, secrets, delays, self.loop, self.budget) = (recording.responses, recording.secrets, options.delays, loop, budget)
        worker = LoopWorker(loop: loop)
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

    /// What a request gets, and how long that takes.
    func respond(to request: ReplayRequest, _ head: RequestHead) -> (response: Response, delay: Duration) {
        loop.assertOnLoop()
        if head.method == .options, let lines = leave.preflight(head) {
            let number = replay.serveIfRecorded(request)
            guard let number, !leave.replacesRecorded else { return (.preflight(lines), .zero) }
            return recorded(number)
        }
        switch replay.respond(to: request) {
        case .serve(let number):
            return recorded(number)
        case .refuse(let refusal):
            let sentence = replay.sentence(refusal, to: request)
            log(sentence)
            var own = OwnResponse(status: 404, sentence: sentence, accept: head.fields.combined(.accept))
            if own.contentType.isProblem { own.content = replay.problem(refusal, to: request, status: 404) }
            return (.own(own), .zero)
        }
    }

    private func recorded(_ number: Int) -> (Response, Duration) {
        (.recorded(responses[number]), delays ? .milliseconds(responses[number].duration) : .zero)
    }

    enum Response {
        case recorded(ReplayResponse)
        /// One that was not recorded, and is allowed: the lines of what it allows.
        case preflight([UInt8])
        case own(OwnResponse)
    }

    /// What tests and people look for when something fails.
    private func log(_ sentence: String) {
        logged += 1
        if logged <= ReplayLimits.loggedRefusals { StandardError.write("cistern: \(sentence)\n") }
        if logged == ReplayLimits.loggedRefusals { StandardError.write("cistern: further requests like that are counted only\n") }
    }
}

extension StaticString {
    fileprivate var isProblem: Bool { description == "application/problem+json" }
}

/// One request: takes its content, and sends what it gets. `@unchecked Sendable` because it is touched on its loop only; the worker does no more
/// than carry it back there.
private final class ReplayExchange: ClientExchange, @unchecked Sendable {
    private let receiver: ReplayReceiver
    private let head: RequestHead
    /// nil once the response is sent, or the client is gone.
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
        case .streamed(.tooLong): refuse(413, "A replay compares no content longer than \(ReplayLimits.contentBytes >> 20) MiB.")
        case .streamed(.noRoom): refuse(503, "Other requests hold so much content that there is no room for this one's.")
        }
    }

    func requestEnded() {
        guard stream != nil else { return }
        guard content.count > ReplayLimits.comparedAtOnceBytes else { return respond(to: Self.compared(head, content, receiver.secrets)) }
        receiver.worker.perform(content.count) { [head, content, secrets = receiver.secrets] in
            Self.compared(head, content, secrets)
        } then: {
            self.respond(to: $0)
        }
    }

    private static func compared(_ head: RequestHead, _ content: [UInt8], _ secrets: SecretCovering) -> ReplayRequest {
        ReplayRequest(
            method: head.method.bytes, target: Array(RequestTarget.escaped(head.pathAndQuery)), fields: head.fields, content: content,
            secrets)
    }

    private func respond(to request: ReplayRequest) {
        // A client that has left takes no response from those that come.
        guard stream != nil else { return }
        let (response, delay) = receiver.respond(to: request, head)
        guard delay > .zero else { return send(response) }
        timer = receiver.loop.schedule(after: delay) { self.send(response) }
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
            own.fieldLines += receiver.leave.lines(for: head)
            stream.sendWhole(head: own.head(date: date), body: .bytes(own.content))
        case .preflight(let lines):
            var own = OwnResponse(status: 200, contentType: "text/plain; charset=utf-8", content: [])
            own.fieldLines += lines
            stream.sendWhole(head: own.head(date: date), body: .bytes([]))
        case .recorded(let recorded):
            let leave = receiver.leave
            let head =
                leave.replacesRecorded ? recorded.head.withUnsafeBytes(CrossOriginRules.strip) + leave.lines(for: head) : recorded.head
            stream.sendWhole(head: head + lines(of: recorded, date: date), body: .bytes(recorded.content))
        }
    }

    private func lines(of response: ReplayResponse, date: [UInt8]) -> [UInt8] {
        var lines: [UInt8] = []
        FieldSerializer.append(.date, date, to: &lines)
        // RFC 9110 §8.6: to HEAD it says what GET would bring.
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

    func clientLeft() {
        stream = nil
        timer?.cancel()
        timer = nil
    }

    func respondNow() { refuse(503, "The replay is stopping.") }
}
