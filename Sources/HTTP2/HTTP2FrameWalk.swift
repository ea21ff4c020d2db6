// Iterates over the frames of a connection and reads only their heads (RFC 9113 §4.1). Needed because the library does not report frames
// that it ignores, and a flood may consist of those.

public struct HTTP2FrameHead: Equatable, Sendable {
    public enum Kind: UInt8, Sendable {
        case data, headers, priority, reset, settings, pushPromise, ping, goAway, windowUpdate, continuation
    }

    public let length: Int
    /// nil for an unknown type.
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
    /// Number of bytes of the current frame that are still missing.
    public private(set) var rest: Int
    /// The beginning of a frame's head.
    private var begun: [UInt8] = []
    /// Whether a field section has begun and not ended.
    public private(set) var isInSection = false

    /// Length of the client's connection preface (RFC 9113 §3.4).
    public static let prefaceBytes = 24

    /// - Parameter skipping: number of bytes before the first frame.
    public init(skipping: Int = HTTP2FrameWalk.prefaceBytes) { rest = skipping }

    /// Returns the next frame with a head that ends within `bytes`; nil if there is none. Bytes before `position` were already processed.
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
