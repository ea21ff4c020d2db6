// Tests of rescues with the public stored response, and of the effect of Set-Cookie on a client's cookies.

import HTTPCore
import Testing

@testable import CachePolicy

struct SharedRescueRow: Sendable, CustomTestStringConvertible {
    let says: String
    let setting: SharedRescueMode
    var flags: StoredFlags = []
    var varies = false
    var hasOwnCookies = false
    var strictness = Strictness.rescue
    let expected: SharedRescueDecision

    var testDescription: String { says }

    static let all: [SharedRescueRow] = [
        .init(says: "a public response", setting: .own, flags: .isPublic, expected: .allowed(.isPublic)),
        .init(says: "a response with s-maxage", setting: .own, flags: .sharedMaxAge, expected: .allowed(.isPublic)),
        .init(says: "own cookies", setting: .own, hasOwnCookies: true, expected: .allowed(.ownCookies)),
        .init(says: "another client's cookies", setting: .own, expected: .forbidden(.otherCookies)),
        .init(
            says: "public, with own cookies", setting: .own, flags: .isPublic, hasOwnCookies: true, expected: .allowed(.isPublic)),
        .init(
            says: "a public response that varies by credentials", setting: .own, flags: .isPublic, varies: true,
            expected: .forbidden(.varies)),
        .init(
            says: "own cookies set by the response itself", setting: .own, flags: .isPublic, varies: true, hasOwnCookies: true,
            expected: .allowed(.ownCookies)),
        .init(
            says: "own cookies, response varies, strict mode (RFC 9111 §4.1)", setting: .own, varies: true, hasOwnCookies: true,
            strictness: .strict,
            expected: .forbidden(.varies)),
        .init(says: "public only, with another response", setting: .publicOnly, hasOwnCookies: true, expected: .forbidden(.notPublic)),
        .init(says: "public only, with a public response", setting: .publicOnly, flags: .isPublic, expected: .allowed(.isPublic)),
        .init(says: "always", setting: .always, varies: true, expected: .allowed(.always)),
        .init(
            says: "always, response varies, strict mode", setting: .always, varies: true, strictness: .strict, expected: .forbidden(.varies)
        ),
        .init(says: "never", setting: .never, flags: .isPublic, hasOwnCookies: true, expected: .forbidden(.never)),
    ]
}

struct ClientCookieRow: Sendable, CustomTestStringConvertible {
    let says: String
    let sent: String
    let set: [String]
    /// The resulting Cookie field; nil if it is unclear, or nothing changes.
    let expected: String?
    var path = "/api/users"

    init(_ says: String, _ sent: String, _ set: [String], _ expected: String?) {
        (self.says, self.sent, self.set, self.expected) = (says, sent, set, expected)
    }

    var testDescription: String { says }

    static let all: [ClientCookieRow] = [
        .init("the first cookies", "", ["b=2; Path=/; HttpOnly", "a=1"], "a=1; b=2"),
        .init("an additional cookie", "a=1", ["b=2"], "a=1; b=2"),
        .init("another value", "a=1; b=2", ["a=3"], "a=3; b=2"),
        .init("the last of several cookies with one name counts", "", ["a=1", "a=2"], "a=2"),
        .init("deleted by Max-Age: 0", "a=1; b=2", ["a=; Max-Age=0"], "b=2"),
        .init("deleted by a negative Max-Age", "a=1; b=2", ["a=x; max-age=-1"], "b=2"),
        .init("deleted by Expires", "a=1; b=2", ["a=; expires=Thu, 01 Jan 1970 00:00:00 GMT"], "b=2"),
        .init(
            "Max-Age overrides Expires", "a=1", ["b=2; expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=60"], "a=1; b=2"),
        .init("an invalid Max-Age is ignored", "", ["a=1; Max-Age=soon"], "a=1"),
        .init("for this path", "", ["a=1; Path=/api"], "a=1"),
        .init("for another path", "a=1", ["b=2; Path=/apis"], nil),
        .init("ignored names make no difference", "a=1", ["_ga=2", "AWSALB=3"], nil),
        .init("an unchanged value", "a=1", ["a=1"], nil),
        .init("no cookies", "a=1", [], nil),
        .init("quotes are kept", "", ["a=\"1\""], "a=\"1\""),
        .init("a cookie without a name is unclear", "", ["a=1", "secret"], nil),
        .init("a quote within a value is unclear", "", ["a=1", "b=x\"y"], nil),
        .init("two cookies with one name were sent: unclear which one is replaced", "a=1; a=2", ["b=2"], nil),
    ]
}

@Suite("Rescue of a user's request with the public response")
struct SharedRescueTests {
    @Test("flags, settings and cookies decide whether the public response may be served", arguments: SharedRescueRow.all)
    func decisions(_ row: SharedRescueRow) {
        let time = Timestamp(milliseconds: 0)
        var stored = StoredMetadata(requestTime: time, responseTime: time, date: time)
        stored.flags = row.flags
        let decision = SharedRescue.decide(
            row.setting, stored: stored, varies: row.varies, hasOwnCookies: row.hasOwnCookies, strictness: row.strictness)
        #expect(decision == row.expected)
    }

    @Test("Set-Cookie fields determine the cookies that a client sends next (RFC 6265 §5.3)", arguments: ClientCookieRow.all)
    func cookies(_ row: ClientCookieRow) throws {
        let cookies = CredentialCookies(CachePolicySettings())
        func pairs(_ text: String) throws -> [CredentialCookies.Pair] {
            var fields = Fields()
            if !text.isEmpty { fields.append(.cookie, text) }
            return try #require(cookies.pairs(of: fields))
        }
        var response = Fields()
        for line in row.set { response.append(.setCookie, line) }
        let after = ClientCookies.after(try pairs(row.sent), response, path: Array(row.path.utf8)[...], now: 1_700_000_000, cookies)
        #expect(try after == row.expected.map { try pairs($0) })
    }

    @Test("too many Set-Cookie fields give no result")
    func many() {
        var response = Fields()
        for number in 0..<65 { response.append(.setCookie, "c\(number)=1") }
        #expect(ClientCookies.after([], response, path: [0x2f], now: 0, CredentialCookies(CachePolicySettings())) == nil)
    }
}
