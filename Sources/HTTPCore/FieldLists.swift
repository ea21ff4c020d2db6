// Lists in field values (RFC 9110 §5.6.1): members separated by commas, except within quoted strings. Heads may be long, so a search for
// one member allocates no array of members. Processing that needs more than one pass has a limit.

/// Maximum size of lists that need more than a simple scan. Legitimate lists are shorter, and longer ones must not block the event loop.
/// Each caller defines a safe interpretation of a longer list.
public enum FieldListLimit {
    /// Maximum number of members, or of parameters and directives together.
    public static let members = 128
    /// Maximum total length of the field's lines in bytes.
    public static let bytes = 8_192

    /// Returns whether the lines of a field exceed the limits. Counts each comma as the end of a member, within quotes too.
    public static func isExceeded(by field: KnownField, in fields: Fields) -> Bool {
        guard fields.contains(field) else { return false }
        var count = 0
        for entry in fields.entries where entry.known == field { count += Int(entry.valueLength) + 1 }
        // A list has no more members than bytes, so counting bytes is usually sufficient.
        return count > members && isExceeded(by: fields.all(field))
    }

    /// - Parameters:
    ///   - lines: the values of all lines of the field.
    ///   - separators: bytes that end a member, also within quotes.
    public static func isExceeded(
        by lines: [ArraySlice<UInt8>], separators: StaticString = ",", members: Int = members, bytes: Int = bytes
    ) -> Bool {
        // Checked before the members are counted, because counting is slow for 64 KiB.
        guard lines.reduce(0, { $0 + $1.count + 1 }) <= bytes + 1 else { return true }
        var count = lines.count
        for line in lines {
            let text = line.span
            for index in text.indices where isOne(text[index], of: separators) { count += 1 }
        }
        return count > members
    }

    private static func isOne(_ byte: UInt8, of separators: StaticString) -> Bool {
        for index in 0..<separators.utf8CodeUnitCount where separators.utf8Start[index] == byte { return true }
        return false
    }
}

/// Iterates over the members of one value, without surrounding white space and without empty members.
public struct FieldMembers: Sequence, IteratorProtocol {
    private let value: ArraySlice<UInt8>
    private let separator: UInt8
    private let hasEscapes: Bool
    private var position: Int

    /// - Parameter hasEscapes: whether a backslash in quotes escapes the next byte. Entity tags have no escapes.
    public init(of value: ArraySlice<UInt8>, separator: UInt8 = UInt8(ascii: ","), hasEscapes: Bool = true) {
        self.value = value
        self.separator = separator
        self.hasEscapes = hasEscapes
        position = value.startIndex
    }

    public mutating func next() -> ArraySlice<UInt8>? {
        while position <= value.endIndex {
            let start = position
            let end = endOfMember(from: start)
            position = end + 1
            let member = value[start..<end].trimmed
            if !member.isEmpty { return member }
        }
        return nil
    }

    private func endOfMember(from start: Int) -> Int {
        let base = value.startIndex
        return base + Self.endOfMember(in: value.span, from: start - base, separator, hasEscapes: hasEscapes)
    }

    /// Returns the end of the member that begins at `start`: the next unquoted separator, or the end of the text.
    public static func endOfMember(
        in text: Span<UInt8>, from start: Int, _ separator: UInt8 = UInt8(ascii: ","), hasEscapes: Bool = true
    ) -> Int {
        var isQuoted = false
        var isEscaped = false
        var index = start
        // Fast path: most members have no quotes.
        while index < text.count, text[index] != separator, text[index] != 0x22 { index += 1 }
        for index in index..<text.count {
            let byte = text[index]
            if isEscaped {
                isEscaped = false
            } else if isQuoted {
                if byte == 0x5c { isEscaped = hasEscapes } else if byte == 0x22 { isQuoted = false }
            } else if byte == 0x22 {
                isQuoted = true
            } else if byte == separator {
                return index
            }
        }
        return text.count
    }
}

public enum FieldLists {
    /// Returns the members of one value.
    public static func members(
        of value: ArraySlice<UInt8>, separator: UInt8 = UInt8(ascii: ","), hasEscapes: Bool = true
    ) -> [ArraySlice<UInt8>] {
        Array(FieldMembers(of: value, separator: separator, hasEscapes: hasEscapes))
    }

    /// Returns the members of all lines of a field, in order.
    /// - Parameter limit: maximum number of members to return.
    public static func members(of field: KnownField, in fields: Fields, limit: Int = .max) -> [ArraySlice<UInt8>] {
        var members: [ArraySlice<UInt8>] = []
        for value in fields.all(field) {
            for member in FieldMembers(of: value) {
                guard members.count < limit else { return members }
                members.append(member)
            }
        }
        return members
    }

    /// Returns whether a member of any line matches. Stops at the first match.
    public static func contains(_ field: KnownField, in fields: Fields, where fits: (ArraySlice<UInt8>) -> Bool) -> Bool {
        guard fields.contains(field) else { return false }
        for entry in fields.entries where entry.known == field {
            var members = FieldMembers(of: fields.bytes[entry.valueRange])
            while let member = members.next() { if fits(member) { return true } }
        }
        return false
    }
}
