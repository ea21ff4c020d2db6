import CachePolicy
import HTTPCore
import Testing

@Suite("Sharing of responses to requests with Authorization (RFC 9111 §3.5)")
struct AuthorizedSharingTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let control: String
        var vary = ""
        let expected: AuthorizedSharing

        init(_ description: String, _ control: String, vary: String = "", _ expected: AuthorizedSharing) {
            (testDescription, self.control, self.vary, self.expected) = (description, control, vary, expected)
        }
    }

    static let rows = [
        Row("no directive", "max-age=60", .own),
        Row("public permits sharing", "public", .everybody),
        Row("public with s-maxage permits sharing", "public, s-maxage=1", .everybody),
        Row("s-maxage alone permits sharing with validation", "s-maxage=0", .whileValidated),
        Row("must-revalidate alone permits sharing with validation", "must-revalidate", .whileValidated),
        Row("proxy-revalidate does not permit sharing", "proxy-revalidate", .own),
        Row("private overrides public", "public, s-maxage=60, private", .own),
        Row("Vary: Authorization forbids sharing", "public", vary: "Accept, AUTHORIZATION", .own),
        Row("Vary with other fields does not forbid sharing", "public", vary: "Cookie", .everybody),
    ]

    @Test("each response directive gives the expected sharing", arguments: rows)
    func sharing(_ row: Row) {
        var fields = Fields()
        fields.append(name: "Cache-Control", value: row.control)
        if !row.vary.isEmpty { fields.append(name: "Vary", value: row.vary) }
        #expect(AuthorizedSharing(fields, ResponseCacheControl(fields)) == row.expected)
    }
}
