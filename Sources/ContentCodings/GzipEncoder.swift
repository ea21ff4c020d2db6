// Puts the gzip coding on stored responses for clients that asked for it.

import CZlib

/// Its 256 KiB of memory are taken with the first response and kept: getting and giving them back each time cost three times as much as coding a
/// small response. Touched on its shard's loop only.
package final class GzipEncoder {
    private let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
    private var isReady = false

    /// zlib's fastest: JSON shrinks to a fifth with it, and better levels cost three times as much for a tenth more.
    private static let level: Int32 = 1

    package init() { stream.initialize(to: z_stream()) }

    deinit {
        if isReady { deflateEnd(stream) }
        stream.deallocate()
    }

    /// nil where there is no memory, or nothing is won.
    package func encode(_ content: UnsafeRawBufferPointer) -> [UInt8]? {
        guard begin() else { return nil }
        let bytes = content.bindMemory(to: UInt8.self)
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
    package func begin() -> Bool {
        if isReady { deflateReset(stream) } else { isReady = cistern_deflate_init_gzip(stream, Self.level) == Z_OK }
        return isReady
    }

    /// Codes the next piece, and all of it: what comes out can be decoded up to its end.
    package func code(_ piece: UnsafeRawBufferPointer, isLast: Bool) -> [UInt8] {
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

    /// What zlib takes of memory for one content.
    package static let heldBytes = 256 << 10
}
