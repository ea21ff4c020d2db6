// Which clients get coded content: those that asked for it, and no others, whatever the upstream sends (RFC 9110 §12.5.3).

import HTTPCore

package enum AcceptedCoding {
    /// Whether a coding is asked for by name. Without the field any coding is allowed, and some clients that leave it out can read none.
    package static func accepts(_ coding: ContentCoding, in fields: Fields) -> Bool {
        FieldLists.members(of: .acceptEncoding, in: fields, limit: FieldListLimit.members).contains { isAccepted($0, coding) }
    }

    private static func isAccepted(_ member: ArraySlice<UInt8>, _ coding: ContentCoding) -> Bool {
        let parts = FieldLists.members(of: member, separator: UInt8(ascii: ";"))
        guard let name = parts.first, ContentCoding(named: name) == coding else { return false }
        return !parts.dropFirst().contains(where: ContentCoding.isZeroWeight)
    }

    /// What the upstream is asked for: those of the client's codings that can be taken off again.
    package static func passedOn(_ fields: Fields) -> [UInt8] {
        var out: [UInt8] = []
        for coding in [ContentCoding.gzip, .brotli, .zstd] where accepts(coding, in: fields) {
            if !out.isEmpty { out.append(", ") }
            out.append(coding.name)
        }
        if out.isEmpty { out.append(ContentCoding.identity.name) }
        return out
    }
}
