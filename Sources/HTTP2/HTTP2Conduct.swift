// How a peer behaves: floods of frames that cost us more than they cost it, and streams that are begun only to be reset. Pure; the clock is
// passed in. What a good peer does in numbers, the work that it asks for, gives it as many frames more.

/// So many frames that carry nothing, each second: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, GOAWAY, empty DATA, frames that are not known. For each
/// frame of content that is sent there may be two more: their receiver gives windows back.
public struct HTTP2ControlBudget: Sendable {
    private let perSecond: Int
    private var left: Int
    private var refilled: Int64

    public init(perSecond: Int, now: Int64) { (self.perSecond, left, refilled) = (perSecond, perSecond, now) }

    /// - Returns: false where there are too many.
    public mutating func take(_ frame: HTTP2FrameHead, now: @autoclosure () -> Int64) -> Bool {
        frame.isControl ? take(now: now()) : true
    }

    /// The same for one on a stream that is over, of which nobody hears.
    public mutating func takeLate(now: Int64) -> Bool { take(now: now) }

    private mutating func take(now: Int64) -> Bool {
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

    public mutating func sentContent() { left = min(perSecond, left + Self.framesForContent) }

    private static let framesForContent = 2
}

extension HTTP2FrameHead {
    /// The longest padding and its length.
    private static let paddingBytes = 256
    private var isPadded: Bool { flags & 0x8 != 0 }

    fileprivate var isControl: Bool {
        switch kind {
        case .headers, .reset, .continuation, .pushPromise: false
        // Padding can be all that there is in it.
        case .data: !endsStream && (length == 0 || isPadded && length <= Self.paddingBytes)
        case .priority, .settings, .ping, .goAway, .windowUpdate, nil: true
        }
    }
}

/// h2o's `reset_budget`: each stream that either side resets, but for our own faults, costs one (Rapid Reset, CVE-2023-44487; MadeYouReset,
/// CVE-2025-8671), each one that ends well gives one back, and so do some with time: who types a search cancels many.
public struct HTTP2ResetBudget: Sendable {
    private let limit: Int
    private var left: Int
    private var refilled: Int64

    public static let perSecond: Int64 = 10

    public init(limit: Int, now: Int64) { (self.limit, left, refilled) = (limit, limit, now) }

    /// - Returns: false where there were too many.
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

/// The streams of a peer that are over, as far as it matters what it still sends on them (RFC 9113 §5.1, §5.1.1). Only what is certain is held
/// against it, since what is on its way while we reset a stream is no fault.
public struct HTTP2StreamMemory: Sendable {
    private var highest: Int32 = 0
    /// The last ones that the peer has ended, or both sides.
    private var ended: [Int32] = []
    private var nextEnded = 0
    /// The last ones that it has left out: never open, they are closed.
    private var skipped: [Range<Int32>] = []
    private var nextSkipped = 0

    private static let endedCount = 64
    private static let skippedCount = 8

    public init() {}

    /// - Returns: whether the frame would be wrong on a stream that is over, and its stream is not a new one.
    public mutating func note(_ frame: HTTP2FrameHead) -> Bool {
        guard frame.kind == .headers || frame.kind == .data else { return false }
        if frame.stream <= highest { return true }
        if frame.kind == .headers { begin(frame.stream) }
        return false
    }

    /// What is wrong with such a frame on a stream that is not open.
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
