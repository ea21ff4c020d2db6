// Writes the head of a request to the upstream, in HTTP/1.1 (RFC 9112 §3) and in HTTP/2 (RFC 9113 §8.3.1).

import HTTP2
import HTTPCore

/// A class, so that using it copies nothing.
final class RequestWriter {
    /// Prefix of each target: the base path; for a forward proxy also scheme and authority (RFC 9112 §3.2.2).
    private let prefix: [UInt8]
    /// The target of OPTIONS for the whole server, which has no path (RFC 9112 §3.2.4).
    private let wholeServer: [UInt8]
    /// The field line for the forward proxy, with its line end; empty if there is none.
    private let proxyAuthorization: [UInt8]
    private let scheme: [UInt8]
    private let authority: [UInt8]

    /// The authority in requests that this address replaces by its own; nil if both are equal.
    private let named: [UInt8]?

    /// - Parameter named: the authority that requests name, if this address has another one; nil otherwise.
    init(_ settings: UpstreamSettings, replacing named: String? = nil) {
        self.named = named.map { Array($0.utf8) }
        let isAskedThroughProxy = settings.isAskedThroughProxy
        prefix = Array(((isAskedThroughProxy ? settings.origin : "") + settings.basePath).utf8)
        wholeServer = Array((isAskedThroughProxy ? settings.origin : "*").utf8)
        scheme = Array(settings.scheme.utf8)
        authority = Array(settings.authority.utf8)
        let credentials = isAskedThroughProxy ? settings.proxyCredentials : nil
        proxyAuthorization = credentials.map { Array("Proxy-Authorization: Basic \(Base64.encode($0))\r\n".utf8) } ?? []
    }

    /// Maximum bytes of the parts added here.
    private static let ownBytes = 64

    /// The request's fields, with this address's Host.
    private func fields(for request: UpstreamRequest) -> Fields {
        guard let named, let host = request.fields.first(.host), host.elementsEqual(named) else { return request.fields }
        var fields = request.fields
        fields.set(.host, authority)
        return fields
    }

    /// Writes the request line, the fields, and the field for the length of the content.
    func write(_ request: UpstreamRequest, to head: inout [UInt8]) {
        let fields = fields(for: request)
        let isWholeServer = request.target.count == 1 && request.target.first == UInt8(ascii: "*")
        let target = isWholeServer ? wholeServer.count : prefix.count + request.target.count
        head.append(
            atMost: request.method.length + target + proxyAuthorization.count + FieldSerializer.capacity(for: fields) + Self.ownBytes
        ) { head in
            request.method.write(to: &head)
            head.put(0x20)
            if isWholeServer {
                head.put(wholeServer)
            } else {
                head.put(prefix)
                head.put(request.target.span)
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

    // MARK: HTTP/2

    /// Credentials, which HPACK must not index: an attacker could otherwise test guesses against them. Fields that are not in `KnownField`
    /// are not indexed either, because an API may use any name for a credential.
    private static let secret: KnownFieldSet = [.authorization, .cookie, .proxyAuthorization, .xAPIKey]
    /// Fields that pseudo-header fields replace, or that HTTP/2 forbids (RFC 9113 §8.2.2).
    private static let omitted: KnownFieldSet = [
        .host, .contentLength, .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade, .te,
    ]

    func fields(of request: UpstreamRequest) -> HTTP2FieldList {
        let fields = self.fields(for: request)
        let isWholeServer = request.target.count == 1 && request.target.first == UInt8(ascii: "*")
        var list = HTTP2FieldList(
            reservingBytes: FieldSerializer.capacity(for: fields) + prefix.count + request.target.count + Self.ownBytes,
            lines: fields.count + 5
        )
        request.method.bytes.withUnsafeBufferPointer { list.append(":method", $0) }
        scheme.withUnsafeBufferPointer { list.append(":scheme", $0) }
        let host = fields.first(.host)
        (host ?? authority[...]).withUnsafeBufferPointer { list.append(":authority", $0) }
        (isWholeServer ? wholeServer : prefix + request.target).withUnsafeBufferPointer { list.append(":path", $0) }
        fields.bytes.withUnsafeBufferPointer { bytes in
            for entry in fields.entries where !Self.omitted.holds(entry) {
                list.append(
                    UnsafeBufferPointer(rebasing: bytes[entry.nameRange]), UnsafeBufferPointer(rebasing: bytes[entry.valueRange]),
                    isSecret: entry.known.map(Self.secret.contains) ?? true)
            }
        }
        if let length = request.contentLength {
            Array(String(length).utf8).withUnsafeBufferPointer { list.append("content-length", $0) }
        }
        return list
    }
}
