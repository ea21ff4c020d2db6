// Detects credentials that change with each request: signatures over the time or a nonce. No later request has the partition of such a
// request.

import HTTPCore

public enum OneTimeCredentials {
    /// Authentication schemes that sign each request: AWS and similar services, Digest (RFC 7616), Hawk, and HTTP message signatures.
    private static let schemes: Set<String> = [
        "aws", "goog1", "oss", "eg1-hmac-sha256", "digest", "hawk", "signature", "sharedkey", "sharedkeylite", "hmac",
    ]
    /// Schemes with the algorithm after this prefix.
    private static let schemePrefixes = ["aws4-", "goog4-", "oss4-"]

    /// Returns whether the credentials in the cache key include one-time credentials.
    public static func arePresent(in fields: Fields, names: CredentialNames) -> Bool {
        if names.contains(dpop.span), fields.contains(named: dpop.span) { return true }
        guard let value = fields.first(.authorization), names.contains(authorization.span) else { return false }
        return isOneTime(value)
    }

    /// Returns whether a signature covers the request's conditions, so that other conditions would make it invalid. AWS (SignedHeaders) and
    /// HTTP message signatures (RFC 9421) name the covered fields.
    static func signConditions(in fields: Fields) -> Bool {
        let signed = fields.all(named: "signature-input") + (fields.first(.authorization).map { isOneTime($0) ? [$0] : [] } ?? [])
        return signed.contains { value in
            let names = String(decoding: value, as: UTF8.self).lowercased()
            return names.contains("if-none-match") || names.contains("if-modified-since")
        }
    }

    /// A DPoP proof (RFC 9449 §4.2) is made for one request; the token sent with it does not change.
    private static let dpop = Array("dpop".utf8)
    private static let authorization = Array("authorization".utf8)

    static func isOneTime(_ value: ArraySlice<UInt8>) -> Bool {
        let scheme = String(decoding: value.prefix { $0 != 0x20 }, as: UTF8.self).lowercased()
        if schemes.contains(scheme) || schemePrefixes.contains(where: scheme.hasPrefix) { return true }
        // OAuth 1.0 (RFC 5849 §3.5.1) shares the scheme name with old bearer tokens.
        guard scheme == "oauth" else { return false }
        let rest = value.dropFirst(scheme.utf8.count)
        return rest.indices.contains { rest[$0...].starts(with: signature) }
    }

    private static let signature = Array("oauth_signature".utf8)
}
