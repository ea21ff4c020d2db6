// Puts the gzip coding on a stored answer for a client that asked for it.

import CZlib

enum GzipEncoder {
    /// zlib's fastest: JSON shrinks to a fifth with it, and better levels cost three times as much for a tenth more.
    private static let level: Int32 = 1

    /// nil where there is no memory, or nothing is won.
    static func encode(_ content: UnsafeRawBufferPointer) -> [UInt8]? {
        var stream = z_stream()
        guard cistern_deflate_init_gzip(&stream, level) == Z_OK else { return nil }
        defer { deflateEnd(&stream) }
        let bytes = content.bindMemory(to: UInt8.self)
        let coded = [UInt8](unsafeUninitializedCapacity: bytes.count) { space, count in
            stream.next_in = UnsafeMutablePointer(mutating: bytes.baseAddress)
            stream.avail_in = UInt32(clamping: bytes.count)
            stream.next_out = space.baseAddress
            stream.avail_out = UInt32(clamping: space.count)
            let isWhole = deflate(&stream, Z_FINISH) == Z_STREAM_END
            count = isWhole ? space.count - Int(stream.avail_out) : 0
        }
        return coded.isEmpty ? nil : coded
    }
}
