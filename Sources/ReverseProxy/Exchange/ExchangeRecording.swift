// Records an exchange for an archive: the client's request and the upstream's response, byte for byte. Recording never changes the
// exchange. If memory is exhausted, the exchange is omitted from the archive.

import HTTPCore

public struct RecordedExchange: Sendable {
    /// Number of the exchange, in the order of the requests' arrival.
    public let number: Int
    public let request: RequestHead
    public fileprivate(set) var requestContent: [UInt8] = []
    /// The response as the upstream sent it, without hop-by-hop fields.
    public fileprivate(set) var response = ResponseHead(status: 200)
    public fileprivate(set) var content: [UInt8] = []
    /// Milliseconds since 1970.
    public let started: Int64
    public fileprivate(set) var milliseconds: Int64 = 0
}

public enum NotRecordedReason: String, Sendable, CaseIterable {
    /// The filters of the recording exclude the request.
    case excluded
    /// The recording has reached its memory limit.
    case noSpace = "no_room"
    /// The request content is longer than a replay compares.
    case requestTooLong = "request_too_long"
    /// The upstream sent no response; the client received a response from Cistern.
    case noResponse = "no_response"
    /// The client disconnected, or the response was truncated.
    case brokenOff = "broken_off"

    public var sentence: String {
        switch self {
        case .excluded: "the filters exclude the request"
        case .noSpace: "the recording was full"
        case .requestTooLong: "the request's content was too long"
        case .noResponse: "the upstream sent no response"
        case .brokenOff: "the response was truncated, or the client disconnected before its end"
        }
    }
}

/// Records the exchanges of all shards. Thread-safe.
public protocol ExchangeRecorder: AnyObject, Sendable {
    /// Maximum length of recorded request content, in bytes.
    var requestContentLimitBytes: Int { get }
    /// Returns the number of an exchange that begins; nil if it is not recorded.
    func begin(_ request: RequestHead) -> Int?
    /// Reserves memory, and returns whether it is available. It is released by `leaveOut` only.
    func hold(_ bytes: Int) -> Bool
    func take(_ exchange: RecordedExchange)
    /// - Parameter held: number of bytes to release.
    func leaveOut(_ reason: NotRecordedReason, held: Int)
    /// Numbers of exchanges: recorded, and not recorded by reason.
    var counts: [(result: String, count: UInt64)] { get }
}

/// Belongs to one exchange. Used on its shard's loop only.
final class ExchangeRecording {
    private let recorder: any ExchangeRecorder
    private let began: Int64
    private var held = 0
    private var phase = Phase.request

    private var exchange: RecordedExchange

    private enum Phase {
        case request
        case response
        /// The exchange is recorded or omitted.
        case ended
    }

    /// Returns nil if the exchange is not recorded.
    /// - Parameters:
    ///   - started: wall-clock time in milliseconds since 1970.
    ///   - began: time in milliseconds of the loop's clock.
    init?(_ recorder: any ExchangeRecorder, _ request: RequestHead, content: [UInt8], started: Int64, began: Int64) {
        guard let number = recorder.begin(request) else { return nil }
        (self.recorder, self.began) = (recorder, began)
        exchange = RecordedExchange(number: number, request: request, started: started)
        _ = hold(Self.exchangeBytes + request.fields.bytes.count)
        addRequest(content.span)
    }

    /// Approximate memory of an exchange without its fields and contents, in bytes.
    private static let exchangeBytes = 512

    /// Adds request content. The upstream may respond before it has received all of it.
    func addRequest(_ bytes: Span<UInt8>) {
        guard phase != .ended else { return }
        guard exchange.requestContent.count + bytes.count <= recorder.requestContentLimitBytes else { return leaveOut(.requestTooLong) }
        if hold(bytes.count) { exchange.requestContent.append(copying: bytes) }
    }

    func begin(_ response: ResponseHead) {
        guard phase == .request, hold(response.fields.bytes.count) else { return }
        exchange.response = response
        phase = .response
    }

    func add(_ bytes: Span<UInt8>) {
        guard phase == .response, hold(bytes.count) else { return }
        exchange.content.append(copying: bytes)
    }

    /// Records the exchange. The response is complete.
    func end(at now: Int64) {
        guard phase == .response else { return }
        phase = .ended
        exchange.milliseconds = max(0, now - began)
        recorder.take(exchange)
    }

    /// Ends the recording of the exchange, whether or not it is complete.
    func finish() {
        switch phase {
        case .request: leaveOut(.noResponse)
        case .response: leaveOut(.brokenOff)
        case .ended: break
        }
    }

    /// Reserves memory. If none is available, the whole exchange is omitted.
    private func hold(_ count: Int) -> Bool {
        guard recorder.hold(count) else {
            leaveOut(.noSpace)
            return false
        }
        held += count
        return true
    }

    private func leaveOut(_ reason: NotRecordedReason) {
        phase = .ended
        (exchange.requestContent, exchange.content) = ([], [])
        recorder.leaveOut(reason, held: held)
    }
}
