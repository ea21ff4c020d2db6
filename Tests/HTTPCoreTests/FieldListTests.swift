// Tests of field lists: their members, and lists that exceed the limit.

import HTTPCore
import Testing

@Suite("Lists in fields (RFC 9110 §5.6.1)")
struct FieldListTests {
    @Test(
        "members are separated by commas outside quotes, and empty members are ignored",
        arguments: [
            ("a", ["a"]), ("a,b", ["a", "b"]), (" a ,\t b ", ["a", "b"]), (",,a,,b,", ["a", "b"]), ("", []), (" , ", []),
            ("a=\"b,c\",d", ["a=\"b,c\"", "d"]), ("\"a\\\",b\",c", ["\"a\\\",b\"", "c"]), ("\"a,b", ["\"a,b"]),
        ] as [(String, [String])])
    func members(text: String, expected: [String]) {
        // The list is a slice within a larger head.
        let bytes = Array("x,\(text)\",y".utf8)[2..<text.utf8.count + 2]
        #expect(FieldMembers(of: bytes).map { String(decoding: $0, as: UTF8.self) } == expected)
        #expect(FieldLists.members(of: bytes).map(Array.init) == expected.map { Array($0.utf8) })
    }

    @Test("a search stops at the first match, and a limited read returns a limited number of members")
    func steps() {
        var fields = Fields()
        for _ in 0..<100 { fields.append(.vary, String(repeating: "a,b,", count: 100)) }
        var looked = 0
        let found = FieldLists.contains(.vary, in: fields) { member in
            looked += 1
            return member.elementsEqual("b".utf8)
        }
        #expect(found && looked == 2)
        #expect(FieldLists.members(of: .vary, in: fields, limit: 3).count == 3)
    }

    @Test(
        "the number of members and bytes of a list is limited over all its lines",
        arguments: [
            ([String](repeating: "a", count: 128), false), ([String](repeating: "a", count: 129), true),
            ([String(repeating: "a,", count: 127)], false), ([String(repeating: "a,", count: 128)], true),
            (["\"" + String(repeating: ",", count: 128) + "\""], true), ([String(repeating: "a", count: 8_192)], false),
            ([String(repeating: "a", count: 8_193)], true), ([], false),
        ] as [([String], Bool)])
    func tooLong(lines: [String], expected: Bool) {
        #expect(FieldListLimit.isExceeded(by: lines.map { Array($0.utf8)[...] }) == expected)
    }

    @Test("Connection removes the fields it names, and all removable fields if it names too many", arguments: [1, 127, 128, 5_000])
    func connection(others: Int) {
        var fields = Fields()
        fields.append(.connection, "X-Named" + String(repeating: ", o", count: others))
        fields.append(name: "X-Named", value: "1")
        fields.append(name: "X-Other", value: "1")
        fields.append(.authorization, "Basic YTpi")
        for kept in [fields.removingHopByHop(), fields.removingNamed { _ in false } ?? fields] {
            #expect(kept.all(named: Array("x-named".utf8).span).isEmpty)
            #expect(kept.all(named: Array("x-other".utf8).span).isEmpty == (others + 1 > FieldListLimit.members))
            #expect(kept.contains(.authorization))
        }
    }

    @Test("words separated by a space name no field, and a protected field is kept")
    func tokens() {
        var fields = Fields()
        fields.append(.connection, "client certificate, x-tenant, X-Named, close")
        fields.append(name: "X-Tenant", value: "1")
        fields.append(name: "X-Named", value: "1")
        let tenant = Array("x-tenant".utf8)
        var kept = fields.removingNamed { $0.isReadAsName(tenant.span) } ?? fields
        #expect(kept.contains(named: tenant.span) && !kept.contains(named: Array("x-named".utf8).span))
        // A field that is added later is not removed, and `close` still counts.
        kept.append(name: "client certificate", value: "1")
        #expect(kept.connectionNames("close"))
        let sent = kept.removingHopByHop()
        #expect(sent.contains(named: tenant.span) && sent.contains(named: Array("client certificate".utf8).span))
        #expect(!sent.contains(.connection))
    }
}
