// Lists in field values (RFC 9110 §5.6.1): members between commas, where a comma within a quoted string does not count.

package enum FieldLists {
    /// The members of one value, white space around them removed, empty ones left out.
    /// - Parameter hasEscapes: whether a backslash in quotes takes the next byte's meaning away. Entity tags know no such thing.
    package static func members(
        of value: ArraySlice<UInt8>, separator: UInt8 = UInt8(ascii: ","), hasEscapes: Bool = true
    ) -> [ArraySlice<UInt8>] {
        var members: [ArraySlice<UInt8>] = []
        var start = value.startIndex
        var isQuoted = false
        var isEscaped = false
        for index in value.indices {
            let byte = value[index]
            if isEscaped {
                isEscaped = false
            } else if isQuoted {
                if byte == 0x5c { isEscaped = hasEscapes } else if byte == 0x22 { isQuoted = false }
            } else if byte == 0x22 {
                isQuoted = true
            } else if byte == separator {
                append(value[start..<index], to: &members)
                start = index + 1
            }
        }
        append(value[start...], to: &members)
        return members
    }

    /// The members of all lines of a field, in order.
    package static func members(of field: KnownField, in fields: Fields) -> [ArraySlice<UInt8>] {
        fields.all(field).flatMap { members(of: $0) }
    }

    private static func append(_ member: ArraySlice<UInt8>, to members: inout [ArraySlice<UInt8>]) {
        let trimmed = member.trimmed
        if !trimmed.isEmpty { members.append(trimmed) }
    }
}

/// A media type (RFC 9110 §8.3.1), in lower case, without parameters.
package struct MediaType: Sendable, Equatable {
    package let type: [UInt8]
    package let subtype: [UInt8]

    package init?(_ value: ArraySlice<UInt8>) {
        let essence = value.prefix { $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: ",") }.trimmed
        let parts = essence.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty, !parts[1].isEmpty, parts.allSatisfy({ $0.allSatisfy(isTokenByte) }) else { return nil }
        type = parts[0].map(\.asciiLowercased)
        subtype = parts[1].map(\.asciiLowercased)
    }

    /// The part behind the last `+` (RFC 6839), empty where there is none.
    package var suffix: ArraySlice<UInt8> {
        guard let plus = subtype.lastIndex(of: UInt8(ascii: "+")) else { return [] }
        return subtype[(plus + 1)...]
    }
}
