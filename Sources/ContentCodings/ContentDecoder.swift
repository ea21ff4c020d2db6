// Decodes a complete response, so that its JSON can be checked and one stored response serves every client. Protects against decompression
// bombs: limits the size of the output, and its ratio to the input.

import HTTPCore

public enum ContentDecoder {
    public enum Failure: Error {
        /// Malformed, truncated, or with a wrong checksum.
        case damaged
        /// More than `limit`, or too large in relation to the input.
        case tooLarge
    }

    /// Output size in bytes up to which the ratio is not checked: a page of zeros is not an attack.
    private static let freeBytes = 1 << 20
    /// Maximum ratio of output to input. Ordinary JSON compresses 10 to 30 times, repetitive lists 100 times; the maximum of DEFLATE is
    /// about 1,030.
    private static let ratioLimit = 200
    static let pieceBytes = 64 * 1024

    /// Returns the first bytes of the decoded content; nil if they are damaged.
    /// - Parameters:
    ///   - content: the content, or its beginning if that is long enough for the limit.
    ///   - limit: maximum length of the result in bytes.
    public static func beginning(of content: [UInt8], _ coding: ContentCoding, atMost limit: Int) -> [UInt8]? {
        guard coding != .identity else { return content }
        guard let decoder = PieceDecoder(coding) else { return nil }
        let decoded = [UInt8](unsafeUninitializedCapacity: limit) { space, made in
            made = content.span.withUnsafeBytes { (try? decoder.decode($0, into: UnsafeMutableRawBufferPointer(space))) ?? 0 }
        }
        return decoded.isEmpty ? nil : decoded
    }

    /// Returns the decoded content.
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
