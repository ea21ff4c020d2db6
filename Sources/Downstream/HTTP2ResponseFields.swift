// Converts a response's head from HTTP/1.1 form to HTTP/2 fields (RFC 9113 §8.3.2): names in lower case, without connection fields. HPACK
// must not index credentials: users of one gateway share its connection and table, and could test guesses (RFC 7541 §7.1).

import CachePolicy
import HTTP2
import HTTPCore

enum HTTP2ResponseFields {
    /// - Parameters:
    ///   - head: status line and field lines, each with its line end.
    ///   - lines: more field lines.
    ///   - length: length of the content in bytes, if the head has none; nil to add no field.
    static func make(head: UnsafeRawBufferPointer, lines: UnsafeRawBufferPointer, length: Int? = nil) -> HTTP2FieldList {
        var fields = HTTP2FieldList(reservingBytes: head.count + lines.count + 32, lines: 16)
        let head = head.bindMemory(to: UInt8.self)
        // "HTTP/1.1 200 OK"
        let status = head.count >= 12 ? UnsafeBufferPointer(rebasing: head[9..<12]) : UnsafeBufferPointer(start: nil, count: 0)
        fields.append(":status", status)
        let firstLine = head.index(of: 0x0a, from: 0, before: head.count) + 1
        if firstLine < head.count { append(UnsafeBufferPointer(rebasing: head[firstLine...]), to: &fields) }
        append(lines.bindMemory(to: UInt8.self), to: &fields)
        if let length { Array(String(length).utf8).withUnsafeBufferPointer { fields.append("content-length", $0) } }
        return fields
    }

    static func make(head: Span<UInt8>, lines: Span<UInt8>, length: Int? = nil) -> HTTP2FieldList {
        head.withUnsafeBytes { head in lines.withUnsafeBytes { make(head: head, lines: $0, length: length) } }
    }

    static func make(_ head: ResponseHead) -> HTTP2FieldList {
        var text: [UInt8] = []
        ResponseSerializer.append(head, to: &text)
        return text.withUnsafeBytes { make(head: $0, lines: UnsafeRawBufferPointer(start: nil, count: 0)) }
    }

    private static func append(_ lines: UnsafeBufferPointer<UInt8>, to fields: inout HTTP2FieldList) {
        var start = 0
        while start < lines.count {
            let end = lines.index(of: 0x0a, from: start, before: lines.count)
            let colon = lines.index(of: 0x3a, from: start, before: end)
            if colon < end, colon > start {
                let name = UnsafeBufferPointer(rebasing: lines[start..<colon])
                let field = KnownField(Span(_unsafeElements: name))
                if field.map(ofConnection.contains) != true {
                    let isSecret = ResponseCredentials.isGiven(by: field, Span(_unsafeElements: name))
                    fields.append(name, trimmed(lines, colon + 1, end), isSecret: isSecret)
                }
            }
            start = end + 1
        }
    }

    private static let ofConnection: KnownFieldSet = [.connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade]

    private static func trimmed(_ bytes: UnsafeBufferPointer<UInt8>, _ from: Int, _ to: Int) -> UnsafeBufferPointer<UInt8> {
        var (first, last) = (from, to)
        while first < last, bytes[first].isOptionalWhitespace { first += 1 }
        while last > first, bytes[last - 1].isOptionalWhitespace || bytes[last - 1] == 0x0d { last -= 1 }
        return UnsafeBufferPointer(rebasing: bytes[first..<last])
    }
}
