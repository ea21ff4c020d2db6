// Letters, digits and the character classes of RFC 9110 §5.6, for code that processes bytes.

extension UInt8 {
    /// The byte with A–Z converted to a–z; other bytes are unchanged.
    @inlinable public var asciiLowercased: UInt8 { self &- 0x41 < 26 ? self | 0x20 : self }
    /// A byte of a field name as CGI servers read it: every character other than a letter or digit is one separator.
    @inlinable public var asFieldNameByte: UInt8 {
        let letter = self | 0x20
        if letter &- 0x61 < 26 { return letter }
        return isASCIIDigit ? self : 0x2d
    }

    @inlinable public var isASCIIDigit: Bool { self &- 0x30 < 10 }

    @inlinable public var isASCIILetter: Bool { (self | 0x20) &- 0x61 < 26 }

    /// The value of a hexadecimal digit; nil for other bytes.
    @inlinable public var hexValue: UInt8? {
        if isASCIIDigit { return self &- 0x30 }
        let letter = (self | 0x20) &- 0x61
        return letter < 6 ? letter + 10 : nil
    }

    /// SP or HTAB (RFC 9110 §5.6.3).
    @inlinable public var isOptionalWhitespace: Bool { self == 0x20 || self == 0x09 }
}

extension Span where Element == UInt8 {
    /// Returns whether both hold equal ASCII text, ignoring the case of letters.
    public func equalsIgnoringCase(_ other: Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        return withUnsafeBufferPointer { one in
            other.withUnsafeBufferPointer { UnsafeBufferPointer.isSameText(one, $0) }
        }
    }

    /// Returns the index of the first `byte` at or after `start`; nil if there is none.
    public func first(_ byte: UInt8, from start: Int = 0) -> Int? {
        let index = withUnsafeBufferPointer { $0.index(of: byte, from: start, before: count) }
        return index < count ? index : nil
    }

    /// The range without optional white space at both ends (RFC 9110 §5.6.3).
    public var trimmedRange: Range<Int> {
        var (start, end) = (0, count)
        while start < end, self[start].isOptionalWhitespace { start += 1 }
        while end > start, self[end - 1].isOptionalWhitespace { end -= 1 }
        return start..<end
    }

    /// Returns whether both are one field name for upstreams that read names like CGI (RFC 3875 §4.1.18), such as WSGI and PHP. They
    /// replace `-` by `_`, and some (lighttpd) replace every character other than a letter or digit.
    public func isReadAsName(_ other: Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        for index in indices where self[index].asFieldNameByte != other[index].asFieldNameByte { return false }
        return true
    }

    public func equals(_ other: Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        for index in indices where self[index] != other[index] { return false }
        return true
    }

    /// Returns whether this precedes the other text in the order of bytes.
    public func precedes(_ other: Span<UInt8>) -> Bool {
        for index in 0..<Swift.min(count, other.count) where self[index] != other[index] { return self[index] < other[index] }
        return count < other.count
    }

    public func equals(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        for index in indices where self[index] != text.utf8Start[index] { return false }
        return true
    }

    public func equalsIgnoringCase(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        return withUnsafeBufferPointer { UnsafeBufferPointer.isSameText($0, UnsafeBufferPointer(start: text.utf8Start, count: count)) }
    }

    public func startsIgnoringCase(_ text: StaticString) -> Bool { extracting(first: text.utf8CodeUnitCount).equalsIgnoringCase(text) }
}

/// Formats numbers in decimal digits without an intermediate `String`.
public enum DecimalDigits {
    /// Maximum length in bytes, including the sign.
    public static let longest = 20

    /// Returns the number of bytes written.
    public static func write(_ value: Int, to target: UnsafeMutablePointer<UInt8>) -> Int {
        var bound: UInt = 10
        let magnitude = value.magnitude
        var count = 1
        while count < 19, magnitude >= bound {
            bound *= 10
            count += 1
        }
        let sign = value < 0 ? 1 : 0
        if sign == 1 { target[0] = UInt8(ascii: "-") }
        var rest = magnitude
        for index in stride(from: sign + count - 1, through: sign, by: -1) {
            let quotient = rest / 10
            target[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest - quotient * 10)
            rest = quotient
        }
        return sign + count
    }
}

extension [UInt8] {
    public mutating func append(_ text: StaticString) {
        append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    public mutating func append(copying span: Span<UInt8>) {
        span.withUnsafeBufferPointer { append(contentsOf: $0) }
    }

    /// Returns the key of a record that is stored next to this key's record. `+` would create one more array and take four times as long.
    @inlinable
    public func followed(by letter: UInt8) -> [UInt8] {
        var key: [UInt8] = []
        key.reserveCapacity(count + 1)
        key.append(contentsOf: self)
        key.append(letter)
        return key
    }

    public init(copying span: Span<UInt8>) { self = span.withUnsafeBufferPointer { Array($0) } }

    /// Appends content of unknown length that arrives in pieces. Growing copies the existing content, which is slow for long content. So
    /// from 1 MiB on, the capacity is reserved for the maximum length at once. The kernel allocates the pages only when they are written.
    /// - Parameter limit: maximum length of the content in bytes. Beyond 64 MiB, the array grows by copying.
    public mutating func append(copying span: Span<UInt8>, growingTo limit: Int) {
        let (long, longest) = (1 << 20, 64 << 20)
        let count = self.count + span.count
        if count > capacity, count > long, count <= longest { reserveCapacity(Swift.max(count, Swift.min(limit, longest))) }
        append(copying: span)
    }

    /// Appends a number in decimal digits.
    public mutating func append(decimal value: Int) {
        append(atMost: DecimalDigits.longest) { $0.put(decimal: value) }
    }

    /// Appends the line before a chunk of this size (RFC 9112 §7.1).
    public mutating func append(chunkSize count: Int) { append(contentsOf: "\(String(count, radix: 16))\r\n".utf8) }

    public init(_ text: StaticString) {
        self.init(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}

extension ArraySlice<UInt8> {
    public func equals(_ text: StaticString) -> Bool {
        let bytes = span
        return bytes.equals(text)
    }

    public func equalsIgnoringCase(_ text: StaticString) -> Bool {
        let bytes = span
        return bytes.equalsIgnoringCase(text)
    }

    public func equalsIgnoringCase(_ other: ArraySlice<UInt8>) -> Bool {
        let (left, right) = (span, other.span)
        return left.equalsIgnoringCase(right)
    }

    /// The slice without optional white space at both ends (RFC 9110 §5.6.3).
    public var trimmed: ArraySlice<UInt8> {
        var slice = self
        while let first = slice.first, first.isOptionalWhitespace { slice.removeFirst() }
        while let last = slice.last, last.isOptionalWhitespace { slice.removeLast() }
        return slice
    }

    /// The path of a target (RFC 3986 §3.3).
    public var withoutQuery: ArraySlice<UInt8> { prefix { $0 != UInt8(ascii: "?") } }

    /// A URI without user name and password before the host (RFC 3986 §3.2.1).
    public var withoutUserInformation: ArraySlice<UInt8> {
        guard let slash = firstIndex(of: UInt8(ascii: "/")), self[(slash + 1)...].first == UInt8(ascii: "/") else { return self }
        let authority = self[(slash + 2)...].prefix { !"/?#".utf8.contains($0) }
        guard let end = authority.lastIndex(of: UInt8(ascii: "@")) else { return self }
        return Array(self[..<authority.startIndex] + self[(end + 1)...])[...]
    }
}
