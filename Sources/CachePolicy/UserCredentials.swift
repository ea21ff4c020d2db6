// Decides whether a request's credentials can identify a single user. A partition may consist of a mere preference, for example a language
// that thousands of users share. A `private` response (RFC 9111 §5.2.2.7) must not be stored there.

import HTTPCore

public enum UserCredentials {
    /// Returns whether one of the partition's credentials can belong to a single user. It is a credential field that does not name a group
    /// of users, or a cookie that looks like a session.
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
            // A field that matches only by its ending may hold a preference (`X-Premium-User: true`).
            case .ending: return !isChoice(fields.bytes[entry.valueRange])
            }
        }
    }

    /// Values of preferences, and values that scripts send for an undefined variable.
    private static let choices: Set<String> = ["true", "false", "yes", "no", "on", "off", "0", "1", "none", "null", "undefined"]

    static func isChoice(_ value: ArraySlice<UInt8>) -> Bool { choices.contains(String(decoding: value, as: UTF8.self).lowercased()) }

    private static func hasCookie(_ fields: Fields, _ settings: CachePolicySettings) -> Bool {
        guard fields.contains(.cookie), settings.credentials.fields.contains("cookie"),
            let pairs = CredentialCookies(settings).pairs(of: fields)
        else { return false }
        let named = settings.credentials.cookies.filter { !$0.hasSuffix("*") }.map { CookiePattern($0) }
        return pairs.contains { pair in isSessionLike(pair.value) || (!pair.value.isEmpty && named.contains { $0.matches(pair.name) }) }
    }

    /// Minimum length of a session identifier: consecutive letters, digits, `-`, `_`, `+` and `/`, as frameworks generate them
    /// (hexadecimal, Base64, UUIDs, JWTs).
    /// Dates, time zone names and preferences must not match. So a part between `-` and `_` must have this length and a digit, or eight
    /// characters with a digit and a letter. An identifier that does not match counts as a preference; its user's private responses are
    /// then not stored.
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
