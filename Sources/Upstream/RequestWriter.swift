// A request's head as it goes to the upstream in HTTP/1.1 (RFC 9112 §3).

import HTTPCore

struct RequestWriter {
    /// What goes before each target: the base path; for a forward proxy the scheme and authority too (RFC 9112 §3.2.2).
    private let prefix: [UInt8]
    /// The target of OPTIONS for the whole server, which has no path (RFC 9112 §3.2.4).
    private let wholeServer: [UInt8]
    /// The forward proxy's own field, with the end of its line; empty where there is none.
    private let proxyAuthorization: [UInt8]

    init(_ settings: UpstreamSettings) {
        let isAskedThroughProxy = settings.isAskedThroughProxy
        prefix = Array(((isAskedThroughProxy ? settings.origin : "") + settings.basePath).utf8)
        wholeServer = Array((isAskedThroughProxy ? settings.origin : "*").utf8)
        let credentials = isAskedThroughProxy ? settings.proxyCredentials : nil
        proxyAuthorization = credentials.map { Array("Proxy-Authorization: Basic \(Base64.encode($0))\r\n".utf8) } ?? []
    }

    /// The request's line and fields as they stand, and what tells the length of its content.
    func write(_ request: UpstreamRequest, to head: inout [UInt8]) {
        let fields = request.fields
        head.reserveCapacity(prefix.count + request.target.count + proxyAuthorization.count + fields.bytes.count + 4 * fields.count + 128)
        request.method.append(to: &head)
        head.append(0x20)
        if request.target.count == 1, request.target[0] == UInt8(ascii: "*") {
            head.append(copying: wholeServer.span)
        } else {
            head.append(copying: prefix.span)
            head.append(copying: request.target.span)
        }
        head.append(" HTTP/1.1\r\n")
        head.append(copying: proxyAuthorization.span)
        FieldSerializer.append(fields, to: &head)
        if let length = request.contentLength {
            head.append(contentLength: length)
        } else if request.content == .chunked {
            head.append("Transfer-Encoding: chunked\r\n")
        }
        head.append("\r\n")
    }
}
