// Which bytes are valid in a token and in a field value (RFC 9110 §5.5, §5.6.2).

/// tchar (RFC 9110 §5.6.2), one bit for each byte. Literals, because a lazily computed constant is checked for initialization at every
/// byte. The first word holds `!#$%&'*+-.` and the digits, the second one letters and ``^_`|~``.
@inlinable public func isTokenByte(_ byte: UInt8) -> Bool {
    let low: UInt64 = 0x03ff_6cfa_0000_0000
    let high: UInt64 = 0x57ff_ffff_c7ff_fffe
    return byte < 128 && (byte < 64 ? low : high) & (1 << UInt64(byte & 63)) != 0
}

/// Bytes that are valid in a field value: visible ASCII, SP, HTAB and obs-text (RFC 9110 §5.5). NUL, CR, LF and other controls are not. In
/// this form, the usual byte takes a third of the instructions of `?:`.
@inlinable public func isFieldValueByte(_ byte: UInt8) -> Bool { (byte >= 0x20 && byte != 0x7f) || byte == 0x09 }
