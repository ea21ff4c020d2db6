// The head of the upstream's response as the client gets it: its length and what is meant for us alone left out, a redirect kept here, Date
// added where it is missing, Via added. What an upstream may not say to clients is left out here and nowhere else.

import HTTPCore

/// A class, so that using it copies nothing.
package final class ClientResponseHead {
    private let location: LocationRewriting
    /// Names of fields that clients do not get, in lower case.
    private let hiddenFields: [[UInt8]]
    /// Our entry in Via (RFC 9110 §7.6.3), as a line; empty where it is switched off.
    private let viaLine: [UInt8]

    package init(settings: ForwardingSettings, origin: [UInt8], basePath: [UInt8], hiddenFields: [[UInt8]]) {
        location = LocationRewriting(isOn: settings.rewriteLocation, origin: origin, basePath: basePath)
        self.hiddenFields = hiddenFields
        viaLine = settings.via ? Array("Via: 1.1 \(settings.name)\r\n".utf8) : []
    }

    /// Status line and field lines, without the empty line that ends the head: more lines follow.
    /// - Parameters:
    ///   - response: without its hop-by-hop fields.
    ///   - date: now, for a response without Date (RFC 9110 §6.6.1).
    ///   - room: bytes for which there is to be room behind it.
    package func make(_ response: ResponseHead, date: [UInt8], room: Int = 0) -> [UInt8] {
        var response = response
        for name in hiddenFields where response.fields.contains(named: name.span) { response.fields.remove(named: name.span) }
        var omitted: KnownFieldSet = [.contentLength]
        let location = location.relative(in: response.fields)
        if location != nil { omitted.insert(.location) }
        var head: [UInt8] = []
        let fields = response.fields
        head.reserveCapacity(fields.bytes.count + 4 * fields.count + viaLine.count + Self.ownBytes + room)
        ResponseSerializer.appendStatusLine(response.status, reason: response.reason, to: &head)
        FieldSerializer.append(fields, without: omitted, to: &head)
        if let location { FieldSerializer.append(.location, location, to: &head) }
        if !fields.contains(.date) { FieldSerializer.append(.date, date, to: &head) }
        head += viaLine
        return head
    }

    /// More than a status line and Date take.
    private static let ownBytes = 128
}
