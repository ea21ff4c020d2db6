// Puts a coding on content that is stored: thoroughly, since it is done once and beside the loops.

import CBrotli
import CZstd
import HTTPCore

/// `@unchecked Sendable` because one thread at a time touches it: the store's writer.
public final class ContentEncoder: @unchecked Sendable {
    private let gzip = GzipEncoder(.thorough)

    /// What is common for content that is made once and sent often: JSON shrinks no further with what takes ten times as long.
    private static let zstdLevel: Int32 = 6
    private static let brotliQuality: Int32 = 5
    /// What is not a tenth shorter is not worth being taken off again.
    private static let gain = 10

    public init() {}

    /// nil where nothing is won, or there is no memory.
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
