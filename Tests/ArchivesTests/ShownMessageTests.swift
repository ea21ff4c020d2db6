// What people are shown of fields and contents.

import CachePolicy
import HTTPCore
import Testing

@testable import Archives

@Suite("Secrets on pages")
struct ShownMessageTests {
    private let shown = ShownMessage(fields: ["x-tenant-key"])

    @Test(
        "fields: secrets by name, and those in links",
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
        ])
    func fields(line: String, value: String) {
        let told = shown.fields(Spelt.fields([line]))
        #expect(told.count == 1 && told.first?.value == value, "\(told)")
    }

    @Test(
        "contents of JSON: whatever lies under a secret's name, and links in any string",
        arguments: [
            (
                #"{"next":"/a?page=2&api_key=s","b":[{"url":"/c?token=t"}]}"#,
                #"{"next":"/a?page=2&api_key=REDACTED","b":[{"url":"/c?token=REDACTED"}]}"#
            ),
            (#"{"token":["a",["b"]],"x":1}"#, #"{"token":"REDACTED","x":1}"#),
            (#"{"secret":{"a":{"b":[1]}},"x":"y"}"#, #"{"secret":"REDACTED","x":"y"}"#),
            (#"{"auth":{"key":"k"},"otp":123456}"#, #"{"auth":"REDACTED","otp":"REDACTED"}"#),
            (#"{"githubToken":"t","user_passwords":["p"]}"#, #"{"githubToken":"REDACTED","user_passwords":"REDACTED"}"#),
            (#"{"next":"\/a?x=1\u0026api_key\u003ds"}"#, #"{"next":"/a?x=1&api_key=REDACTED"}"#),
            (#"["/a?api_key=s"]"#, #"["/a?api_key=REDACTED"]"#),
            (#"{"/a?api_key=s":1}"#, #"{"/a?api_key=REDACTED":1}"#), (#"{"pass\u0077ord":"p"}"#, #"{"pass\u0077ord":"REDACTED"}"#),
            (#"{"token":null,"password":true,"secret":""}"#, #"{"token":null,"password":true,"secret":""}"#),
            (
                #"{"code":"DE","state":"open","key":"a","author":"b","passwordHint":"c"}"#,
                #"{"code":"DE","state":"open","key":"a","author":"b","passwordHint":"c"}"#
            ),
            (#"{"a":{"token":{}},"b":"c"} "#, #"{"a":{"token":"REDACTED"},"b":"c"} "#), (#""/a?api_key=s""#, #""/a?api_key=REDACTED""#),
        ])
    func json(content: String, expected: String) throws {
        for type in ["application/json", "application/hal+json", "text/plain"] {
            let told = try #require(shown.content(Array(content.utf8), type: MediaType(Array(type.utf8)[...])))
            #expect(String(decoding: told, as: UTF8.self) == expected)
        }
    }

    @Test("plain text: pairs and links; what is neither, or is broken, is not shown")
    func others() throws {
        let plain = MediaType(Array("text/plain; charset=utf-8".utf8)[...])
        let text = "user=a\npassword=b c\nAuthorization: Bearer d\n\"api_key\": \"e\"\nsee <https://f:g@h.test/?sig=i&amp;x=1> now"
        let told = try #require(shown.content(Array(text.utf8), type: plain))
        #expect(
            String(decoding: told, as: UTF8.self)
                == "user=a\npassword=REDACTED\nAuthorization: REDACTED\n\"api_key\": \"REDACTED\nsee <https://REDACTED@h.test/?sig=REDACTED&amp;x=1> now"
        )
        for (type, content) in [
            ("text/html", "<a>"), ("application/xml", "<token>a</token>"), ("text/csv", "token\na"), ("application/json", "{\"token\":"),
            ("image/png", "a"),
        ] {
            #expect(shown.content(Array(content.utf8), type: MediaType(Array(type.utf8)[...])) == nil, "\(type)")
        }
        #expect(shown.content(Array("{}".utf8), type: nil) == nil)
    }

    @Test(
        "hostile content takes no more than a few passes",
        arguments: ["?a=", "%3F", "://", "?a=%3Fa=", ";", "\\u003f", "token:", "[\"token\"],"])
    func length(piece: String) {
        let many = String(repeating: piece, count: 4_000)
        for (type, content) in [("text/plain", many), ("application/json", "[\"" + many.filter { $0 != "\"" } + "\"]")] {
            #expect(shown.content(Array(content.utf8), type: MediaType(Array(type.utf8)[...])) != nil)
        }
    }
}
