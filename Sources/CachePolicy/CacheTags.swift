// The tags of an answer, by which what belongs together is purged together: Cache-Groups (RFC 9875 §2, a list of strings), and the older
// Surrogate-Key (words) and Cache-Tag (a list with commas) of content delivery networks.

import HTTPCore

package enum CacheTags {
    /// In the order of the fields, each once. RFC 9875 §2: case-sensitive.
    /// - Parameter fields: the stored answer's.
    package static func tags(of fields: Fields) -> [String] {
        var tags: [String] = []
        func add(_ tag: String) {
            if !tag.isEmpty, !tags.contains(tag) { tags.append(tag) }
        }
        for index in 0..<fields.count {
            let value = fields.value(at: index)
            let name = fields.name(at: index)
            if name.equalsIgnoringCase("cache-groups") {
                groups(in: value).forEach(add)
            } else if name.equalsIgnoringCase("surrogate-key") {
                for word in value.split(separator: 0x20) { add(String(decoding: word, as: UTF8.self)) }
            } else if name.equalsIgnoringCase("cache-tag") {
                for member in value.split(separator: UInt8(ascii: ",")) { add(String(decoding: member.trimmed, as: UTF8.self)) }
            }
        }
        return tags
    }

    /// The groups that an answer belongs to (RFC 9875 §2), or, under `Cache-Group-Invalidation` (§3), that an unsafe request has changed.
    package static func groups(of fields: Fields, named name: StaticString) -> [String] {
        (0..<fields.count).filter { fields.name(at: $0).equalsIgnoringCase(name) }.flatMap { groups(in: fields.value(at: $0)) }
    }

    private static func groups(in value: ArraySlice<UInt8>) -> [String] { FieldLists.members(of: value).compactMap(quoted) }

    /// The text of a string item (RFC 9651 §4.2.5), its parameters left out; nil where it is something else.
    private static func quoted(_ member: ArraySlice<UInt8>) -> String? {
        guard member.first == 0x22 else { return nil }
        var text: [UInt8] = []
        var isEscaped = false
        for byte in member.dropFirst() {
            if isEscaped {
                text.append(byte)
                isEscaped = false
            } else if byte == 0x5c {
                isEscaped = true
            } else if byte == 0x22 {
                return String(decoding: text, as: UTF8.self)
            } else {
                text.append(byte)
            }
        }
        return nil
    }
}
