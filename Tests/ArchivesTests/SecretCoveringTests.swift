// Tests of the placeholders that replace secrets in archives.

import CachePolicy
import HTTPCore
import JSON
import Testing

@testable import Archives

@Suite("Placeholders for secrets")
struct SecretCoveringTests {
    private let secrets = SecretCovering(fields: ["x-tenant-key", "*token"], names: ["Card-Number"])

    @Test(
        "fields keep what can be seen without the secret",
        arguments: [
            ("Authorization: Bearer abc", "Bearer REDACTED"), ("Authorization: abc", "REDACTED"), ("Cookie: a=b; c=d", "REDACTED"),
            ("Set-Cookie: sid=abc; Path=/; HttpOnly", "sid=REDACTED; Path=/; HttpOnly"), ("Set-Cookie: abc", "REDACTED"),
            ("Set-Cookie: abc; Path=/", "REDACTED"), ("X-Tenant-Key: t", "REDACTED"), ("card-number: 1", "REDACTED"),
            ("Accept: */*", "*/*"), ("Location: /cb?code=a&x=1", "/cb?code=REDACTED&x=1"),
            ("Location: http://a.test/cb#access_token=t&x=1", "http://a.test/cb#access_token=REDACTED&x=1"),
            ("Link: </a?token=t&x=1>; rel=\"next\", </b>; rel=\"prev\"", "</a?token=REDACTED&x=1>; rel=\"next\", </b>; rel=\"prev\""),
            ("Refresh: 0;url=/a?token=t", "0;url=/a?token=REDACTED"), ("Location: /a?a%70i_key=k", "/a?a%70i_key=REDACTED"),
            ("Referer: /a?x=1&token=t#y", "/a?x=1&token=REDACTED#y"), ("X-API-Key: k", "REDACTED"),
            ("X-Own-Token: t", "REDACTED"), ("X-Next-Page-Token: t", "t"),
        ])
    func fields(line: String, value: String) {
        let covered = secrets.cover(Spelt.fields([line]))
        #expect(covered.count == 1 && covered.value(at: 0).elementsEqual(value.utf8))
    }

    @Test(
        "contents and arguments: only what is named a secret",
        arguments: [
            (
                "application/json", #"{"user":"a","password":"b\"c","x":{"access_token":"t","code":"DE"}}"#,
                #"{"user":"a","password":"REDACTED","x":{"access_token":"REDACTED","code":"DE"}}"#
            ),
            ("application/json", #"{"token":7,"secret":["a"],"passwordHint":"p"}"#, #"{"token":7,"secret":["a"],"passwordHint":"p"}"#),
            ("application/json", #"{"cardNumber":"4"} "#, #"{"cardNumber":"REDACTED"} "#),
            ("application/json", #"{"password":"#, #"{"password":"#),
            (
                "application/x-www-form-urlencoded", "user=a&client_secret=b&grant=c&card%2Dnumber=4",
                "user=a&client_secret=REDACTED&grant=c&card%2Dnumber=REDACTED"
            ),
            ("text/plain", "password=a", "password=a"),
        ])
    func contents(type: String, content: String, expected: String) {
        let covered = secrets.cover(content: Array(content.utf8), type: MediaType(Array(type.utf8)[...]))
        #expect(String(decoding: covered, as: UTF8.self) == expected)
        // Covering content a second time changes nothing.
        #expect(secrets.cover(content: covered, type: MediaType(Array(type.utf8)[...])) == covered)
    }

    @Test("names that hold the placeholder in an archive hold secrets there, whatever they are called")
    func namesOfArchive() throws {
        let entry = #"""
            {"request": {"method": "POST", "url": "http://a.test/x?sortcode=REDACTED&y=1", "headers": [],
             "postData": {"mimeType": "application/json", "text": "{\"pet\":\"REDACTED\",\"z\":\"1\"}"}}, "response": {"status": 204}}
            """#
        var secrets = SecretCovering(fields: [])
        secrets.addNames(of: try ArchivedExchange(#require(JSONValue(Array(entry.utf8)))))
        #expect(String(decoding: secrets.cover(target: "/x?sortcode=1&y=1".utf8), as: UTF8.self) == "/x?sortcode=REDACTED&y=1")
        let type = MediaType(Array("application/json".utf8)[...])
        #expect(secrets.cover(content: Array(#"{"pet":"a","z":"1"}"#.utf8), type: type).elementsEqual(#"{"pet":"REDACTED","z":"1"}"#.utf8))
    }
}
