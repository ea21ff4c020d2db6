// Takes the coding off a response that arrived whole, so that its JSON can be checked and one stored copy can serve every client. Bounded
// against bombs: by the size of what comes out and by how much larger it is than what went in.

import CBrotli
import CZstd
import HTTPCore

package enum ContentDecoder {
    package enum Failure: Error {
        /// Not what it says, cut, or a wrong checksum.
        case damaged
        /// More than `limit`, or suspiciously more than the input.
        case tooLarge
    }

    /// Small inputs may unfold further than the ratio allows: a page of zeros is not an attack.
    private static let freeBytes = 1 << 20
    /// Ordinary JSON packs ten to thirty times, repetitive lists a hundred times; DEFLATE's own limit is about 1,030.
    private static let ratioLimit = 200
    static let pieceBytes = 64 * 1024

    /// The decoded content.
    package static func decode(_ content: [UInt8], _ coding: ContentCoding, limit: Int) throws(Failure) -> [UInt8] {
        let allowed = min(limit, max(freeBytes, content.count.multipliedReportingOverflow(by: ratioLimit).partialValue))
        switch coding {
        case .identity: return content
        case .gzip: return try GzipDecoder.decode(content, allowed: allowed)
        case .brotli: return try decodeBrotli(content, allowed: allowed)
        case .zstd: return try decodeZstd(content, allowed: allowed)
        }
    }

    private static func decodeBrotli(_ content: [UInt8], allowed: Int) throws(Failure) -> [UInt8] {
        guard let decoder = BrotliDecoderCreateInstance(nil, nil, nil) else { throw .damaged }
        defer { BrotliDecoderDestroyInstance(decoder) }
        var output: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: pieceBytes)
        var result = BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT
        var left = content.count
        while result == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT {
            content.withUnsafeBufferPointer { input in
                var next = input.baseAddress.map { $0 + (content.count - left) }
                piece.withUnsafeMutableBufferPointer { space in
                    var out = space.baseAddress
                    var room = space.count
                    result = BrotliDecoderDecompressStream(decoder, &left, &next, &room, &out, nil)
                    output.append(contentsOf: space[..<(space.count - room)])
                }
            }
            guard output.count <= allowed else { throw .tooLarge }
        }
        guard result == BROTLI_DECODER_RESULT_SUCCESS, left == 0 else { throw .damaged }
        return output
    }

    /// Several frames in a row are one content (RFC 8878 §3).
    private static func decodeZstd(_ content: [UInt8], allowed: Int) throws(Failure) -> [UInt8] {
        guard !content.isEmpty, let decoder = ZSTD_createDStream() else { throw .damaged }
        defer { ZSTD_freeDStream(decoder) }
        // RFC 9659: in HTTP a window is at most 8 MiB.
        _ = ZSTD_DCtx_setParameter(decoder, ZSTD_d_windowLogMax, 23)
        var output: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: pieceBytes)
        var position = 0
        var rest = 1
        while position < content.count || rest != 0 {
            let before = (position, output.count)
            content.withUnsafeBufferPointer { input in
                var source = ZSTD_inBuffer(src: input.baseAddress, size: input.count, pos: position)
                piece.withUnsafeMutableBufferPointer { space in
                    var target = ZSTD_outBuffer(dst: space.baseAddress, size: space.count, pos: 0)
                    rest = ZSTD_decompressStream(decoder, &target, &source)
                    output.append(contentsOf: space[..<target.pos])
                }
                position = source.pos
            }
            guard ZSTD_isError(rest) == 0, (position, output.count) != before else { throw .damaged }
            guard output.count <= allowed else { throw .tooLarge }
        }
        return output
    }
}
