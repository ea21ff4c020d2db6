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

    /// More than our own words take.
    private static let ownBytes = 64

    /// The request's line and fields as they stand, and what tells the length of its content.
    func write(_ request: UpstreamRequest, to head: inout [UInt8]) {
        let fields = request.fields
        let isWholeServer = request.target.count == 1 && request.target[0] == UInt8(ascii: "*")
        let target = isWholeServer ? wholeServer.count : prefix.count + request.target.count
        head.append(
            atMost: request.method.length + target + proxyAuthorization.count + FieldSerializer.room(for: fields) + Self.ownBytes
        ) { head in
            request.method.write(to: &head)
            head.put(0x20)
            if isWholeServer {
                head.put(wholeServer)
            } else {
                head.put(prefix)
                head.put(request.target)
            }
            head.put(" HTTP/1.1\r\n")
            head.put(proxyAuthorization)
            FieldSerializer.write(fields, without: KnownFieldSet(), to: &head)
            if let length = request.contentLength {
                head.put(contentLength: length)
            } else if request.content == .chunked {
                head.put("Transfer-Encoding: chunked\r\n")
            }
            head.put("\r\n")
        }
    }
}
