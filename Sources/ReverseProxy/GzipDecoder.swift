// Takes the gzip coding off an answer that arrived whole, so that its JSON can be checked and one stored copy can serve every client.
// Bounded against bombs: by the size of what comes out and by how much larger it is than what went in.

import CZlib
import HTTPCore

enum GzipDecoder {
    /// Small inputs may unfold further than the ratio allows: a page of zeros is not an attack.
    private static let freeBytes = 1 << 20
    /// Ordinary JSON packs ten to thirty times, repetitive lists a hundred times; DEFLATE's own limit is about 1,030.
    private static let ratioLimit = 200

    enum Failure: Error {
        /// Not gzip, cut, or a wrong checksum.
        case damaged
        /// More than `limit`, or suspiciously more than the input.
        case tooLarge
    }

    /// The decoded content. Several gzip members in a row are one content (RFC 1952 §2.2); anything else after the end is damage.
    static func decode(_ content: [UInt8], limit: Int) throws(Failure) -> [UInt8] {
        let allowed = min(limit, max(freeBytes, content.count.multipliedReportingOverflow(by: ratioLimit).partialValue))
        var output: [UInt8] = []
        output.reserveCapacity(min(allowed, content.count * 4))
        var offset = 0
        repeat {
            offset += try decodeMember(content, from: offset, into: &output, allowed: allowed)
        } while offset < content.count
        return output
    }

    /// Returns how many bytes of `content` the member took.
    private static func decodeMember(_ content: [UInt8], from offset: Int, into output: inout [UInt8], allowed: Int) throws(Failure) -> Int
    {
        var stream = z_stream()
        guard cistern_inflate_init_gzip(&stream) == Z_OK else { throw .damaged }
        defer { inflateEnd(&stream) }
        var piece = [UInt8](repeating: 0, count: 64 * 1024)
        let available = content.count - offset
        var result = Z_OK
        var taken = 0
        while result == Z_OK {
            let before = output.count
            content.withUnsafeBufferPointer { input in
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress! + offset + taken)
                stream.avail_in = UInt32(clamping: available - taken)
                piece.withUnsafeMutableBufferPointer { space in
                    stream.next_out = space.baseAddress
                    stream.avail_out = UInt32(space.count)
                    result = inflate(&stream, Z_NO_FLUSH)
                    output.append(contentsOf: space[..<(space.count - Int(stream.avail_out))])
                }
                taken = available - Int(stream.avail_in)
            }
            guard output.count <= allowed else { throw .tooLarge }
            if result == Z_OK, taken == available, output.count == before { throw .damaged }
        }
        guard result == Z_STREAM_END else { throw .damaged }
        return taken
    }
}
