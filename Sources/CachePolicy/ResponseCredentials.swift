// Recognizes response fields that give credentials to a client: cookies, session and access tokens, tokens against forged requests, nonces.
// As with Set-Cookie, only the client that caused the fetch receives them. Pagination and synchronization tokens are not credentials:
// clients also need those of stored responses.

import HTTPCore

public enum ResponseCredentials {
    private static let cookies: KnownFieldSet = [.setCookie, .setCookie2]
    private static let known: KnownFieldSet = [.authenticationInfo, .authorization, .xAPIKey]
    /// Names of fields that give a credential. Each ending occurs in `mayBeName`.
    private static let names = CredentialNames([
        "id-token", "session", "sid", "token", "x-auth", "x-id-token", "x-session", "x-sid", "x-token",
        "*access-token", "*api-token", "*auth-token", "*authorization", "*bearer-token", "*cart-token", "*csrf-token", "*guest-token",
        "*jwt", "*login-token", "*nonce", "*refresh-token", "*session-id", "*session-token", "*set-cookie", "*subject-token",
        "*user-token", "*verification-token", "*xsrf-token",
    ])
    /// A token for consistent reads in Azure Cosmos DB.
    private static let consistency: StaticString = "x-ms-session-token"

    /// Returns whether the response gives a credential.
    public static func arePresent(in response: Fields) -> Bool {
        response.containsAny(of: cookies) || areOthersThanCookies(in: response)
    }

    /// Returns whether the response gives a credential in another field than Set-Cookie.
    public static func areOthersThanCookies(in response: Fields) -> Bool {
        response.containsAny(of: known) || response.entries.contains { isOther($0, response.bytes) }
    }

    /// Returns the fields that give credentials.
    public static func all(in response: Fields) -> Fields {
        guard arePresent(in: response) else { return Fields() }
        var given = response
        given.removeAll { entry, bytes in !cookies.holds(entry) && !isOther(entry, bytes) }
        return given
    }

    /// Removes all fields that give credentials.
    public static func remove(from fields: inout Fields) {
        guard arePresent(in: fields) else { return }
        fields.removeAll { entry, bytes in cookies.holds(entry) || isOther(entry, bytes) }
    }

    /// Returns whether a field gives a credential, a cookie or another one.
    /// - Parameter field: the recognized field; nil if the name is not that of a recognized field.
    public static func isGiven(by field: KnownField?, _ name: Span<UInt8>) -> Bool {
        if let field { return cookies.contains(field) || known.contains(field) }
        return isOther(name)
    }

    /// Returns whether the field gives a credential other than a cookie.
    static func isOther(_ entry: Fields.Entry, _ bytes: [UInt8]) -> Bool {
        if let field = entry.known { return known.contains(field) }
        return isOther(bytes.span.extracting(entry.nameRange))
    }

    /// - Parameter name: not the name of a recognized field.
    private static func isOther(_ name: Span<UInt8>) -> Bool {
        mayBeName(name) && names.contains(name) && !name.equalsIgnoringCase(consistency)
    }

    /// Fast check, because most names have other letters at the end.
    @inline(__always)
    private static func mayBeName(_ name: Span<UInt8>) -> Bool {
        let count = name.count
        guard count >= 3 else { return false }
        return switch (name[count - 2] | 0x20, name[count - 1] | 0x20) {
        case (UInt8(ascii: "e"), UInt8(ascii: "n")), (UInt8(ascii: "o"), UInt8(ascii: "n")): true
        case (UInt8(ascii: "i"), UInt8(ascii: "d")), (UInt8(ascii: "i"), UInt8(ascii: "e")): true
        case (UInt8(ascii: "c"), UInt8(ascii: "e")), (UInt8(ascii: "w"), UInt8(ascii: "t")), (UInt8(ascii: "t"), UInt8(ascii: "h")): true
        default: false
        }
    }
}
