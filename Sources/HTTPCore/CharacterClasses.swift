// Which bytes may stand in a token and in a field value (RFC 9110 §5.5, §5.6.2), as tables.

/// tchar (RFC 9110 §5.6.2): a bit for each byte, written as numbers, since a computed constant is asked for at every byte whether it has been
/// computed. The first are `!#$%&'*+-.` and the digits; the others the letters and ``^_`|~``.
@inlinable public func isTokenByte(_ byte: UInt8) -> Bool {
    let low: UInt64 = 0x03ff_6cfa_0000_0000
    let high: UInt64 = 0x57ff_ffff_c7ff_fffe
    return byte < 128 && (byte < 64 ? low : high) & (1 << UInt64(byte & 63)) != 0
}

/// What may stand in a field value: visible ASCII, SP, HTAB and obs-text (RFC 9110 §5.5). Not NUL, CR, LF or another control. Written like this
/// the usual byte takes a third of the instructions of `?:`.
@inlinable public func isFieldValueByte(_ byte: UInt8) -> Bool { (byte >= 0x20 && byte != 0x7f) || byte == 0x09 }
