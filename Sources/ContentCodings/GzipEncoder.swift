// Encodes content with gzip.

import CZlib

/// Memory is allocated for the first content and kept, because allocating it each time costs three times as much as compressing a small
/// response. Not thread-safe: must be used by one thread at a time.
public final class GzipEncoder {
    private let large: Deflater
    private let small: Deflater

    public enum Effort: Int32, Sendable {
        /// zlib's fastest level, for a waiting client: JSON shrinks to a fifth. Better levels take three times as long for 10 % less.
        case fast = 1
        /// For content that is compressed once and sent often.
        case thorough = 6
    }

    public init(_ effort: Effort = .fast) {
        large = Deflater(effort, .large)
        small = Deflater(effort, .small)
    }

    /// Returns the coded content; nil if memory is exhausted, or the result is not shorter.
    public func encode(_ content: UnsafeRawBufferPointer) -> [UInt8]? {
        let deflater = content.count <= Deflater.Room.smallBytes ? small : large
        guard deflater.begin() else { return nil }
        let (stream, bytes) = (deflater.stream, content.bindMemory(to: UInt8.self))
        let coded = [UInt8](unsafeUninitializedCapacity: bytes.count) { space, count in
            stream.pointee.next_in = UnsafeMutablePointer(mutating: bytes.baseAddress)
            stream.pointee.avail_in = UInt32(clamping: bytes.count)
            stream.pointee.next_out = space.baseAddress
            stream.pointee.avail_out = UInt32(clamping: space.count)
            let isWhole = deflate(stream, Z_FINISH) == Z_STREAM_END
            count = isWhole ? space.count - Int(stream.pointee.avail_out) : 0
        }
        return coded.isEmpty ? nil : coded
    }

    /// Begins content that is coded in pieces.
    /// - Returns: false if memory is exhausted.
    public func begin() -> Bool { large.begin() }

    private var stream: UnsafeMutablePointer<z_stream> { large.stream }

    /// Encodes the next piece and flushes, so that the client can decode everything up to its end.
    public func code(_ piece: UnsafeRawBufferPointer, isLast: Bool) -> [UInt8] {
        let bytes = piece.bindMemory(to: UInt8.self)
        // Besides deflate's bound, a flush marker is needed.
        let bound = Int(deflateBound(stream, UInt(bytes.count))) + 64
        return [UInt8](unsafeUninitializedCapacity: bound) { space, count in
            stream.pointee.next_in = UnsafeMutablePointer(mutating: bytes.baseAddress)
            stream.pointee.avail_in = UInt32(clamping: bytes.count)
            stream.pointee.next_out = space.baseAddress
            stream.pointee.avail_out = UInt32(clamping: space.count)
            deflate(stream, isLast ? Z_FINISH : Z_SYNC_FLUSH)
            count = space.count - Int(stream.pointee.avail_out)
        }
    }

    /// Switches to copying without compression, which costs little. May be called only after a piece was coded.
    public func stopTrying() -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Self.blockBytes) { space, count in
            stream.pointee.avail_in = 0
            stream.pointee.next_out = space.baseAddress
            stream.pointee.avail_out = UInt32(clamping: space.count)
            deflateParams(stream, Z_NO_COMPRESSION, Z_DEFAULT_STRATEGY)
            count = space.count - Int(stream.pointee.avail_out)
        }
    }

    /// Upper bound for the end of a block, in bytes.
    private static let blockBytes = 256

    /// Memory of zlib for one content, in bytes.
    public static let heldBytes = 256 << 10
}

/// A zlib stream.
private final class Deflater {
    /// Size of zlib's tables. They are cleared for each content, which takes longer than compressing a small one.
    enum Room {
        case small, large

        /// Maximum length of content for which the small tables are sufficient, in bytes.
        static let smallBytes = 1 << 12

        fileprivate var windowBits: Int32 { self == .small ? 12 : MAX_WBITS }
        fileprivate var memoryLevel: Int32 { self == .small ? 5 : 8 }
    }

    let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
    private var isReady = false
    private let effort: GzipEncoder.Effort
    private let room: Room

    init(_ effort: GzipEncoder.Effort, _ room: Room) {
        (self.effort, self.room) = (effort, room)
        stream.initialize(to: z_stream())
    }

    deinit {
        if isReady { deflateEnd(stream) }
        stream.deallocate()
    }

    /// - Returns: false if memory is exhausted.
    func begin() -> Bool {
        if isReady {
            deflateReset(stream)
        } else {
            isReady = cistern_deflate_init_gzip(stream, effort.rawValue, room.windowBits, room.memoryLevel) == Z_OK
        }
        return isReady
    }
}
