// An upstream client with its own event loop, without a proxy, and a recorder of its transfers.

import Dispatch
import Figures
import HTTPCore
import Reactor
import TestSupport

@testable import Upstream

/// Records the events of a transfer.
final class Recorder: TransferReceiver, Sendable {
    struct State {
        var informational: [UInt16] = []
        var status: UInt16?
        /// Fields of the final head, one line each.
        var fields: [String] = []
        var content: [UInt8] = []
        var end: Result<Bool, UpstreamError.Kind>?
        var error: UpstreamError?
    }

    /// Written on the loop, read by the test.
    private let state = Mutex(State())
    private let ended = DispatchSemaphore(value: 0)
    /// Called within each event: 0 for a 1xx response, 1 for the head, 2 for content.
    private let onEvent: @Sendable (Transfer, Int) -> Void

    init(onEvent: @escaping @Sendable (Transfer, Int) -> Void = { _, _ in }) { self.onEvent = onEvent }

    var now: State { state.withLock { $0 } }

    /// Waits for the end of the transfer; nil after the timeout.
    func end(within milliseconds: Int = 20_000) -> Result<Bool, UpstreamError.Kind>? {
        guard ended.wait(timeout: .now() + .milliseconds(milliseconds)) == .success else { return nil }
        return now.end
    }

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {
        state.withLock { $0.informational.append(head.status.rawValue) }
        onEvent(transfer, 0)
    }

    func transfer(_ transfer: Transfer, received head: consuming ResponseHead) {
        state.withLock { state in
            state.status = head.status.rawValue
            state.fields = (0..<head.fields.count).map { place in
                String(decoding: head.fields.name(at: place), as: UTF8.self) + ": "
                    + String(decoding: head.fields.value(at: place), as: UTF8.self)
            }
        }
        onEvent(transfer, 1)
    }

    func transfer(_ transfer: Transfer, content: Span<UInt8>) {
        state.withLock { $0.content.append(copying: content) }
        onEvent(transfer, 2)
    }

    func transferEnded(_ transfer: Transfer, isDelimited: Bool) { end(.success(isDelimited)) }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        state.withLock { $0.error = error }
        end(.failure(error.kind))
    }

    func transferDrained(_ transfer: Transfer) {}

    private func end(_ result: Result<Bool, UpstreamError.Kind>) {
        state.withLock { $0.end = result }
        ended.signal()
    }
}

/// Protocol to the upstream. Most tests run with all of them.
enum Way: CaseIterable, Sendable {
    case clear, tls, http2, http2TLS

    /// HTTP/1.1 only, for tests of its framing.
    static let http1 = [Way.clear, .tls]
    static let multiplexed = [Way.http2, .http2TLS]

    var isTLS: Bool { self == .tls || self == .http2TLS }
    var isHTTP2: Bool { self == .http2 || self == .http2TLS }

    func origin(_ script: @escaping ScriptedOrigin.Script) -> ScriptedOrigin { ScriptedOrigin(tls: originTLS, script) }

    private var originTLS: OriginTLS? {
        switch self {
        case .clear, .http2: nil
        case .tls: SharedCertificates.tls
        case .http2TLS: SharedCertificates.http2TLS
        }
    }

    func prepare(_ settings: inout UpstreamSettings) {
        settings.isTLS = isTLS
        if isTLS { settings.caFile = SharedCertificates.authority }
        settings.http2 = isHTTP2 ? (isTLS ? .auto : .priorKnowledge) : .off
    }
}

/// An upstream client with its own event loop and a clock that stands still. `@unchecked Sendable` because the client is used on its loop
/// only.
final class Asking: @unchecked Sendable {
    let time = ManualTime()
    private let loop: EventLoop
    private let client: UpstreamClient
    /// Stopped together with this client.
    private let origin: ScriptedOrigin?
    /// Written on the loop, read by the test.
    private let seenAttempts = Mutex<[UpstreamError.Kind?]>([])

    convenience init(_ origin: ScriptedOrigin, isTLS: Bool, _ change: (inout UpstreamSettings) -> Void = { _ in }) {
        self.init(origin, isTLS ? .tls : .clear, change)
    }

    convenience init(_ origin: ScriptedOrigin, _ way: Way = .clear, _ change: (inout UpstreamSettings) -> Void = { _ in }) {
        var settings = UpstreamSettings(host: "127.0.0.1", port: origin.port)
        way.prepare(&settings)
        change(&settings)
        self.init(settings, origin)
    }

    init(_ settings: UpstreamSettings, _ origin: ScriptedOrigin? = nil) {
        self.origin = origin
        loop = EventLoop(label: "upstream.test", time: time)
        client = UpstreamClient(loop: loop, settings: settings)
        client.onConnectionAttempt = { [seenAttempts] error, _ in seenAttempts.withLock { $0.append(error?.kind) } }
        loop.start()
    }

    func end() {
        let done = DispatchSemaphore(value: 0)
        loop.execute { [self] in
            client.close()
            loop.stop { done.signal() }
        }
        done.wait()
    }

    func onLoop<R: Sendable>(_ work: @escaping @Sendable (UpstreamClient) -> R) -> R {
        guard let value = onLoop(until: .distantFuture, work) else { preconditionFailure("the loop has not worked") }
        return value
    }

    /// Returns nil if the loop has not done the work by then.
    func onLoop<R: Sendable>(until deadline: DispatchTime, _ work: @escaping @Sendable (UpstreamClient) -> R) -> R? {
        let done = DispatchSemaphore(value: 0)
        let result = Mutex<R?>(nil)
        loop.execute { [self] in
            let value = work(client)
            result.withLock { $0 = value }
            done.signal()
        }
        guard done.wait(timeout: deadline) == .success else { return nil }
        return result.withLock { $0 }
    }

    /// Whether an HTTP/2 connection exists that can carry another request.
    var hasOpenHTTP2Connection: Bool { onLoop { $0.connections.contains { $0.multiplexed.contains(where: \.hasCapacity) } } }

    var counters: Figures { onLoop { $0.counters } }

    func ended(_ cause: ConnectionEnd) -> UInt64 {
        zip(ConnectionEnd.allCases, 0...).first { $0.0 == cause }.map { counters.labelled[.upstreamEnded, $0.1] } ?? 0
    }

    /// Ended HTTP/2 exchanges, without causes that did not occur.
    var http2Ended: [HTTP2ExchangeEnd: UInt64] {
        let labelled = counters.labelled
        let counted = HTTP2ExchangeEnd.allCases.enumerated().map { ($1, labelled[.upstreamHTTP2Ended, $0]) }
        return Dictionary(uniqueKeysWithValues: counted.filter { $0.1 > 0 })
    }

    /// Connects in the background. Returns the error; nil on success.
    func attemptConnection() -> UpstreamError.Kind? {
        let done = DispatchSemaphore(value: 0)
        let result = Mutex<UpstreamError.Kind?>(nil)
        loop.execute { [self] in
            client.attemptConnection { error in
                result.withLock { $0 = error?.kind }
                done.signal()
            }
        }
        done.wait()
        return result.withLock { $0 }
    }

    /// Results of attempts to connect, as the client reports them.
    var attempts: [UpstreamError.Kind?] { seenAttempts.withLock { $0 } }

    /// Number of recorded transfers that still exist.
    func alive(_ seen: Seen) -> Int { onLoop { _ in seen.count } }

    static func request(
        _ method: String, _ target: String, content: ContentFraming = .none, shares: ConnectionShares = []
    ) -> UpstreamRequest {
        var fields = Fields()
        fields.append(.host, Array("a".utf8))
        var request = UpstreamRequest(
            method: Method(Array(method.utf8).span), target: Array(target.utf8)[...], fields: fields, content: content)
        request.shares = shares
        return request
    }

    /// Returns when the request has been sent, if there is a connection: at the end of the loop's batch of events.
    /// - Parameter then: receives the transfer, on the loop.
    func ask(
        _ method: String, _ target: String, content: ContentFraming = .none, shares: ConnectionShares = [],
        recorder: Recorder = Recorder(),
        then: @escaping @Sendable (Transfer?) -> Void = { _ in }
    ) -> Recorder {
        ask(Self.request(method, target, content: content, shares: shares), recorder: recorder, then: then)
    }

    func ask(
        _ request: UpstreamRequest, recorder: Recorder = Recorder(), then: @escaping @Sendable (Transfer?) -> Void = { _ in }
    ) -> Recorder {
        onLoop { client in then(client.start(request, receiver: recorder)) }
        onLoop { _ in }
        return recorder
    }

    /// Moves the clock until the transfer has ended. Returns the elapsed milliseconds, to half a second.
    func wait(for recorder: Recorder) -> (Result<Bool, UpstreamError.Kind>?, after: Int) {
        for step in 0..<1_000 {
            if let end = recorder.end(within: 10) { return (end, step * 500) }
            time.advance(by: .milliseconds(500))
        }
        return (nil, .max)
    }
}

/// Weak references to transfers. `@unchecked Sendable` because it is used on one loop only.
final class Seen: @unchecked Sendable {
    private struct Weak {
        weak var transfer: Transfer?
    }

    private var transfers: [Weak] = []

    func add(_ transfer: Transfer) -> Transfer {
        transfers.append(Weak(transfer: transfer))
        return transfer
    }

    var count: Int { transfers.count { $0.transfer != nil } }
}
