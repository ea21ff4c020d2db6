// Builds the head of a forwarded response. Removes Content-Length and fields that clients must not receive, rewrites Location, and adds
// Date if missing, and Via. This is the only file that filters response fields of upstreams.

import HTTPCore

/// A class, so that passing it along copies nothing.
public final class ClientResponseHead {
    private let location: LocationRewriting
    /// Names of fields that are removed, in lower case.
    private let hiddenFields: [[UInt8]]
    /// Cistern's line in Via (RFC 9110 §7.6.3) for each protocol version of a response; empty if disabled.
    private let viaLines: (http10: [UInt8], http11: [UInt8], http2: [UInt8])

    public init(settings: ForwardingSettings, location: LocationRewriting, hiddenFields: [[UInt8]]) {
        self.location = location
        self.hiddenFields = hiddenFields
        let line = { (version: HTTPVersion) in
            settings.via ? Array("Via: \(version.receivedProtocol) \(settings.name)\r\n".utf8) : []
        }
        viaLines = (line(.http10), line(.http11), line(.http2))
    }

    /// Returns status line and field lines without the empty line that ends the head, so that more lines can follow.
    /// - Parameters:
    ///   - response: head without hop-by-hop fields.
    ///   - date: current date, for a response without Date (RFC 9110 §6.6.1).
    ///   - extraCapacity: additional capacity to reserve, in bytes.
    ///   - space: empty buffer to reuse.
    public func make(_ response: ResponseHead, date: [UInt8], extraCapacity: Int = 0, in space: consuming [UInt8] = []) -> [UInt8] {
        var bytes = space
        var fields = location.kept(response.fields) ?? response.fields
        for name in hiddenFields where fields.contains(named: name.span) { fields.remove(named: name.span) }
        let viaLine =
            switch response.version {
            case .http10: viaLines.http10
            case .http11: viaLines.http11
            case .http2: viaLines.http2
            }
        let fieldBytes = FieldSerializer.capacity(for: fields)
        let own = ResponseSerializer.statusLineCapacity(response.reason) + viaLine.count + date.count + Self.ownBytes
        bytes.append(atMost: fieldBytes + own + extraCapacity) { head in
            ResponseSerializer.writeStatusLine(response.status, reason: response.reason, to: &head)
            FieldSerializer.write(fields, without: Self.omitted, to: &head)
            if !fields.contains(.date) { FieldSerializer.write(.date, date, to: &head) }
            head.put(viaLine)
        }
        return bytes
    }

    /// Alternative services (RFC 7838) are addresses of the upstream, with which clients would bypass this proxy. Cistern-Stale is added
    /// separately, so that an upstream cannot forge it.
    private static let omitted: KnownFieldSet = [.cisternStale, .contentLength, .altSvc, .alternateProtocol]
    /// Upper bound for the name of Date and separators, in bytes.
    private static let ownBytes = 64
}
