// Tests that secrets in displayed fields are hidden.

import CachePolicy
import HTTPCore
import Testing

@testable import Archives

@Suite("Redaction of displayed fields")
struct RedactedMessageTests {
    private let shown = RedactedMessage(fields: ["x-tenant-key", "*credentials", "*password"])

    @Test(
        "secret fields and secrets in links are redacted",
        arguments: [
            ("X-Tenant-Key: t", "REDACTED"), ("X-Github-Token: t", "REDACTED"), ("X-My-Secrets: t", "REDACTED"),
            ("Set-Cookie: a=b; Path=/", "a=REDACTED; Path=/"),
            (
                "Link: </a?x=1&api_key=s>; rel=\"next\", </b?token=t>; rel=\"prev\"",
                "</a?x=1&api_key=REDACTED>; rel=\"next\", </b?token=REDACTED>; rel=\"prev\""
            ),
            ("Content-Location: /a?api_key=s&x=1", "/a?api_key=REDACTED&x=1"), ("Refresh: 5; url=/a?token=s", "5; url=/a?token=REDACTED"),
            ("X-Self: https://user:pa@ss@a.test/b?x=1", "https://REDACTED@a.test/b?x=1"),
            ("X-Next: /login?to=%2Fa%3Fapi_key%3Ds%26b%3D1&x=1", "/login?to=REDACTED&x=1"), ("X-Next: %2Fa%3Fapi_key%3Ds", "REDACTED"),
            ("X-Next: /a?api%5Fkey=s", "/a?api%5Fkey=REDACTED"), ("X-Next: /a#access_token=s", "/a#access_token=REDACTED"),
            ("Content-Type: application/json;charset=utf-8", "application/json;charset=utf-8"), ("ETag: \"a=b\"", "\"a=b\""),
            ("X-Next: /a?page=2&state=open", "/a?page=2&state=REDACTED"), ("X-Rate: 10%", "10%"), ("Vary: Accept", "Accept"),
            ("Access-Control-Allow-Credentials: true", "true"), ("X-Requires-Password: False", "False"), ("X-Password: true1", "REDACTED"),
            ("Access-Control-Allow-Headers: Authorization, X-CSRF-Token", "Authorization, X-CSRF-Token"),
            ("Access-Control-Expose-Headers: X-Auth-Token", "X-Auth-Token"),
            ("WWW-Authenticate: Bearer realm=\"a\", error=\"invalid_token\"", "Bearer realm=\"a\", error=\"invalid_token\""),
            ("Proxy-Authenticate: Basic realm=\"secret area\"", "Basic realm=\"secret area\""),
        ])
    func fields(line: String, value: String) {
        let told = shown.fields(Spelt.fields([line]))
        #expect(told.count == 1 && told.first?.value == value, "\(told)")
    }

    @Test("a hostile field is processed in a few passes", arguments: ["?a=", "%3F", "://", "?a=%3Fa=", ";"])
    func length(piece: String) {
        #expect(shown.fields(Spelt.fields(["X-Next: " + String(repeating: piece, count: 4_000)])).count == 1)
    }
}
