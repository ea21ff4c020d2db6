// Detects arguments and fields that hold secrets, by name. Their values are never displayed, and exported only on request.

import HTTPCore

public enum SecretNames {
    /// Replaces the value of a secret.
    public static let redaction = "REDACTED"

    /// Names of secret arguments. Compared without regard to case, `-` and `_`.
    private static let arguments: Set<String> = members.union([
        "key", "appkey", "auth", "authorization", "pass", "session", "sid", "code", "credential", "signature", "sig", "hmac",
        "xamzsignature", "xamzcredential", "xamzsecuritytoken", "xgoogsignature", "xgoogcredential", "awsaccesskeyid", "state", "pin",
        "jsessionid", "phpsessid", "xapikey", "apitoken", "authcode", "sessionkey", "accesskeyid", "codeverifier", "idtokenhint", "ticket",
    ])

    /// Beginnings and endings of secret names, in addition to the listed names.
    private static let beginnings = ["csrf", "xsrf", "bearer"]
    private static let endings = [
        "token", "secret", "password", "passwd", "passcode", "passphrase", "apikey", "accesskey", "secretkey", "privatekey",
        "subscriptionkey", "credential", "cookie", "jwt",
    ]
    /// Words before `token` in the names of pagination tokens, which grant no access.
    private static let pages = ["page", "next", "prev", "previous", "continuation", "continue", "sync", "cursor", "start"]

    /// Names of secret members of JSON objects with string values. Compared without regard to case, `-` and `_`. Fewer than for arguments,
    /// because `code`, `state` and `key` are ordinary members.
    private static let members: Set<String> = [
        "apikey", "accesskey", "secretkey", "privatekey", "token", "accesstoken", "refreshtoken", "idtoken", "authtoken", "sessiontoken",
        "bearertoken", "secret", "clientsecret", "password", "passwd", "pwd", "newpassword", "oldpassword", "passphrase", "sessionid",
        "jwt",
        "otp",
    ]

    /// Names of secret request and response fields, in addition to the configured credential fields. In lower case.
    private static let fields: Set<String> = [
        "authorization", "proxy-authorization", "cookie", "cookie2", "set-cookie", "set-cookie2", "x-api-key", "api-key", "apikey",
        "x-auth-token", "x-access-token", "x-csrf-token", "x-xsrf-token", "x-amz-security-token", "authentication-info",
        "proxy-authentication-info",
    ]

    /// Request fields with values that may be displayed if they select a variant.
    private static let harmless: Set<String> = ["accept", "accept-language", "accept-charset", "origin", "prefer", "accept-datetime"]

    /// Returns whether an argument is secret. Parts of structured names count, as in `user[password]` and `user.token`.
    public static func isSecret(argument name: some Collection<UInt8>) -> Bool {
        name.split { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "]") || $0 == UInt8(ascii: ".") }.contains {
            let name = plain($0)
            return arguments.contains(name) || soundsSecret(name)
        }
    }

    /// - Parameter name: result of `plain`.
    private static func soundsSecret(_ name: some StringProtocol) -> Bool {
        if beginnings.contains(where: { name.hasPrefix($0) }) { return true }
        return endings.contains { name.hasSuffix($0) } && !isPageToken(name)
    }

    private static func isPageToken(_ name: some StringProtocol) -> Bool { pages.contains { name.hasSuffix($0 + "token") } }

    public static func asksForPage(_ name: some Collection<UInt8>) -> Bool { isPageToken(plain(name)) }

    public static func isSecret(member name: some Collection<UInt8>) -> Bool { members.contains(plain(name)) }

    /// Returns whether a member's or field's value is hidden from display. Covers more names than archives do: also names with the ending
    /// of a secret's name, and their plurals.
    public static func isSecret(shown name: some Collection<UInt8>) -> Bool {
        let plain = plain(name)
        if members.contains(plain) || arguments.contains(plain) && !ordinary.contains(plain) { return true }
        return soundsSecret(plain.hasSuffix("s") ? plain.dropLast() : plain[...])
    }

    /// Secret argument names that are ordinary as members.
    private static let ordinary: Set<String> = ["key", "code", "state"]

    /// Returns the name in the form used for comparison: in lower case, without `-` and `_`.
    public static func plain(_ name: some Collection<UInt8>) -> String {
        String(decoding: name.filter { $0 != UInt8(ascii: "-") && $0 != UInt8(ascii: "_") }.map(\.asciiLowercased), as: UTF8.self)
    }

    /// - Parameter name: in lower case.
    public static func isSecret(field name: String) -> Bool { fields.contains(name) }

    public static func mayShow(selecting name: String) -> Bool { harmless.contains(name) }

    /// - Parameter isParameter: whether it is the name of a parameter of a path segment.
    private static func isSecret(encoded name: ArraySlice<UInt8>, isParameter: Bool) -> Bool {
        let isSecret = { (name: [UInt8]) -> Bool in isParameter ? Self.isSecret(parameter: name) : Self.isSecret(argument: name) }
        if isSecret(Array(name)) { return true }
        guard name.contains(UInt8(ascii: "%")) else { return false }
        // A name that cannot be decoded may be that of a secret.
        return PercentCoding.decode(name, plusIsSpace: true).map { isSecret(Array($0.utf8)) } ?? true
    }

    /// Returns whether a parameter of a path segment is secret. Fewer names than for arguments, because `key` and `code` select resources.
    private static func isSecret(parameter name: some Collection<UInt8>) -> Bool {
        let name = plain(name)
        return ["sid", "session", "jsessionid", "phpsessid"].contains(name) || members.contains(name) || soundsSecret(name)
    }

    /// Returns path and query with the values of secret arguments and of secret path parameters redacted. Names are compared
    /// percent-decoded, as the upstream reads them.
    /// Arguments nested in values count too: those of a URL in an argument, and those in keys, where separators in values are encoded.
    public static func redacted(_ target: some Collection<UInt8>) -> String { String(decoding: redactedBytes(target), as: UTF8.self) }

    public static func redactedBytes(_ target: some Collection<UInt8>) -> [UInt8] {
        let bytes = Array(target)
        var shown: [UInt8] = []
        var (rest, isQuery, isArgument) = (bytes[...], false, false)
        while !rest.isEmpty {
            // Some upstreams treat `;` like `&`.
            let separator = firstSign(in: rest) { "&;?".utf8.contains($0) || !isQuery && $0 == UInt8(ascii: "/") }
            let argument = rest[..<(separator?.lowerBound ?? rest.endIndex)]
            if isArgument, let equals = firstSign(in: argument, where: { $0 == UInt8(ascii: "=") }),
                isSecret(encoded: argument[..<equals.lowerBound], isParameter: !isQuery)
            {
                shown += argument[..<equals.upperBound] + Array(redaction.utf8)
                if equals.count == 1 {
                    // An encoded separator belongs to the value.
                    rest = rest[equals.upperBound...].drop { !"&;?".utf8.contains($0) && (isQuery || $0 != UInt8(ascii: "/")) }
                    continue
                }
            } else {
                shown += argument
            }
            guard let separator else { break }
            shown += rest[separator]
            let sign = PercentCoding.decode(rest[separator], plusIsSpace: false)
            if sign == "?" { isQuery = true }
            isArgument = isQuery || sign != "/"
            rest = rest[separator.upperBound...]
        }
        return shown
    }

    /// The path of a target up to its first argument, also if that is a parameter of a path segment or percent-encoded.
    public static func pathAlone(_ target: some Collection<UInt8>) -> String {
        let bytes = Array(target)
        let end = firstSign(in: bytes[...]) { "?;#=".utf8.contains($0) }?.lowerBound ?? bytes.endIndex
        return String(decoding: bytes[..<end], as: UTF8.self)
    }

    /// Returns the range of the first matching character, plain or percent-encoded.
    private static func firstSign(in text: ArraySlice<UInt8>, where isWanted: (UInt8) -> Bool) -> Range<Int>? {
        for index in text.indices {
            if isWanted(text[index]) { return index..<index + 1 }
            guard text[index] == UInt8(ascii: "%"), index + 2 < text.endIndex, let high = text[index + 1].hexValue,
                let low = text[index + 2].hexValue
            else { continue }
            if isWanted(high << 4 | low) { return index..<index + 3 }
        }
        return nil
    }
}
