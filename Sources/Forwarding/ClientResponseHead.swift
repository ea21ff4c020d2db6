// The head of the upstream's response as the client gets it: its length and what is meant for us alone left out, a redirect kept here, Date
// added where it is missing, Via added. What an upstream may not say to clients is left out here and nowhere else.

import HTTPCore

/// A class, so that using it copies nothing.
public final class ClientResponseHead {
    private let location: LocationRewriting
    /// Names of fields that clients do not get, in lower case.
    private let hiddenFields: [[UInt8]]
    /// Our entry in Via (RFC 9110 §7.6.3), as a line for each protocol that a response is received by; empty where it is switched off.
    private let viaLines: (http10: [UInt8], http11: [UInt8], http2: [UInt8])

    public init(settings: ForwardingSettings, location: LocationRewriting, hiddenFields: [[UInt8]]) {
        self.location = location
        self.hiddenFields = hiddenFields
        let line = { (version: HTTPVersion) in
            settings.via ? Array("Via: \(version.receivedProtocol) \(settings.name)\r\n".utf8) : []
        }
        viaLines = (line(.http10), line(.http11), line(.http2))
    }

    private func viaLine(_ version: HTTPVersion) -> [UInt8] {
        switch version {
        case .http10: viaLines.http10
        case .http11: viaLines.http11
        case .http2: viaLines.http2
        }
    }

    /// Status line and field lines, without the empty line that ends the head: more lines follow.
    /// - Parameters:
    ///   - response: without its hop-by-hop fields.
    ///   - date: now, for a response without Date (RFC 9110 §6.6.1).
    ///   - room: bytes for which there is to be room behind it.
    ///   - space: empty; its memory is used.
    public func make(_ response: ResponseHead, date: [UInt8], room: Int = 0, in space: consuming [UInt8] = []) -> [UInt8] {
        guard !hiddenFields.isEmpty else { return write(response, date, room, space) }
        var response = response
        for name in hiddenFields where response.fields.contains(named: name.span) { response.fields.remove(named: name.span) }
        return write(response, date, room, space)
    }

    private func write(_ response: ResponseHead, _ date: [UInt8], _ room: Int, _ space: consuming [UInt8]) -> [UInt8] {
        var bytes = space
        let fields = location.kept(response.fields) ?? response.fields
        let viaLine = viaLine(response.version)
        let fieldBytes = FieldSerializer.room(for: fields)
        let own = ResponseSerializer.statusLineRoom(response.reason) + viaLine.count + date.count + Self.ownBytes
        bytes.append(atMost: fieldBytes + own + room) { head in
            ResponseSerializer.writeStatusLine(response.status, reason: response.reason, to: &head)
            FieldSerializer.write(fields, without: Self.omitted, to: &head)
            if !response.fields.contains(.date) { FieldSerializer.write(.date, date, to: &head) }
            head.put(viaLine)
        }
        return bytes
    }

    /// An alternative service (RFC 7838) is the upstream's address, and would lead clients around this proxy.
    private static let omitted: KnownFieldSet = [.contentLength, .altSvc, .alternateProtocol]
    /// More than the name of Date takes.
    private static let ownBytes = 64
}
