// Whether a request's credentials can stand for one user. A partition is made of whatever may be a credential, and that may be no more than a
// language that thousands have chosen: what an upstream calls `private` (RFC 9111 §5.2.2.7) must not lie there, since those thousands may be
// told apart by something that nobody has named to us.

import HTTPCore

public enum UserCredentials {
    /// Whether one of the credentials that make the request's partition can be one user's alone: a credential field that does not name a whole
    /// group of users, or a cookie that looks like a session's.
    public static func arePresent(in fields: Fields, settings: CachePolicySettings) -> Bool {
        hasField(fields, settings) || hasCookie(fields, settings)
    }

    private static func hasField(_ fields: Fields, _ settings: CachePolicySettings) -> Bool {
        fields.entries.contains { entry in
            guard entry.known != .cookie, entry.valueRange.count > 0 else { return false }
            let name = fields.bytes.span.extracting(entry.nameRange)
            guard !settings.credentials.groupNames.contains(name) else { return false }
            switch settings.credentials.names.match(name) {
            case .none: return false
            case .whole: return true
            // A name that nobody has given whole may be that of a choice (`X-Premium-User: true`).
            case .ending: return !isChoice(fields.bytes[entry.valueRange])
            }
        }
    }

    /// Also what scripts send where there is nothing.
    private static let choices: Set<String> = ["true", "false", "yes", "no", "on", "off", "0", "1", "none", "null", "undefined"]

    static func isChoice(_ value: ArraySlice<UInt8>) -> Bool { choices.contains(String(decoding: value, as: UTF8.self).lowercased()) }

    private static func hasCookie(_ fields: Fields, _ settings: CachePolicySettings) -> Bool {
        guard fields.contains(.cookie), settings.credentials.fields.contains("cookie"),
            let pairs = CredentialCookies(settings).pairs(of: fields)
        else { return false }
        let named = settings.credentials.cookies.filter { !$0.hasSuffix("*") }.map { CookiePattern($0) }
        return pairs.contains { pair in isSessionLike(pair.value) || (!pair.value.isEmpty && named.contains { $0.matches(pair.name) }) }
    }

    /// At least so many letters, digits, `-`, `_`, `+` and `/` in a row, as frameworks make session cookies (hexadecimal, base64, UUIDs, tokens in three
    /// parts). A date, a time zone's name or a few choices are no session: between `-` and `_` there must be so many with a digit, or eight
    /// with a digit and a letter. A session's name that happens not to be like that is taken for a choice, which costs that user nothing but the
    /// copy.
    static let sessionLength = 16
    private static let mixedLength = 8

    static func isSessionLike(_ value: ArraySlice<UInt8>) -> Bool {
        var (length, isMixed) = (0, false)
        var piece = (length: 0, hasDigit: false, hasLetter: false)
        for byte in value {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): piece = (piece.length + 1, true, piece.hasLetter)
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "+"), UInt8(ascii: "/"):
                piece = (piece.length + 1, piece.hasDigit, true)
            case UInt8(ascii: "-"), UInt8(ascii: "_"): piece = (0, false, false)
            default:
                (length, isMixed, piece) = (0, false, (0, false, false))
                continue
            }
            length += 1
            let wanted = piece.hasLetter ? mixedLength : sessionLength
            if piece.hasDigit, piece.length >= wanted { isMixed = true }
            if length >= sessionLength, isMixed { return true }
        }
        return false
    }
}
