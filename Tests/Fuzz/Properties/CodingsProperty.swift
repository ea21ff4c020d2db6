// Decoding never exceeds its limit, even for a decompression bomb. Encoded content decodes to the original bytes.

import CachePolicy
import ContentCodings
import HTTPCore

enum CodingsProperty {
    private static let codings: [ContentCoding] = [.gzip, .brotli, .zstd, .identity]

    /// The first byte selects the coding and the limit.
    static func check(_ bytes: [UInt8]) throws(Violation) {
        guard let first = bytes.first else { return }
        let content = Array(bytes.dropFirst())
        let limit = first & 0x80 == 0 ? 1 << 16 : 100
        let coding = codings[Int(first & 3)]
        if coding != .identity, let decoded = try? ContentDecoder.decode(content, coding, limit: limit) {
            try expect(decoded.count <= limit, "\(decoded.count) bytes came out where \(limit) are allowed")
        }
        guard let coded = content.withUnsafeBytes({ GzipEncoder().encode($0) }) else { return }
        try expect(coded.count <= content.count, "compression made the content longer")
        let again = try? ContentDecoder.decode(coded, .gzip, limit: 1 << 22)
        try expect(again == content, "compressed content is not restored")
    }
}
