// Limits for the behavior of an HTTP/2 peer. They stop floods of frames that cost the receiver more than the sender, and streams that are
// opened only to be reset. Pure; the time is an argument. A peer that causes useful work may send correspondingly more such frames.

/// Limits frames without content per second: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, GOAWAY, empty DATA and unknown frames. Each sent
/// frame of content permits two more, for example PING frames by which gRPC measures the bandwidth. WINDOW_UPDATE frames that can
/// acknowledge sent content do not count, because their number depends on how the peer's application reads.
public struct HTTP2ControlBudget: Sendable {
    private let perSecond: Int
    private var left: Int
    private var refilled: Int64
    /// Number of WINDOW_UPDATE frames that can acknowledge content sent so far.
    private var acknowledgements = 0

    public init(perSecond: Int, now: Int64) { (self.perSecond, left, refilled) = (perSecond, perSecond, now) }

    /// Counts a received frame.
    /// - Returns: false if the limit is exceeded.
    public mutating func take(_ frame: HTTP2FrameHead, now: @autoclosure () -> Int64) -> Bool {
        if frame.kind == .windowUpdate, acknowledgements > 0 {
            acknowledgements -= 1
            return true
        }
        return frame.isControl ? take(now: now()) : true
    }

    /// Counts a frame, in particular one on a closed stream, which has no other effect.
    /// - Returns: false if the limit is exceeded.
    public mutating func take(now: Int64) -> Bool {
        if now > refilled {
            let more = min(Int64(perSecond), (now - refilled) * Int64(perSecond) / 1_000)
            if more > 0 {
                left = min(perSecond, left + Int(more))
                refilled = now
            }
        }
        guard left > 0 else { return false }
        left -= 1
        return true
    }

    /// Records a sent frame of content.
    public mutating func sentContent(bytes: Int) {
        left = min(perSecond, left + Self.framesForContent)
        acknowledgements = min(Self.acknowledgementLimit, acknowledgements + Self.levels * bytes)
    }

    private static let framesForContent = 2
    /// Flow control has two levels, the stream and the connection. A receiver acknowledges each byte at most once on each of them. Older
    /// versions of Go's net/http2 acknowledge each read of the application, even of one byte; newer versions acknowledge 4 KiB.
    private static let levels = 2
    /// Limits a flood after content that was acknowledged in large pieces. Allows 1 MiB in transit to be acknowledged byte by byte, and
    /// the largest window, 2 GiB, in pieces of 2 KiB.
    private static let acknowledgementLimit = levels << 20
}

extension HTTP2FrameHead {
    /// Length of the longest padding, including its length byte.
    private static let paddingBytes = 256
    private var isPadded: Bool { flags & 0x8 != 0 }

    fileprivate var isControl: Bool {
        switch kind {
        case .headers, .reset, .continuation, .pushPromise: false
        // Such a frame may consist of padding only.
        case .data: !endsStream && (length == 0 || isPadded && length <= Self.paddingBytes)
        case .priority, .settings, .ping, .goAway, .windowUpdate, nil: true
        }
    }
}

/// Limits stream resets, like the `reset_budget` of h2o. Each stream that either side resets costs one unit, except for errors on our side
/// (Rapid Reset, CVE-2023-44487; MadeYouReset, CVE-2025-8671). Each stream that ends normally returns one unit. Some units return over
/// time, because interactive search legitimately cancels many requests.
public struct HTTP2ResetBudget: Sendable {
    private let limit: Int
    private var left: Int
    private var refilled: Int64

    public static let perSecond: Int64 = 10

    public init(limit: Int, now: Int64) { (self.limit, left, refilled) = (limit, limit, now) }

    /// Takes a unit for a reset stream.
    /// - Returns: false if the budget is exhausted.
    public mutating func take(now: Int64) -> Bool {
        let more = min(Int64(limit), max(0, now - refilled) * Self.perSecond / 1_000)
        if more > 0 {
            left = min(limit, left + Int(more))
            refilled = now
        }
        guard left > 0 else { return false }
        left -= 1
        return true
    }

    public mutating func endedWell() { left = min(limit, left + 1) }
}

/// Records the closed streams of a peer, to detect violations by later frames on them (RFC 9113 §5.1, §5.1.1). Frames that were in transit
/// while we reset a stream are legitimate and not counted.
public struct HTTP2StreamMemory: Sendable {
    private var highest: Int32 = 0
    /// The last streams that the peer, or both sides, have ended.
    private var ended: [Int32] = []
    private var nextEnded = 0
    /// The last ranges of stream numbers that the peer has skipped. These streams were never open and are closed.
    private var skipped: [Range<Int32>] = []
    private var nextSkipped = 0

    private static let endedCount = 64
    private static let skippedCount = 8

    public init() {}

    /// Records a frame.
    /// - Returns: whether the frame would be a violation if its stream is closed, and the stream is not a new one.
    public mutating func note(_ frame: HTTP2FrameHead) -> Bool {
        guard frame.kind == .headers || frame.kind == .data else { return false }
        if frame.stream <= highest { return true }
        if frame.kind == .headers { begin(frame.stream) }
        return false
    }

    /// The error code for such a frame on a closed stream; nil if the frame may be legitimate.
    public func fault(of frame: HTTP2FrameHead) -> HTTP2ErrorCode? {
        if skipped.contains(where: { $0.contains(frame.stream) }), frame.stream % 2 == 1 { return .protocolError }
        return ended.contains(frame.stream) ? .streamClosed : nil
    }

    private mutating func begin(_ stream: Int32) {
        if stream % 2 == 1, stream - highest > 2 { Self.put(highest + 1..<stream, &skipped, &nextSkipped, Self.skippedCount) }
        highest = stream
    }

    public mutating func end(_ stream: Int32) { Self.put(stream, &ended, &nextEnded, Self.endedCount) }

    private static func put<Value>(_ value: Value, _ ring: inout [Value], _ next: inout Int, _ limit: Int) {
        if ring.count < limit { return ring.append(value) }
        ring[next] = value
        next = (next + 1) % limit
    }
}
