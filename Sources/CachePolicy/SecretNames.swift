// Which arguments and fields hold secrets, going by their names: their values are shown to nobody and exported only where that is asked for.

import HTTPCore

public enum SecretNames {
    /// What stands in the place of a secret.
    public static let redaction = "REDACTED"

    /// Arguments of these names, whatever their case; `-` and `_` do not count.
    private static let arguments: Set<String> = members.union([
        "key", "appkey", "auth", "authorization", "pass", "session", "sid", "code", "credential", "signature", "sig", "hmac",
        "xamzsignature", "xamzcredential", "xamzsecuritytoken", "xgoogsignature", "xgoogcredential", "awsaccesskeyid", "state", "pin",
        "xapikey", "apitoken", "authcode", "sessionkey", "accesskeyid", "codeverifier", "idtokenhint", "ticket",
    ])

    /// Names that begin or end so, beside those that are listed.
    private static let beginnings = ["csrf", "xsrf", "bearer"]
    private static let endings = [
        "token", "secret", "password", "passwd", "passcode", "passphrase", "apikey", "accesskey", "secretkey", "privatekey",
        "subscriptionkey", "credential", "cookie", "jwt",
    ]
    /// By these the next page is asked for: they open nothing.
    private static let pages = ["page", "next", "prev", "previous", "continuation", "continue", "sync", "cursor", "start"]

    /// Members of JSON objects of these names, where their value is a text; the same does not count. Fewer, since `code`, `state` and `key` are
    /// ordinary there.
    private static let members: Set<String> = [
        "apikey", "accesskey", "secretkey", "privatekey", "token", "accesstoken", "refreshtoken", "idtoken", "authtoken", "sessiontoken",
        "bearertoken", "secret", "clientsecret", "password", "passwd", "pwd", "newpassword", "oldpassword", "passphrase", "sessionid",
        "jwt",
        "otp",
    ]

    /// Fields of requests and responses beyond those that are set as credential fields. In lower case.
    private static let fields: Set<String> = [
        "authorization", "proxy-authorization", "cookie", "cookie2", "set-cookie", "set-cookie2", "x-api-key", "api-key", "apikey",
        "x-auth-token", "x-access-token", "x-csrf-token", "x-xsrf-token", "x-amz-security-token", "authentication-info",
        "proxy-authentication-info",
    ]

    /// Request fields whose values may be shown where they select a variant.
    private static let harmless: Set<String> = ["accept", "accept-language", "accept-charset", "origin", "prefer", "accept-datetime"]

    /// Also where it is a part of the name, as in `user[password]` and `user.token`.
    public static func isSecret(argument name: some Collection<UInt8>) -> Bool {
        name.split { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "]") || $0 == UInt8(ascii: ".") }.contains {
            let name = plain($0)
            return arguments.contains(name) || soundsSecret(name)
        }
    }

    /// - Parameter name: a plain one.
    private static func soundsSecret(_ name: some StringProtocol) -> Bool {
        if beginnings.contains(where: { name.hasPrefix($0) }) { return true }
        return endings.contains { name.hasSuffix($0) } && !isPageToken(name)
    }

    private static func isPageToken(_ name: some StringProtocol) -> Bool { pages.contains { name.hasSuffix($0 + "token") } }

    public static func asksForPage(_ name: some Collection<UInt8>) -> Bool { isPageToken(plain(name)) }

    public static func isSecret(member name: some Collection<UInt8>) -> Bool { members.contains(plain(name)) }

    /// Members and fields under which people are shown nothing: beyond those that archives cover whatever ends like a secret's name, also of several.
    public static func isSecret(shown name: some Collection<UInt8>) -> Bool {
        let plain = plain(name)
        if members.contains(plain) || arguments.contains(plain) && !ordinary.contains(plain) { return true }
        return soundsSecret(plain.hasSuffix("s") ? plain.dropLast() : plain[...])
    }

    /// Arguments that are ordinary as members.
    private static let ordinary: Set<String> = ["key", "code", "state"]

    /// As it is compared here.
    public static func plain(_ name: some Collection<UInt8>) -> String {
        String(decoding: name.filter { $0 != UInt8(ascii: "-") && $0 != UInt8(ascii: "_") }.map(\.asciiLowercased), as: UTF8.self)
    }

    /// - Parameter name: in lower case.
    public static func isSecret(field name: String) -> Bool { fields.contains(name) }

    public static func mayShow(selecting name: String) -> Bool { harmless.contains(name) }

    private static func isSecret(encoded name: ArraySlice<UInt8>) -> Bool {
        if isSecret(argument: name) { return true }
        guard name.contains(UInt8(ascii: "%")) else { return false }
        // What cannot be read may be anything.
        return PercentCoding.decode(name, plusIsSpace: true).map { isSecret(argument: $0.utf8) } ?? true
    }

    /// Path and query with the values of secret arguments left out.
    /// Names count as the upstream reads them, without their percent-encoding; and so do arguments within arguments, as in the address of another
    /// page, and in keys, where the signs in values are encoded.
    public static func redacted(_ target: some Collection<UInt8>) -> String {
        let bytes = Array(target)
        guard let question = bytes.firstIndex(of: UInt8(ascii: "?")) else { return String(decoding: bytes, as: UTF8.self) }
        var shown = Array(bytes[...question])
        var rest = bytes[(question + 1)...]
        while !rest.isEmpty {
            // Some upstreams take `;` for `&`.
            let separator = firstSign(in: rest) { "&;?".utf8.contains($0) }
            let argument = rest[..<(separator?.lowerBound ?? rest.endIndex)]
            if let equals = firstSign(in: argument, where: { $0 == UInt8(ascii: "=") }), isSecret(encoded: argument[..<equals.lowerBound]) {
                shown += argument[..<equals.upperBound] + Array(redaction.utf8)
            } else {
                shown += argument
            }
            guard let separator else { break }
            shown += rest[separator]
            rest = rest[separator.upperBound...]
        }
        return String(decoding: shown, as: UTF8.self)
    }

    /// The path of a target up to its first argument, also if that is a parameter of a path segment or percent-encoded.
    public static func pathAlone(_ target: some Collection<UInt8>) -> String {
        let bytes = Array(target)
        let end = firstSign(in: bytes[...]) { "?;#=".utf8.contains($0) }?.lowerBound ?? bytes.endIndex
        return String(decoding: bytes[..<end], as: UTF8.self)
    }

    /// Where a sign stands, as it is or percent-encoded.
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
