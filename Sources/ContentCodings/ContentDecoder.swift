// Takes the coding off a response that arrived whole, so that its JSON can be checked and one stored copy can serve every client. Bounded
// against bombs: by the size of what comes out and by how much larger it is than what went in.

import HTTPCore

public enum ContentDecoder {
    public enum Failure: Error {
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
    public static func decode(_ content: [UInt8], _ coding: ContentCoding, limit: Int) throws(Failure) -> [UInt8] {
        guard coding != .identity else { return content }
        guard let decoder = PieceDecoder(coding) else { throw .damaged }
        let allowed = min(limit, max(freeBytes, content.count.multipliedReportingOverflow(by: ratioLimit).partialValue))
        var output: [UInt8] = []
        output.reserveCapacity(min(allowed, content.count * 4))
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceBytes, alignment: 1)
        defer { piece.deallocate() }
        while !decoder.isEnded {
            let made = try content.span.withUnsafeBytes { (content) throws(Failure) in try decoder.decode(content, into: piece) }
            output.append(contentsOf: piece[..<made])
            guard output.count <= allowed else { throw .tooLarge }
        }
        return output
    }
}
