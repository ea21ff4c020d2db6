// Lists in field values (RFC 9110 §5.6.1): members between commas, where a comma within a quoted string does not count. A head may be long, so
// lists are gone through without an array of their members where only one of them is looked for, and what needs more than a pass has a limit.

/// How much of a list is read where each member costs more than a glance. Nobody sends as much in earnest; what lies beyond must not hold up
/// the others on the loop, so whoever reads a list says what a longer one means: always what is safe.
public enum FieldListLimit {
    /// Members, or parameters and directives together.
    public static let members = 128
    /// Bytes of all lines of the field together.
    public static let bytes = 8_192

    /// Of all lines of a field together, whose members end at commas, within quotes too.
    public static func isExceeded(by field: KnownField, in fields: Fields) -> Bool {
        guard fields.contains(field) else { return false }
        var count = 0
        for entry in fields.entries where entry.known == field { count += Int(entry.valueLength) + 1 }
        // No more members than bytes: mostly that is all there is to know.
        return count > members && isExceeded(by: fields.all(field))
    }

    /// - Parameters:
    ///   - lines: the values of all lines of the field.
    ///   - separators: each of these bytes counts as the end of a member, also within quotes.
    public static func isExceeded(
        by lines: [ArraySlice<UInt8>], separators: StaticString = ",", members: Int = members, bytes: Int = bytes
    ) -> Bool {
        // Before it is counted, since even that takes its time with 64 KiB.
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

/// The members of one value, one after the other: white space around them removed, empty ones left out.
public struct FieldMembers: Sequence, IteratorProtocol {
    private let value: ArraySlice<UInt8>
    private let separator: UInt8
    private let hasEscapes: Bool
    private var position: Int

    /// - Parameter hasEscapes: whether a backslash in quotes takes the next byte's meaning away. Entity tags know no such thing.
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

    /// Where the member ends that begins at `start`: at a separator that is not quoted, or at the end of all.
    public static func endOfMember(
        in text: Span<UInt8>, from start: Int, _ separator: UInt8 = UInt8(ascii: ","), hasEscapes: Bool = true
    ) -> Int {
        var isQuoted = false
        var isEscaped = false
        var index = start
        // Mostly nothing is quoted.
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
    /// The members of one value.
    public static func members(
        of value: ArraySlice<UInt8>, separator: UInt8 = UInt8(ascii: ","), hasEscapes: Bool = true
    ) -> [ArraySlice<UInt8>] {
        Array(FieldMembers(of: value, separator: separator, hasEscapes: hasEscapes))
    }

    /// The members of all lines of a field, in order.
    /// - Parameter limit: so many at most.
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

    /// Whether a member of any line fits; stops at the first that does.
    public static func contains(_ field: KnownField, in fields: Fields, where fits: (ArraySlice<UInt8>) -> Bool) -> Bool {
        guard fields.contains(field) else { return false }
        for entry in fields.entries where entry.known == field {
            var members = FieldMembers(of: fields.bytes[entry.valueRange])
            while let member = members.next() { if fits(member) { return true } }
        }
        return false
    }
}
