// The tags by which related responses are purged together. They come from Cache-Groups (RFC 9875 §2, a list of strings), and from the older
// fields of CDNs: Surrogate-Key (words) and Cache-Tag (a comma-separated list).

import HTTPCore
import RawStructuredFieldValues

public enum CacheTags {
    /// Returns the tags, groups first, without duplicates. Tags are case-sensitive (RFC 9875 §2).
    /// - Parameter fields: fields of the stored response.
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

    /// Returns the groups that a response belongs to (RFC 9875 §2) or, for `Cache-Group-Invalidation` (§3), that an unsafe request
    /// invalidates. A list of strings; with a syntax error or a member of another type, the whole field counts as absent.
    /// - Returns: nil if the list exceeds the limit and is not parsed.
    public static func groups(of fields: Fields, named name: StaticString) -> [String]? {
        let lines = fields.all(named: name)
        guard !lines.isEmpty else { return [] }
        guard !FieldListLimit.isExceeded(by: lines, separators: ",;", members: groupLimit, bytes: groupLimitBytes) else { return nil }
        return groups(in: Array(lines.joined(separator: [UInt8(ascii: ",")])))
    }

    /// Returns the first groups that an unsafe request invalidates (`Cache-Group-Invalidation`), also if the list exceeds the limit.
    /// Invalidating some groups is better than none.
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

    /// Maximum number of members and parameters together, and of bytes: at most 1.5 ms of parsing. RFC 9875 §2 requires 32 groups of 32
    /// characters.
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
