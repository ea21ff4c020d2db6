// Which bytes may stand in a token and in a field value (RFC 9110 §5.5, §5.6.2), as tables.

/// tchar (RFC 9110 §5.6.2).
@inlinable package func isTokenByte(_ byte: UInt8) -> Bool {
    byte < 128 && (byte < 64 ? tokenLow : tokenHigh) & (1 << UInt64(byte & 63)) != 0
}

/// What may stand in a field value: visible ASCII, SP, HTAB and obs-text (RFC 9110 §5.5). Not NUL, CR, LF or another control.
@inlinable package func isFieldValueByte(_ byte: UInt8) -> Bool { byte >= 0x20 ? byte != 0x7f : byte == 0x09 }

@usableFromInline let tokenLow = bits("!#$%&'*+-.0123456789", from: 0)
@usableFromInline let tokenHigh = bits("ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~", from: 64)

private func bits(_ characters: String, from base: UInt8) -> UInt64 {
    characters.utf8.reduce(0) { $0 | 1 << UInt64($1 - base) }
}
