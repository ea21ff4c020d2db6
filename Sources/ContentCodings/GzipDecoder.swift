// The gzip coding (RFC 1952), by zlib.

import CZlib

package enum GzipDecoder {
    package typealias Failure = ContentDecoder.Failure

    /// The decoded content. Several gzip members in a row are one content (RFC 1952 §2.2); anything else after the end is damage.
    /// - Parameter allowed: the most that may come out.
    package static func decode(_ content: [UInt8], allowed: Int) throws(Failure) -> [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(min(allowed, content.count * 4))
        // One space and one stream for all members: somebody may send them by the hundred thousand.
        var piece = [UInt8](repeating: 0, count: ContentDecoder.pieceBytes)
        // zlib remembers where its stream lies, so it must not move.
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        stream.initialize(to: z_stream())
        defer { stream.deallocate() }
        guard cistern_inflate_init_gzip(stream) == Z_OK else { throw .damaged }
        defer { inflateEnd(stream) }
        var offset = 0
        repeat {
            offset += try decodeMember(content[offset...], into: &output, by: &piece, stream, allowed: allowed)
            guard inflateReset(stream) == Z_OK else { throw .damaged }
        } while offset < content.count
        return output
    }

    /// Returns how many bytes of `content` the member took.
    private static func decodeMember(
        _ content: ArraySlice<UInt8>, into output: inout [UInt8], by piece: inout [UInt8], _ stream: UnsafeMutablePointer<z_stream>,
        allowed: Int
    ) throws(Failure) -> Int {
        let available = content.count
        var result = Z_OK
        var taken = 0
        while result == Z_OK {
            let before = output.count
            content.withUnsafeBufferPointer { input in
                stream.pointee.next_in = input.baseAddress.map { UnsafeMutablePointer(mutating: $0 + taken) }
                stream.pointee.avail_in = UInt32(clamping: available - taken)
                piece.withUnsafeMutableBufferPointer { space in
                    stream.pointee.next_out = space.baseAddress
                    stream.pointee.avail_out = UInt32(space.count)
                    result = inflate(stream, Z_NO_FLUSH)
                    output.append(contentsOf: space[..<(space.count - Int(stream.pointee.avail_out))])
                }
                taken = available - Int(stream.pointee.avail_in)
            }
            guard output.count <= allowed else { throw .tooLarge }
            if result == Z_OK, taken == available, output.count == before { throw .damaged }
        }
        guard result == Z_STREAM_END else { throw .damaged }
        return taken
    }
}
