// Tests of archives with cookies outside of a Cookie field. Such a request had credentials.

import HTTPCore
import JSON
import Testing

@testable import Archives

@Suite("Cookies of archived requests")
struct ArchivedCookieTests {
    @Test(
        "request.cookies become a Cookie field unless the request has one, and a cookie that cannot be sent counts as removed",
        arguments: [
            (#""cookies": [{"name": "sid", "value": "a b"}, {"name": "t", "value": ""}]"#, ["sid=a b; t="]),
            (#""cookies": [{"name": "", "value": "only"}]"#, ["only"]), (#""cookies": []"#, []), (#""cookies": null"#, []),
            (#""cookies": [{"name": "sid", "value": "x\r\ny"}]"#, ["REDACTED"]), (#""cookies": [{"name": "sid"}]"#, ["REDACTED"]),
            (#""cookies": [{"name": "", "value": ""}]"#, ["REDACTED"]), (#""cookies": [7, {"name": "a", "value": "b"}]"#, ["REDACTED"]),
            (#""cookies": [{"name": "sid", "value": "list"}], "headers": [{"name": "cookie", "value": "sid=field"}]"#, ["sid=field"]),
        ])
    func cookies(_ members: String, _ expected: [String]) throws {
        let text = #"{"request": {"method": "GET", "url": "http://a/", \#(members)}, "response": {"status": 200}}"#
        let exchange = try ArchivedExchange(try #require(JSONValue(Array(text.utf8))))
        #expect(exchange.requestFields.all(.cookie).map { String(decoding: $0, as: UTF8.self) } == expected)
    }

    @Test(
        "the creator is read from the text before the entries",
        arguments: [
            (#"{"log": {"creator": {"name": "WebInspector", "version": "1"}, "entries": [{}]}}"#, "WebInspector"),
            (#"{"log": {"entries": [{}], "creator": {"name": "WebInspector"}}}"#, nil), (#"{"log": {"entries": []}}"#, nil),
        ])
    func creator(_ text: String, _ name: String?) throws {
        #expect(try ArchiveReader(Array(text.utf8)).creator == name)
    }
}
