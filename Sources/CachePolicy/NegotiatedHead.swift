// Builds heads of responses with a content coding that depends on Accept-Encoding, for 200, 206 and 304 (RFC 9110 §8.4, §12.5.5).

import Forwarding
import HTTPCore

public enum NegotiatedHead {
    /// The coding in which the content is sent, and its coded length in bytes; nil if the length is not known yet.
    public struct Coded {
        let coding: ContentCoding
        let contentBytes: Int?

        public init(_ coding: ContentCoding, contentBytes: Int? = nil) { (self.coding, self.contentBytes) = (coding, contentBytes) }
    }

    /// - Parameters:
    ///   - head: status line and fields as stored, or derived from the stored head.
    ///   - coded: nil if the content is sent without a coding but could have been sent with one.
    public static func make(_ head: Span<UInt8>, _ coded: Coded?) -> [UInt8] {
        guard var parsed = StoredHead.parse(head) else { return Array(copying: head) }
        change(&parsed, coded)
        var out: [UInt8] = []
        ResponseSerializer.append(parsed, to: &out)
        return out
    }

    public static func change(_ head: inout ResponseHead, _ coded: Coded?) {
        if let coded {
            // The bytes differ from the stored ones, so a strong entity tag must become weak.
            StoredHead.removeCoding(from: &head.fields)
            head.fields.remove(.contentLength)
            if !head.status.forbidsContent { head.fields.append(.contentEncoding, "\(coded.coding.name)") }
            if let contentBytes = coded.contentBytes { head.fields.append(.contentLength, String(contentBytes)) }
        }
        if !StoredHead.variesByCoding(head.fields) { head.fields.append(.vary, "Accept-Encoding") }
    }

    /// Appends Vary to the head of a response that is sent without a coding but could have been sent with one.
    public static func appendVary(beside fields: Fields, to lines: inout [UInt8]) {
        if !StoredHead.variesByCoding(fields) { lines.append(varyLine) }
    }

    private static let varyLine: StaticString = "Vary: Accept-Encoding\r\n"

    /// Produces the result of `make` for a head exactly as stored, without parsing it. The entity tag is weakened in place, and the length
    /// must be on the last line.
    /// - Parameter metadata: metadata of this head.
    public static func append(
        _ head: Span<UInt8>, _ metadata: StoredMetadata, _ coded: Coded?, to out: inout [UInt8]
    ) {
        guard metadata.flags.contains(.hasNoDigests), let end = lengthLine(of: head), metadata.etag.upperBound <= end else {
            out += make(head, coded)
            return
        }
        if let coded {
            var start = 0
            if let first = metadata.etag.first, head[first] == 0x22 {
                out.append(copying: head.extracting(..<first))
                EntityTag.appendWeakened(head.extracting(metadata.etag), to: &out)
                start = metadata.etag.upperBound
            }
            out.append(copying: head.extracting(start..<end))
            out.append("Content-Encoding: ")
            out.append(coded.coding.name)
            out.append("\r\n")
            if let contentBytes = coded.contentBytes {
                out.append("Content-Length: ")
                out.append(decimal: contentBytes)
                out.append("\r\n")
            }
        } else {
            out.append(copying: head)
        }
        if !metadata.flags.contains(.variesByCoding) { out.append(varyLine) }
    }

    /// Returns the offset of the last line if it is Content-Length; nil otherwise.
    private static func lengthLine(of head: Span<UInt8>) -> Int? {
        let name: StaticString = "Content-Length: "
        var start = head.count - 2
        while start > 0, head[start - 1] != 0x0a { start -= 1 }
        let length = name.utf8CodeUnitCount
        guard start > 0, head.count - start > length else { return nil }
        return head.extracting(start..<start + length).equals(name) ? start : nil
    }
}
