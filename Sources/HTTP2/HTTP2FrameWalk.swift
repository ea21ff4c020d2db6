// Goes from frame to frame over the bytes of a connection and reads no more than their heads (RFC 9113 §4.1). The library does not tell of all
// frames: not of those that it ignores, which a flood may consist of.

public struct HTTP2FrameHead: Equatable, Sendable {
    public enum Kind: UInt8, Sendable {
        case data, headers, priority, reset, settings, pushPromise, ping, goAway, windowUpdate, continuation
    }

    public let length: Int
    /// nil for one that is not known.
    public let kind: Kind?
    public let flags: UInt8
    public let stream: Int32

    public var endsStream: Bool { flags & 0x1 != 0 }
    public var endsHeaders: Bool { flags & 0x4 != 0 }

    init(_ bytes: UnsafeRawBufferPointer) {
        length = Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
        kind = Kind(rawValue: bytes[3])
        flags = bytes[4]
        stream = Int32(bytes[5] & 0x7f) << 24 | Int32(bytes[6]) << 16 | Int32(bytes[7]) << 8 | Int32(bytes[8])
    }
}

public struct HTTP2FrameWalk: Sendable {
    /// Of the frame that is under way, bytes that are yet to come.
    public private(set) var rest: Int
    /// The beginning of a frame's head.
    private var begun: [UInt8] = []
    /// A field section has begun and not ended.
    public private(set) var isInSection = false

    /// A client's connection begins with so many bytes (RFC 9113 §3.4).
    public static let prefaceBytes = 24

    /// - Parameter skipping: bytes that come before the first frame.
    public init(skipping: Int = HTTP2FrameWalk.prefaceBytes) { rest = skipping }

    /// The next frame whose head ends within `bytes`, of which what lies before `position` has been walked over; nil where there is none.
    public mutating func next(_ bytes: UnsafeRawBufferPointer, _ position: inout Int) -> HTTP2FrameHead? {
        let skipped = min(rest, bytes.count - position)
        rest -= skipped
        position += skipped
        guard position < bytes.count else { return nil }
        let missing = HTTP2Session.frameHeadBytes - begun.count
        guard bytes.count - position >= missing else {
            begun += bytes[position...]
            position = bytes.count
            return nil
        }
        let head: HTTP2FrameHead
        if begun.isEmpty {
            head = HTTP2FrameHead(UnsafeRawBufferPointer(rebasing: bytes[position..<position + missing]))
        } else {
            begun += bytes[position..<position + missing]
            head = begun.withUnsafeBytes { HTTP2FrameHead($0) }
            begun = []
        }
        position += missing
        rest = head.length
        if head.kind == .headers || head.kind == .continuation { isInSection = !head.endsHeaders }
        return head
    }
}
