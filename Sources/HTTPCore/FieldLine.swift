// Parses one field line of a head (RFC 9112 §5): a token, a colon directly after it, and a value without control characters. Line ends and
// error messages differ between requests and responses; the callers handle them.

struct FieldLine {
    /// Offsets of the parts. Values exclude surrounding white space.
    let nameEnd: Int
    let valueStart: Int
    let valueEnd: Int
    /// Offset of the first byte that is invalid in a value; the line must end there.
    let end: Int
    let known: KnownField?

    /// - Parameters:
    ///   - start: offset of the line.
    ///   - limit: end of the bytes that may belong to the line.
    /// - Returns: nil if the line does not begin with a name and a colon: white space before the colon, or a folded line.
    @inline(__always)
    init?(in bytes: UnsafeBufferPointer<UInt8>, from start: Int, before limit: Int) {
        let colon = bytes.index(of: 0x3a, from: start, before: limit)
        guard colon > start, colon < limit else { return nil }
        let known = KnownField(Span(_unsafeElements: UnsafeBufferPointer(rebasing: bytes[start..<colon])))
        // Known names are tokens.
        if known == nil {
            for index in start..<colon where !isTokenByte(bytes[index]) { return nil }
        }
        var first = colon + 1
        while first < limit, bytes[first].isOptionalWhitespace { first += 1 }
        let end = bytes.endOfFieldValue(from: first, before: limit)
        var last = end
        while last > first, bytes[last - 1].isOptionalWhitespace { last -= 1 }
        (nameEnd, valueStart, valueEnd, self.end, self.known) = (colon, first, last, end, known)
    }

    /// Parses a line with white space between name and colon, which a proxy must remove from a response (RFC 9112 §5.1).
    @inline(never)
    init?(spacedIn bytes: UnsafeBufferPointer<UInt8>, from start: Int, before limit: Int) {
        let colon = bytes.index(of: 0x3a, from: start, before: limit)
        guard colon < limit else { return nil }
        var nameEnd = colon
        while nameEnd > start, bytes[nameEnd - 1].isOptionalWhitespace { nameEnd -= 1 }
        guard nameEnd > start, nameEnd < colon else { return nil }
        for index in start..<nameEnd where !isTokenByte(bytes[index]) { return nil }
        var first = colon + 1
        while first < limit, bytes[first].isOptionalWhitespace { first += 1 }
        let end = bytes.endOfFieldValue(from: first, before: limit)
        var last = end
        while last > first, bytes[last - 1].isOptionalWhitespace { last -= 1 }
        let known = KnownField(Span(_unsafeElements: UnsafeBufferPointer(rebasing: bytes[start..<nameEnd])))
        (self.nameEnd, valueStart, valueEnd, self.end, self.known) = (nameEnd, first, last, end, known)
    }

    /// - Parameter offset: distance from these bytes to those that the entry will refer to.
    @inline(__always)
    func entry(from start: Int, movedBy offset: Int = 0) -> Fields.Entry {
        Fields.Entry(
            nameStart: UInt32(start + offset), nameLength: UInt32(nameEnd - start), valueStart: UInt32(valueStart + offset),
            valueLength: UInt32(valueEnd - valueStart), known: known)
    }
}
