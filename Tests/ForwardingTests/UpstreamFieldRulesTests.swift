// Tables of the operator's changes to request fields: which names and values are permitted, and what a request becomes. Without sockets.

import HTTPCore
import Testing

@testable import Forwarding

@Suite("Fields for the upstream")
struct UpstreamFieldRulesTests {
    private static func rules(_ set: [(String, String)] = [], remove: [String] = []) -> UpstreamFieldRules {
        var rules = UpstreamFieldRules()
        for name in remove { rules.remove(Array(name.utf8)) }
        for (name, value) in set { rules.set(Array(name.utf8), to: Array(value.utf8)) }
        return rules
    }

    private static func applied(_ rules: UpstreamFieldRules, _ lines: [(String, String)]) -> [String] {
        var fields = Fields()
        for (name, value) in lines { fields.append(name: name, value: value) }
        rules.apply(to: &fields)
        return (0..<fields.count).map {
            String(decoding: fields.name(at: $0), as: UTF8.self) + ": " + String(decoding: fields.value(at: $0), as: UTF8.self)
        }
    }

    @Test("a set field replaces the client's in each spelling that an upstream may read as its name; a removed field is left out")
    func applied() {
        let rules = Self.rules([("X-Api-Key", "key")], remove: ["Referer", "X-Debug"])
        let sent = [
            ("x-api-key", "1"), ("X_API_KEY", "2"), ("X.Api.Key", "3"), ("X-Api-Keys", "4"), ("referer", "5"), ("x_debug", "6"), ("A", "7"),
        ]
        #expect(Self.applied(rules, sent) == ["X-Api-Keys: 4", "A: 7", "X-Api-Key: key"])
        #expect(Self.applied(UpstreamFieldRules(), sent).count == sent.count)
        #expect(Self.applied(Self.rules([("Authorization", "Bearer key")]), []) == ["Authorization: Bearer key"])
    }

    @Test("the last rule for a name applies")
    func order() {
        var rules = Self.rules([("X-A", "1"), ("x_a", "2")])
        #expect(Self.applied(rules, []) == ["x_a: 2"])
        rules.remove(Array("X-A".utf8))
        #expect(Self.applied(rules, [("X-A", "3")]).isEmpty && rules.unforwarded.count == 1)
    }

    @Test("a path of two rules gets only the fields that both set, and no client field of either")
    func stricter() {
        let one = Self.rules([("X-A", "1"), ("X-B", "2"), ("X-C", "3")])
        let other = Self.rules([("X-A", "1"), ("X-B", "9")], remove: ["X-D"])
        for rules in [one.stricter(other), other.stricter(one)] {
            #expect(Self.applied(rules, [("X-B", "c"), ("X-C", "c"), ("X-D", "c"), ("E", "e")]) == ["E: e", "X-A: 1"])
        }
    }

    @Test("rules can be left out by name")
    func without() {
        let rules = Self.rules([("Authorization", "key"), ("X-B", "2")]).without { $0.elementsEqual("authorization".utf8) }
        #expect(Self.applied(rules, [("Authorization", "own")]) == ["Authorization: own", "X-B: 2"])
    }

    @Test("nodes compare fixed values by the name as upstreams read it, and no other values")
    func fixed() {
        func hashes(_ name: String, _ value: String, isFixed: Bool = true) -> [UInt64] {
            var rules = UpstreamFieldRules()
            rules.set(Array(name.utf8), to: Array(value.utf8), isFixed: isFixed)
            return rules.fixed
        }
        #expect(hashes("X-Region", "eu") == hashes("x_region", "eu") && hashes("X-Region", "eu") != hashes("X-Region", "us"))
        #expect(hashes("X-Region", "eu") != hashes("X-Zone", "eu") && hashes("X-Api-Key", "key", isFixed: false).isEmpty)
    }

    @Test("values are not part of descriptions")
    func description() { #expect("\(Self.rules([("X-A", "word")]).fields)" == "[X-A: REDACTED]") }

    @Test(
        "fields that Cistern manages are refused in every spelling",
        arguments: [
            "Host", "host", "Content-Length", "content_length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade",
            "HTTP2-Settings", "Proxy-Connection", "Proxy-Authorization", "If-None-Match", "If-Match", "If-Modified-Since",
            "If-Unmodified-Since", "If-Range", "Range", "Accept-Encoding", "Content-Encoding", "Expect", "Via", "Max-Forwards",
            "Cistern-Mode", "Cistern-Stale",
        ])
    func managed(_ name: String) { #expect(UpstreamFieldRules.isManaged(Array(name.utf8))) }

    @Test(
        "names are tokens, and values have no control characters",
        arguments: [
            ("X-Api-Key", "key", true, true), ("Authorization", "Bearer a b", true, true), ("x", "ä", true, true), ("", "", false, false),
            (":path", " a", false, false), ("X A", "a ", false, false), ("X:", "a\r", false, false), ("X\r", "a\nb", false, false),
            ("X-*", "a\u{0}b", false, false), ("Ä", "a\u{7f}", false, false), ("X\t", "\ta", false, false), ("a(b)", "\u{1}", false, false),
        ])
    func permitted(_ name: String, _ value: String, _ isName: Bool, _ isValue: Bool) {
        #expect(UpstreamFieldRules.isName(Array(name.utf8)) == isName && UpstreamFieldRules.isValue(Array(value.utf8)) == isValue)
    }

    @Test("a value has a maximum length")
    func length() {
        let longest = [UInt8](repeating: 0x61, count: UpstreamFieldRules.valueLimitBytes)
        #expect(UpstreamFieldRules.isValue(longest) && !UpstreamFieldRules.isValue(longest + [0x61]))
    }
}
