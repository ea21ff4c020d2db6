// Tests of the client address that trusted proxies report in Forwarded and X-Forwarded-For.

import Addresses
import HTTPCore
import Testing

@Suite("Forwarded clients")
struct ForwardedClientTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let lines: [(String, String)]
        let field: ForwardedField
        let client: String?
        let isSecure: Bool?

        init(_ sentence: String, _ lines: [(String, String)], _ field: ForwardedField = .auto, client: String?, isSecure: Bool? = nil) {
            (testDescription, self.lines, self.field, self.client, self.isSecure) = (sentence, lines, field, client, isSecure)
        }
    }

    /// 10.0.0.0/8 is trusted, and 10.0.0.1 is the peer.
    static let rows = [
        Row("no field: the peer", [], client: "10.0.0.1"),
        Row("one address", [("X-Forwarded-For", "192.0.2.1")], client: "192.0.2.1"),
        Row("an address that the client wrote is to the left", [("X-Forwarded-For", "198.51.100.9, 192.0.2.1")], client: "192.0.2.1"),
        Row("trusted proxies are skipped", [("X-Forwarded-For", "192.0.2.1, 10.2.2.2, 10.0.0.2")], client: "192.0.2.1"),
        Row("several lines are one list", [("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-For", "10.0.0.2")], client: "192.0.2.1"),
        Row("all addresses are trusted: the first one", [("X-Forwarded-For", "10.3.3.3, 10.0.0.2")], client: "10.3.3.3"),
        Row("an invalid member: unknown client", [("X-Forwarded-For", "192.0.2.1, unknown, 10.0.0.2")], client: nil),
        Row("an empty member: unknown client", [("X-Forwarded-For", "192.0.2.1,")], client: nil),
        Row("a port is ignored", [("X-Forwarded-For", "192.0.2.1:4711")], client: "192.0.2.1"),
        Row("IPv6 in brackets", [("X-Forwarded-For", "[2001:db8::1]:4711")], client: "2001:db8::1"),
        Row("IPv6 without brackets", [("X-Forwarded-For", "2001:db8::1")], client: "2001:db8::1"),
        Row("an empty port: unknown client", [("X-Forwarded-For", "192.0.2.1:")], client: nil),
        Row("the scheme", [("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-Proto", "https")], client: "192.0.2.1", isSecure: true),
        Row("the last of several schemes", [("X-Forwarded-Proto", "https, http")], client: "10.0.0.1", isSecure: false),
        Row("an unknown scheme is ignored", [("X-Forwarded-Proto", "ftp")], client: "10.0.0.1"),
        Row("RFC 7239", [("Forwarded", "for=192.0.2.1;proto=https")], client: "192.0.2.1", isSecure: true),
        Row(
            "RFC 7239: quotes, cases, several elements",
            [("Forwarded", "for=198.51.100.9, FOR=\"[2001:db8::1]:47\" ; Proto=http , for=10.0.0.2")],
            client: "2001:db8::1", isSecure: false),
        Row("a comma in quotes is not a separator", [("Forwarded", "for=192.0.2.1;x=\"a, for=198.51.100.9\"")], client: "192.0.2.1"),
        Row("an unterminated quote", [("Forwarded", "for=192.0.2.1, for=\"10.0.0.2")], client: nil),
        Row("an unterminated quote of the client hides no address", [("Forwarded", "for=198.51.100.9;x=\", for=192.0.2.1")], client: nil),
        Row(
            "an unterminated quote of the client before a quoted address",
            [("Forwarded", "for=198.51.100.9;x=\"\\, for=\"[2001:db8::7]\"")], client: nil),
        Row("two addresses in one element", [("Forwarded", "for=198.51.100.9;for=192.0.2.1")], client: nil),
        Row("an empty X-Forwarded-For with a valid Forwarded", [("X-Forwarded-For", ""), ("Forwarded", "for=192.0.2.1")], client: nil),
        Row("an address with a zone is invalid", [("X-Forwarded-For", "fe80::1%eth0")], client: nil),
        Row("an obfuscated name is not an address", [("Forwarded", "for=_secret")], client: nil),
        Row("an obfuscated port", [("Forwarded", "for=\"192.0.2.1:_p\"")], client: "192.0.2.1"),
        Row("both: X-Forwarded-For", [("Forwarded", "for=198.51.100.9"), ("X-Forwarded-For", "192.0.2.1")], client: "192.0.2.1"),
        Row(
            "both fields, Forwarded is configured", [("Forwarded", "for=192.0.2.1"), ("X-Forwarded-For", "198.51.100.9")], .forwarded,
            client: "192.0.2.1"),
        Row(
            "Forwarded alone, X-Forwarded-For is configured", [("Forwarded", "for=198.51.100.9")], .xForwardedFor,
            client: "10.0.0.1"),
        Row(
            "only the last 64 addresses count",
            [("X-Forwarded-For", (["192.0.2.1"] + [String](repeating: "10.0.0.7", count: 64)).joined(separator: ","))],
            client: nil),
    ]

    @Test("the client is the rightmost address that is not a trusted proxy", arguments: rows)
    func found(_ row: Row) throws {
        var fields = Fields()
        for (name, value) in row.lines { fields.append(name: name, value: value) }
        let peer = try #require(IPAddress("10.0.0.1"))
        let client = ForwardedClient(fields, from: .known(peer), row.field, trusted: NetworkList([try IPNetwork("10.0.0.0/8")]))
        #expect(client.address.address?.description == row.client && (row.client != nil || client.address == .unknown))
        #expect(client.isSecure == row.isSecure)
    }
}
