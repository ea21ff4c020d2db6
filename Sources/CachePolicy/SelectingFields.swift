// Vary (RFC 9111 §4.1): which request fields select among the answers of one key, and their values as part of a variant's key.

import HTTPCore

package enum SelectingFields {
    /// A list that holds `*` anywhere never matches (RFC 9110 §12.5.5).
    package static func isStar(_ fields: Fields) -> Bool {
        fields.contains(.vary) && FieldLists.members(of: .vary, in: fields).contains { $0.elementsEqual([UInt8(ascii: "*")]) }
    }

    /// The names by which this answer varies, in lower case and in order. Left out are Accept-Encoding, since what is stored is decoded and
    /// serves everyone, and the credential fields, which the key's partition holds already (and whose values must not be readable).
    package static func names(response: Fields, request: Fields, settings: CachePolicySettings) -> [[UInt8]] {
        var names: [[UInt8]] = []
        for member in FieldLists.members(of: .vary, in: response) {
            let name = member.map(\.asciiLowercased)
            let isCovered = name.elementsEqual("accept-encoding".utf8) || settings.credentialFields.contains { $0.utf8.elementsEqual(name) }
            if !isCovered, !names.contains(name) { names.append(name) }
        }
        // An upstream that echoes the Origin and forgets to say so.
        let origin = Array("origin".utf8)
        if let allowed = response.first(.accessControlAllowOrigin), let own = request.first(.origin), allowed == own,
            !names.contains(origin)
        {
            names.append(origin)
        }
        return names.sorted { $0.lexicographicallyPrecedes($1) }
    }

    /// The presented request's values of these fields: length-prefixed, absent told apart from empty, white space around commas gone.
    package static func values(of names: [ArraySlice<UInt8>], in request: Fields) -> [UInt8] {
        var out: [UInt8] = []
        for name in names {
            CacheKey.appendPart(Array(name), to: &out)
            let bytes = name.span
            let lines = request.all(named: bytes)
            out.append(lines.isEmpty ? 0 : 1)
            let members = lines.flatMap { FieldLists.members(of: $0) }
            CacheKey.appendPart(Array(members.joined(separator: [UInt8(ascii: ",")])), to: &out)
        }
        return out
    }

    /// A marker's names as stored: one a line.
    package static func encode(_ names: [[UInt8]]) -> [UInt8] { Array(names.joined(separator: [0x0a])) }

    package static func decode(_ bytes: UnsafeRawBufferPointer) -> [ArraySlice<UInt8>] { Array(bytes).split(separator: 0x0a) }
}
