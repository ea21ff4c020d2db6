// Table tests of which response fields give a credential to a client.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Names of response fields with credentials")
struct ResponseCredentialsTests {
    private static func names(_ text: String) -> [String] { text.split { $0.isWhitespace }.map(String.init) }

    private static let secret = names(
        """
        Authorization Authentication-Info Set-Cookie Set-Cookie2 X-Set-Cookie X-Amzn-Remapped-Set-Cookie X-Amzn-Remapped-Authorization
        X-Authorization X-API-Key X-Api-Token X-Auth-Token Auth-Token AuthToken x_auth_token Access-Token X-Access-Token X-Refresh-Token
        X-Session-Token X-Session-Id Session-ID SessionId X-SessionID Mcp-Session-Id Session X-Session Sid X-Sid Token X-Token X-Auth
        Cart-Token X-Cart-Token X-Guest-Token X-User-Token X-Login-Token X-Bearer-Token X-Subject-Token Id-Token X-Id-Token X-JWT Jwt
        X-CSRF-Token X-CSRFToken X-XSRF-TOKEN csrf-token RequestVerificationToken Nonce X-WP-Nonce X-WC-Store-API-Nonce DPoP-Nonce
        Replay-Nonce
        """)
    private static let harmless = names(
        """
        X-Request-Token Next-Page-Token X-Next-Page-Token nextpagetoken X-Page-Token X-Continuation-Token Continuation-Token
        x-ms-continuation X-Next-Token Sync-Token X-Sync-Token X-Cursor X-Next-Cursor Link ETag X-Total-Count Location Content-Location
        X-Request-Id X-Correlation-Id X-Transaction-Id Request-Id X-Message-Id WWW-Authenticate X-Announce X-Powered-By Last-Event-ID
        X-RateLimit-Limit X-CSRF-Header X-CSRF-Param Access-Control-Allow-Credentials Content-Type Content-Security-Policy Age Date
        Vary Server Client Uid Sec-Session-Id X-Object-Version X-Api-Version Content-Disposition Cart-Hash X-Ms-Session-Token te n en
        """)

    private static func fields(_ name: String, _ value: String = "a") -> Fields {
        var fields = Fields()
        fields.append(name: "X-Other", value: "1")
        fields.append(name: name, value: value)
        return fields
    }

    @Test("session tokens, tokens against forged requests and nonces are credentials in any spelling", arguments: secret)
    func credentials(name: String) {
        for name in [name, name.lowercased(), name.uppercased()] {
            var fields = Self.fields(name)
            #expect(ResponseCredentials.arePresent(in: fields))
            #expect(ResponseCredentials.areOthersThanCookies(in: fields) == !["set-cookie", "set-cookie2"].contains(name.lowercased()))
            #expect(ResponseCredentials.all(in: fields).count == 1)
            let isGiven = ResponseCredentials.isGiven(by: fields.entries[1].known, Array(name.utf8).span)
            #expect(isGiven)
            ResponseCredentials.remove(from: &fields)
            #expect(fields.count == 1 && !ResponseCredentials.arePresent(in: fields))
        }
    }

    @Test("pagination tokens and identifiers of requests are not credentials", arguments: harmless)
    func others(name: String) {
        var fields = Self.fields(name)
        #expect(!ResponseCredentials.arePresent(in: fields) && ResponseCredentials.all(in: fields).count == 0)
        let isGiven = ResponseCredentials.isGiven(by: fields.entries[1].known, Array(name.utf8).span)
        #expect(!isGiven)
        ResponseCredentials.remove(from: &fields)
        #expect(fields.count == 2)
    }
}
