// Decodes the header blocks of one direction of an HTTP/2 connection (RFC 7541).

import CNGHTTP2

package final class HeaderBlockReader {
    package struct Line {
        package let name: String
        package let value: String
        /// Whether the line is a literal that is never indexed (RFC 7541 §6.2.3).
        package let isNeverIndexed: Bool
    }

    private let inflater: OpaquePointer

    package init() {
        var inflater: OpaquePointer?
        precondition(nghttp2_hd_inflate_new(&inflater) == 0 && inflater != nil, "no memory for an inflater")
        self.inflater = inflater!
    }

    deinit { nghttp2_hd_inflate_del(inflater) }

    /// Returns the lines of a complete block; nil if it is malformed.
    package func read(_ block: [UInt8]) -> [Line]? {
        var (lines, position): ([Line], Int) = ([], 0)
        while true {
            var (field, flags) = (nghttp2_nv(), Int32(0))
            let count = block.withUnsafeBufferPointer { bytes in
                nghttp2_hd_inflate_hd2(inflater, &field, &flags, bytes.baseAddress.map { $0 + position }, bytes.count - position, 1)
            }
            guard count >= 0 else { return nil }
            position += count
            if flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0 {
                let isNeverIndexed = UInt32(field.flags) & NGHTTP2_NV_FLAG_NO_INDEX.rawValue != 0
                lines.append(
                    Line(
                        name: Self.text(field.name, field.namelen), value: Self.text(field.value, field.valuelen),
                        isNeverIndexed: isNeverIndexed))
            }
            if flags & Int32(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 { break }
            if count == 0, flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) == 0 { break }
        }
        nghttp2_hd_inflate_end_headers(inflater)
        return lines
    }

    private static func text(_ bytes: UnsafeMutablePointer<UInt8>?, _ count: Int) -> String {
        String(decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self)
    }
}
