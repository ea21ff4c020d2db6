// What a recording keeps of an exchange: the client's request, and what the upstream sent for it, byte by byte. It stands beside the flow and
// changes nothing there: what cannot be held is left out of the recording, never out of the response.

import HTTPCore

/// One exchange, whole.
public struct RecordedExchange: Sendable {
    /// Its place among all, in the order in which their requests came.
    public let number: Int
    public let request: RequestHead
    public fileprivate(set) var requestContent: [UInt8] = []
    /// As the upstream sent it, without what concerned the connection.
    public fileprivate(set) var response = ResponseHead(status: 200)
    public fileprivate(set) var content: [UInt8] = []
    /// Milliseconds since 1970.
    public let started: Int64
    public fileprivate(set) var milliseconds: Int64 = 0
}

/// Why an exchange is not in the recording.
public enum NotRecordedReason: String, Sendable, CaseIterable {
    /// What is recorded already takes all memory that it may.
    case noRoom = "no_room"
    /// No replay would compare so long a content.
    case requestTooLong = "request_too_long"
    /// The upstream sent no response: what the client got is Cistern's own.
    case noResponse = "no_response"
    /// The client left, or the upstream broke off.
    case brokenOff = "broken_off"

    public var sentence: String {
        switch self {
        case .noRoom: "the recording was full"
        case .requestTooLong: "the request's content was too long"
        case .noResponse: "the upstream sent no response"
        case .brokenOff: "the response broke off, or the client left before its end"
        }
    }
}

/// Takes the exchanges of all shards.
public protocol ExchangeRecorder: AnyObject, Sendable {
    /// Longest content of a request that is recorded.
    var requestContentLimitBytes: Int { get }
    /// Returns the number of an exchange that begins.
    func begin() -> Int
    /// Whether so many more bytes may be held. They count until `leaveOut` gives them back, or for ever.
    func hold(_ bytes: Int) -> Bool
    func take(_ exchange: RecordedExchange)
    /// - Parameter held: bytes that are given back.
    func leaveOut(_ reason: NotRecordedReason, held: Int)
    /// How many exchanges were recorded, and left out by reason.
    var counts: [(result: String, count: UInt64)] { get }
}

/// Belongs to one exchange, on its shard's loop.
final class ExchangeRecording {
    private let recorder: any ExchangeRecorder
    private let began: Int64
    private var held = 0
    private var phase = Phase.request

    private var exchange: RecordedExchange

    private enum Phase {
        case request
        case response
        /// Recorded, or left out.
        case ended
    }

    /// - Parameters:
    ///   - started: milliseconds since 1970.
    ///   - began: the same moment by the loop's clock, in milliseconds.
    init(_ recorder: any ExchangeRecorder, _ request: RequestHead, content: [UInt8], started: Int64, began: Int64) {
        (self.recorder, self.began) = (recorder, began)
        exchange = RecordedExchange(number: recorder.begin(), request: request, started: started)
        _ = hold(Self.exchangeBytes + request.fields.bytes.count)
        addRequest(content.span)
    }

    /// What an exchange takes beside its fields and contents, about.
    private static let exchangeBytes = 512

    /// The upstream may respond before it has all of it.
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

    /// The response is whole.
    func end(at now: Int64) {
        guard phase == .response else { return }
        phase = .ended
        exchange.milliseconds = max(0, now - began)
        recorder.take(exchange)
    }

    /// The exchange is over, whole or not.
    func finish() {
        switch phase {
        case .request: leaveOut(.noResponse)
        case .response: leaveOut(.brokenOff)
        case .ended: break
        }
    }

    /// Where there is no room for more, it is left out as a whole.
    private func hold(_ count: Int) -> Bool {
        guard recorder.hold(count) else {
            leaveOut(.noRoom)
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
