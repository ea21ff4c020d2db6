// A request's head as it goes to the upstream in HTTP/1.1 (RFC 9112 §3).

import HTTPCore

struct RequestWriter {
    let basePath: [UInt8]

    /// The request's line and fields as they stand, and what tells the length of its content.
    func write(_ request: UpstreamRequest) -> [UInt8] {
        let fields = request.fields
        var head: [UInt8] = []
        head.reserveCapacity(request.target.count + fields.bytes.count + 4 * fields.count + 128)
        head.append(copying: request.method.bytes.span)
        head.append(0x20)
        // OPTIONS for the whole server has no path (RFC 9112 §3.2.4).
        if request.target != [UInt8(ascii: "*")] { head.append(copying: basePath.span) }
        head.append(copying: request.target.span)
        head.append(" HTTP/1.1\r\n")
        FieldSerializer.append(fields, to: &head)
        if let length = request.contentLength {
            head.append("Content-Length: ")
            head.append(decimal: length)
            head.append("\r\n")
        } else if request.content == .chunked {
            head.append("Transfer-Encoding: chunked\r\n")
        }
        head.append("\r\n")
        return head
    }
}
