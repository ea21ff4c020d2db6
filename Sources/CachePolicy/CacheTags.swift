// The tags of a response, by which what belongs together is purged together: Cache-Groups (RFC 9875 §2, a list of strings), and the older
// Surrogate-Key (words) and Cache-Tag (a list with commas) of content delivery networks.

import HTTPCore
import RawStructuredFieldValues

public enum CacheTags {
    /// The groups first, each once. RFC 9875 §2: case-sensitive.
    /// - Parameter fields: the stored response's.
    public static func tags(of fields: Fields) -> [String] {
        var tags: [String] = []
        var known: Set<String> = []
        func add(_ tag: String) {
            if !tag.isEmpty, known.insert(tag).inserted { tags.append(tag) }
        }
        groups(of: fields, named: "cache-groups")?.forEach(add)
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

    /// The groups that a response belongs to (RFC 9875 §2), or, under `Cache-Group-Invalidation` (§3), that an unsafe request has changed: a
    /// list of strings. One mistake, or a member of another type, and the whole field counts as absent.
    /// - Returns: nil where there are more than are read: then nobody knows which they are.
    public static func groups(of fields: Fields, named name: StaticString) -> [String]? {
        let lines = fields.all(named: name)
        guard !lines.isEmpty else { return [] }
        guard !FieldListLimit.isExceeded(by: lines, separators: ",;", members: groupLimit, bytes: groupLimitBytes) else { return nil }
        return groups(in: Array(lines.joined(separator: [UInt8(ascii: ",")])))
    }

    /// The first groups that an unsafe request has changed (`Cache-Group-Invalidation`), where there are more than are read: better some than
    /// none.
    public static func firstGroups(of fields: Fields, named name: StaticString) -> [String] {
        let lines = fields.all(named: name)
        if let all = groups(of: fields, named: name) { return all }
        var bytes: [UInt8] = []
        for member in lines.lazy.flatMap({ FieldMembers(of: $0) }).prefix(groupLimit) {
            guard bytes.count + member.count < groupLimitBytes else { break }
            if !bytes.isEmpty { bytes.append(UInt8(ascii: ",")) }
            bytes += member
        }
        return groups(in: bytes)
    }

    /// Members and parameters together, and bytes: a millisecond and a half for the parser. RFC 9875 §2 asks for 32 groups of 32 characters.
    private static let groupLimit = 512
    private static let groupLimitBytes = 16_384

    private static func groups(in bytes: [UInt8]) -> [String] {
        guard !bytes.isEmpty else { return [] }
        var parser = StructuredFieldValueParser(bytes)
        guard let members = try? parser.parseListFieldValue() else { return [] }
        var groups: [String] = []
        for member in members {
            guard case .item(let item) = member, case .string(let group) = item.rfc9651BareItem else { return [] }
            groups.append(group)
        }
        return groups
    }
}
