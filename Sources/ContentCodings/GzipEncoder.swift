// Puts the gzip coding on content.

import CZlib

/// Its memory is taken with the first content and kept: getting and giving it back each time cost three times as much as coding a
/// small response. Touched by one thread at a time.
public final class GzipEncoder {
    private let large: Deflater
    private let small: Deflater

    public enum Effort: Int32, Sendable {
        /// zlib's fastest, while a client waits: JSON shrinks to a fifth with it, and better levels cost three times as much for a tenth more.
        case fast = 1
        /// Once for many.
        case thorough = 6
    }

    public init(_ effort: Effort = .fast) {
        large = Deflater(effort, .large)
        small = Deflater(effort, .small)
    }

    /// nil where there is no memory, or nothing is won.
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

    /// Begins content that is coded piece by piece.
    /// - Returns: false where there is no memory.
    public func begin() -> Bool { large.begin() }

    private var stream: UnsafeMutablePointer<z_stream> { large.stream }

    /// Codes the next piece, and all of it: what comes out can be decoded up to its end.
    public func code(_ piece: UnsafeRawBufferPointer, isLast: Bool) -> [UInt8] {
        let bytes = piece.bindMemory(to: UInt8.self)
        // Beyond what deflate itself may need: the mark of a flush.
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

    /// From now on content is copied and not made shorter any more: what comes costs next to nothing. Only after a piece was coded.
    public func stopTrying() -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Self.blockBytes) { space, count in
            stream.pointee.avail_in = 0
            stream.pointee.next_out = space.baseAddress
            stream.pointee.avail_out = UInt32(clamping: space.count)
            deflateParams(stream, Z_NO_COMPRESSION, Z_DEFAULT_STRATEGY)
            count = space.count - Int(stream.pointee.avail_out)
        }
    }

    /// More than the end of a block takes.
    private static let blockBytes = 256

    /// What zlib takes of memory for one content.
    public static let heldBytes = 256 << 10
}

/// One of zlib's states.
private final class Deflater {
    /// What zlib works with. For each content it clears tables as large as this allows, which takes longer than coding a small one.
    enum Room {
        case small, large

        /// Of content for which the small one does as well.
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

    /// - Returns: false where there is no memory.
    func begin() -> Bool {
        if isReady {
            deflateReset(stream)
        } else {
            isReady = cistern_deflate_init_gzip(stream, effort.rawValue, room.windowBits, room.memoryLevel) == Z_OK
        }
        return isReady
    }
}
