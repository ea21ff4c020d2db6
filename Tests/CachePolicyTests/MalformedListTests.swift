// Tests of Cache-Control and Vary with another separator than a comma: directives and names that protect a user's data still apply.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Malformed members of Cache-Control and Vary")
struct MalformedListTests {
    private static func fields(_ name: String, _ value: String) -> Fields {
        var fields = Fields()
        // Latin-1, so that a no-break space is one byte.
        let (name, value) = (Array(name.utf8), value.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) })
        fields.append(name: name.span, value: value.span)
        return fields
    }

    private static let malformed: [(String, [String])] = [
        ("private; max-age=600", ["private"]), ("max-age=600; private", ["private"]), ("max-age=600;private;must-revalidate", ["private"]),
        ("no-store; no-cache", ["no-store", "no-cache"]), ("no-cache no-store", ["no-store", "no-cache"]), ("no-store;", ["no-store"]),
        ("PRIVATE;", ["private"]), ("max-age=0; no-store", ["no-store"]), ("max-age=60,\u{a0}private", ["private"]),
        ("private\u{a0}", ["private"]), ("public; private", ["private"]), ("must-revalidate; private", ["private"]),
        ("\"private\", max-age=60", ["private"]), ("x=\"1\"; private, max-age=60", ["private"]), ("max-age=\"60\" no-store", ["no-store"]),
        ("Cache-Control: no-store", ["no-store"]), ("x y=\"no-store\"", ["no-store"]), ("x=1 no-cache=set-cookie", ["no-cache"]),
        ("private/no-store", ["private", "no-store"]), ("no-cache=\"set-cookie\"; max-age=9", ["no-cache"]),
        ("no-store\u{b}", ["no-store"]),
        ("max-age=5 (no-store)", ["no-store"]), ("max-age=5\tno-store", ["no-store"]), ("a=b=private", ["private"]),
        ("max-age = 5 private", ["private"]), ("no-store = x y", ["no-store"]),
    ]

    @Test("a malformed member that contains private, no-store or no-cache as a word counts as that directive", arguments: malformed)
    func protective(_ value: String, _ directives: [String]) {
        let control = ResponseCacheControl(Self.fields("Cache-Control", value))
        #expect(control.isPrivate == directives.contains("private"))
        #expect(control.noStore == directives.contains("no-store"))
        #expect(control.noCache == directives.contains("no-cache"))
        #expect(control.unstoredFields.isEmpty)
        let asked = RequestCacheControl(Self.fields("Cache-Control", value))
        #expect(asked.noStore == directives.contains("no-store"))
        #expect(asked.noCache == directives.contains("no-cache"))
    }

    @Test(
        "other directives of a malformed member, other words and well-formed unknown members have no effect",
        arguments: [
            "nostore; x", "no_store", "x-private; y", "private-x y", "private_ y", "privateer here", "public; max-age=60",
            "x=private", "x=no-store", "x=\"no-store; private\"", "x=\"private\"", "no-store2", "no-stores y", "only-if-cached; immutable",
            "private!", "x-no-cache",
        ])
    func harmless(_ value: String) {
        let control = ResponseCacheControl(Self.fields("Cache-Control", value))
        #expect(control == ResponseCacheControl())
        #expect(RequestCacheControl(Self.fields("Cache-Control", value)) == RequestCacheControl())
    }

    @Test("a malformed lifetime counts as stale, and the following members are read")
    func lifetime() {
        let control = ResponseCacheControl(Self.fields("Cache-Control", "max-age=600; private, s-maxage=5"))
        #expect(control.maxAge == 0 && control.sharedMaxAge == 5 && control.isPrivate)
    }

    @Test(
        "a targeted field follows RFC 9213: parameters have no effect, and an invalid field is ignored",
        arguments: [
            ("private; max-age=600", true, false), ("max-age=600; private", false, false), ("no-store;", false, false),
            ("no-store no-cache", false, false), ("no-store;x", false, true),
        ])
    func targeted(_ value: String, isPrivate: Bool, noStore: Bool) {
        let names = [Array("cdn-cache-control".utf8)]
        let control = ResponseCacheControl(Self.fields("CDN-Cache-Control", value), targeted: names)
        #expect(control.isPrivate == isPrivate && control.noStore == noStore)
    }

    @Test(
        "Vary names every word of a malformed member",
        arguments: [
            ("Accept; X-Color", ["accept", "x-color"]), ("X-Color Accept", ["accept", "x-color"]), ("\"X-Color\"", ["x-color"]),
            ("X-Color;", ["x-color"]), ("accept,\u{a0}x-color", ["accept", "x-color"]), (";", []),
        ])
    func vary(_ value: String, _ names: [String]) {
        let found = SelectingFields.names(response: Self.fields("Vary", value), request: Fields(), settings: CachePolicySettings())
        #expect(found == names.map { Array($0.utf8) })
        #expect(!SelectingFields.isStar(Self.fields("Vary", value)))
    }

    @Test("a malformed Vary with an asterisk or Authorization protects too", arguments: ["Accept; *", "*;", "Accept; Authorization, *"])
    func varyStar(_ value: String) {
        #expect(SelectingFields.isStar(Self.fields("Vary", value)))
        var response = Self.fields("Vary", "Accept; Authorization")
        response.append(.cacheControl, "public, max-age=60")
        #expect(AuthorizedSharing(response, ResponseCacheControl(response)) == .own)
    }

    @Test("the limit of members counts the words of a malformed Vary")
    func limit() {
        var response = Self.fields("Vary", (0...128).map { "f\($0)" }.joined(separator: " "))
        response.append(.contentType, "application/json")
        let decision = Storing.decide(
            ResponseHead(status: 200, fields: response), ResponseCacheControl(response),
            to: StorableRequest(request(), RequestCacheControl(), isPartitioned: false), settings: CachePolicySettings())
        #expect(decision == .forbidden(.tooManyMembers))
    }
}
