// Decodes stored gzip content. The store's checksum has already verified it, so gzip's checksum, which takes a third of the time, is
// skipped.

import CZlib

/// Not thread-safe: must be used by one thread at a time.
public final class StoredGzipDecoder {
    private let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)

    /// Lengths of the header and the trailer of a gzip member without options (RFC 1952 §2.3).
    private static let headBytes = 10
    private static let tailBytes = 8

    /// nil if memory is exhausted.
    public init?() {
        stream.initialize(to: z_stream())
        guard cistern_inflate_init_raw(stream) == Z_OK else {
            stream.deallocate()
            return nil
        }
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    /// - Parameter space: as long as the decoded content.
    /// - Returns: false if the content is not a single plain member with this length. `PieceDecoder` handles other members.
    public func decode(_ content: UnsafeRawBufferPointer, filling space: UnsafeMutableRawBufferPointer) -> Bool {
        let coded = content.dropFirst(Self.headBytes).dropLast(Self.tailBytes)
        guard !coded.isEmpty, content.starts(with: [0x1f, 0x8b, 0x08, 0x00]), inflateReset(stream) == Z_OK else { return false }
        let bytes = UnsafeRawBufferPointer(rebasing: coded).bindMemory(to: UInt8.self)
        stream.pointee.next_in = UnsafeMutablePointer(mutating: bytes.baseAddress)
        stream.pointee.avail_in = UInt32(clamping: bytes.count)
        stream.pointee.next_out = space.bindMemory(to: UInt8.self).baseAddress
        stream.pointee.avail_out = UInt32(clamping: space.count)
        return inflate(stream, Z_FINISH) == Z_STREAM_END && stream.pointee.avail_in == 0 && stream.pointee.avail_out == 0
    }
}
