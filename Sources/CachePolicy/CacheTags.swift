// The tags of an answer, by which what belongs together is purged together: Cache-Groups (RFC 9875 §2, a list of strings), and the older
// Surrogate-Key (words) and Cache-Tag (a list with commas) of content delivery networks.

import HTTPCore
import RawStructuredFieldValues

package enum CacheTags {
    /// The groups first, each once. RFC 9875 §2: case-sensitive.
    /// - Parameter fields: the stored answer's.
    package static func tags(of fields: Fields) -> [String] {
        var tags: [String] = []
        func add(_ tag: String) {
            if !tag.isEmpty, !tags.contains(tag) { tags.append(tag) }
        }
        groups(of: fields, named: "cache-groups").forEach(add)
        for index in 0..<fields.count {
            let value = fields.value(at: index)
            let name = fields.name(at: index)
            if name.equalsIgnoringCase("surrogate-key") {
                for word in value.split(separator: 0x20) { add(String(decoding: word, as: UTF8.self)) }
            } else if name.equalsIgnoringCase("cache-tag") {
                for member in value.split(separator: UInt8(ascii: ",")) { add(String(decoding: member.trimmed, as: UTF8.self)) }
            }
        }
        return tags
    }

    /// The groups that an answer belongs to (RFC 9875 §2), or, under `Cache-Group-Invalidation` (§3), that an unsafe request has changed: a
    /// list of strings. One mistake, or a member of another type, and the whole field counts as absent.
    package static func groups(of fields: Fields, named name: StaticString) -> [String] {
        let lines = (0..<fields.count).filter { fields.name(at: $0).equalsIgnoringCase(name) }.map { fields.value(at: $0) }
        guard !lines.isEmpty else { return [] }
        var parser = StructuredFieldValueParser(Array(lines.joined(separator: [UInt8(ascii: ",")])))
        guard let members = try? parser.parseListFieldValue() else { return [] }
        var groups: [String] = []
        for member in members {
            guard case .item(let item) = member, case .string(let group) = item.rfc9651BareItem else { return [] }
            groups.append(group)
        }
        return groups
    }
}
