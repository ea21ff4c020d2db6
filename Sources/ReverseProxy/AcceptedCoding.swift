// Which clients get coded content: those that asked for it, and no others, whatever the upstream sends (RFC 9110 §12.5.3).

import CachePolicy
import HTTPCore

enum AcceptedCoding {
    /// Whether a coding is asked for by name. Without the field any coding is allowed, and some clients that leave it out can read none.
    static func accepts(_ coding: ContentCoding, in fields: Fields) -> Bool {
        FieldLists.members(of: .acceptEncoding, in: fields, limit: FieldListLimit.members).contains { isAccepted($0, coding) }
    }

    private static func isAccepted(_ member: ArraySlice<UInt8>, _ coding: ContentCoding) -> Bool {
        let parts = FieldLists.members(of: member, separator: UInt8(ascii: ";"))
        guard let name = parts.first, ContentCoding(named: name) == coding else { return false }
        return !parts.dropFirst().contains(where: ContentCoding.isZeroWeight)
    }

    /// What the upstream is asked for: those of the client's codings that can be taken off again.
    static func passedOn(_ fields: Fields) -> [UInt8] {
        var out: [UInt8] = []
        for coding in [ContentCoding.gzip, .brotli, .zstd] where accepts(coding, in: fields) {
            if !out.isEmpty { out.append(", ") }
            out.append(coding.name)
        }
        if out.isEmpty { out.append(ContentCoding.identity.name) }
        return out
    }

    /// A response that arrived whole, as the client of `request` gets it.
    /// - Parameter decoded: the content without its coding; nil where it has none, or none that can be taken off.
    static func shown(
        _ head: ResponseHead, _ content: [UInt8], decoded: [UInt8]?, to request: RequestHead
    ) -> (head: ResponseHead, content: [UInt8]) {
        // no-transform is absolute (RFC 9110 §7.7).
        guard let decoded, let coding = ContentCoding(head.fields), !accepts(coding, in: request.fields),
            !ResponseCacheControl(head.fields).noTransform
        else { return (head, content) }
        var plain = head
        StoredHead.removeCoding(from: &plain.fields)
        return (plain, decoded)
    }
}
