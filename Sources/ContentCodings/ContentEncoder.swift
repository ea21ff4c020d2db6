// Encodes content for storing. Uses thorough compression, because it happens once and off the event loop.

import CBrotli
import CZstd
import HTTPCore

/// `@unchecked Sendable` because a single thread uses it: the store's writer.
public final class ContentEncoder: @unchecked Sendable {
    private let gzip = GzipEncoder(.thorough)

    /// Common levels for content that is compressed once and sent often. Levels that take ten times as long hardly make JSON shorter.
    private static let zstdLevel: Int32 = 6
    private static let brotliQuality: Int32 = 5
    /// Content must become shorter by at least one part in `gain`; otherwise decoding costs more than it saves.
    private static let gain = 10

    public init() {}

    /// Returns the coded content; nil if it is not sufficiently shorter, or memory is exhausted.
    public func encode(_ content: UnsafeRawBufferPointer, _ coding: ContentCoding) -> [UInt8]? {
        let limit = content.count - content.count / Self.gain
        let coded: [UInt8]? =
            switch coding {
            case .identity: nil
            case .gzip: gzip.encode(content)
            case .zstd: Self.zstd(content, limit)
            case .brotli: Self.brotli(content, limit)
            }
        return coded.flatMap { $0.count <= limit ? $0 : nil }
    }

    private static func zstd(_ content: UnsafeRawBufferPointer, _ limit: Int) -> [UInt8]? {
        let coded = [UInt8](unsafeUninitializedCapacity: limit) { space, count in
            let made = ZSTD_compress(space.baseAddress, space.count, content.baseAddress, content.count, zstdLevel)
            count = ZSTD_isError(made) == 0 ? made : 0
        }
        return coded.isEmpty ? nil : coded
    }

    private static func brotli(_ content: UnsafeRawBufferPointer, _ limit: Int) -> [UInt8]? {
        let coded = [UInt8](unsafeUninitializedCapacity: limit) { space, count in
            var made = space.count
            let isWhole = BrotliEncoderCompress(
                brotliQuality, BROTLI_DEFAULT_WINDOW, BROTLI_MODE_TEXT, content.count, content.bindMemory(to: UInt8.self).baseAddress,
                &made,
                space.baseAddress)
            count = isWhole == BROTLI_TRUE ? made : 0
        }
        return coded.isEmpty ? nil : coded
    }
}
