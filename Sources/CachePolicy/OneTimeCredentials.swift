// Credentials that are new in each request: signatures over its time or a nonce. The partition of such a request is found by no other.

import HTTPCore

public enum OneTimeCredentials {
    /// Authentication schemes whose credentials sign a request: AWS and those like it, Digest (RFC 7616), Hawk, and signatures of HTTP messages.
    private static let schemes: Set<String> = [
        "aws", "goog1", "oss", "eg1-hmac-sha256", "digest", "hawk", "signature", "sharedkey", "sharedkeylite", "hmac",
    ]
    /// The same with the algorithm behind it.
    private static let schemePrefixes = ["aws4-", "goog4-", "oss4-"]

    /// Whether some of the credentials in the key are so.
    public static func arePresent(in fields: Fields, names: CredentialNames) -> Bool {
        if names.contains(dpop.span), fields.contains(named: dpop.span) { return true }
        guard let value = fields.first(.authorization), names.contains(authorization.span) else { return false }
        return isOneTime(value)
    }

    /// DPoP proofs (RFC 9449 §4.2) are made for one request; the token beside them stays.
    private static let dpop = Array("dpop".utf8)
    private static let authorization = Array("authorization".utf8)

    static func isOneTime(_ value: ArraySlice<UInt8>) -> Bool {
        let scheme = String(decoding: value.prefix { $0 != 0x20 }, as: UTF8.self).lowercased()
        if schemes.contains(scheme) || schemePrefixes.contains(where: scheme.hasPrefix) { return true }
        // OAuth 1.0 (RFC 5849 §3.5.1) has the name of the scheme in common with bearer tokens of old.
        guard scheme == "oauth" else { return false }
        let rest = value.dropFirst(scheme.utf8.count)
        return rest.indices.contains { rest[$0...].starts(with: signature) }
    }

    private static let signature = Array("oauth_signature".utf8)
}
