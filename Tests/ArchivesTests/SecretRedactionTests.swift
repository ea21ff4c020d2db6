// Tests of the placeholders that replace secrets in archives.

import CachePolicy
import HTTPCore
import JSON
import Testing

@testable import Archives

@Suite("Redaction of secrets")
struct SecretRedactionTests {
    private let secrets = SecretRedaction(fields: ["x-tenant-key", "*token"], names: ["Card-Number"])

    @Test(
        "only the secret part of a field is redacted",
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
        let redacted = secrets.redact(Spelt.fields([line]))
        #expect(redacted.count == 1 && redacted.value(at: 0).elementsEqual(value.utf8))
    }

    @Test(
        "in contents and arguments only values with secret names are redacted",
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
        let redacted = secrets.redact(content: Array(content.utf8), type: MediaType(Array(type.utf8)[...]))
        #expect(String(decoding: redacted, as: UTF8.self) == expected)
        // Covering content a second time changes nothing.
        #expect(secrets.redact(content: redacted, type: MediaType(Array(type.utf8)[...])) == redacted)
    }

    @Test("names of redacted fields and of redacted members of responses are treated as secret, and ordinary names stay ordinary")
    func namesOfResponse() throws {
        let header = { (name: String) in #"{"name": "\#(name)", "value": "REDACTED"}"# }
        let entry = #"""
            {"request": {"method": "GET", "url": "http://a.test/x?code=REDACTED", "headers": [\#(header("Customer-Number"))]},
             "response": {"status": 200, "headers": [\#(header("X-Ticket-Id")), {"name": "Content-Type", "value": "application/json"}],
              "content": {"text": "{\"iban\":\"REDACTED\",\"z\":\"1\"}"}}}
            """#
        var secrets = SecretRedaction(fields: [])
        secrets.addNames(of: try ArchivedExchange(#require(JSONValue(Array(entry.utf8)))))
        for name in ["customer-number", "x-ticket-id"] { #expect(secrets.isSecret(field: name.utf8)) }
        #expect(!secrets.isSecret(field: "content-type".utf8))
        let type = MediaType(Array("application/json".utf8)[...])
        let redacted = secrets.redact(content: Array(#"{"iban":"a","code":"b","customerNumber":"c"}"#.utf8), type: type)
        #expect(String(decoding: redacted, as: UTF8.self) == #"{"iban":"REDACTED","code":"b","customerNumber":"REDACTED"}"#)
    }

    @Test("names whose value is redacted in an archive are treated as secret")
    func namesOfArchive() throws {
        let entry = #"""
            {"request": {"method": "POST", "url": "http://a.test/x?sortcode=REDACTED&y=1", "headers": [],
             "postData": {"mimeType": "application/json", "text": "{\"pet\":\"REDACTED\",\"z\":\"1\"}"}}, "response": {"status": 204}}
            """#
        var secrets = SecretRedaction(fields: [])
        secrets.addNames(of: try ArchivedExchange(#require(JSONValue(Array(entry.utf8)))))
        #expect(String(decoding: secrets.redact(target: "/x?sortcode=1&y=1".utf8), as: UTF8.self) == "/x?sortcode=REDACTED&y=1")
        let type = MediaType(Array("application/json".utf8)[...])
        #expect(secrets.redact(content: Array(#"{"pet":"a","z":"1"}"#.utf8), type: type).elementsEqual(#"{"pet":"REDACTED","z":"1"}"#.utf8))
    }
}
