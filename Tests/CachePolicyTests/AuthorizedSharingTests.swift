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
        Row("nothing is said", "max-age=60", .own),
        Row("public is for everybody", "public", .everybody),
        Row("public with s-maxage still is", "public, s-maxage=1", .everybody),
        Row("s-maxage alone: while it is validated", "s-maxage=0", .whileValidated),
        Row("must-revalidate alone: the same", "must-revalidate", .whileValidated),
        Row("proxy-revalidate is no leave", "proxy-revalidate", .own),
        Row("private wins over all", "public, s-maxage=60, private", .own),
        Row("so does dependence on the field itself", "public", vary: "Accept, AUTHORIZATION", .own),
        Row("dependence on another does not", "public", vary: "Cookie", .everybody),
    ]

    @Test("each response directive gives the expected sharing", arguments: rows)
    func sharing(_ row: Row) {
        var fields = Fields()
        fields.append(name: "Cache-Control", value: row.control)
        if !row.vary.isEmpty { fields.append(name: "Vary", value: row.vary) }
        #expect(AuthorizedSharing(fields, ResponseCacheControl(fields)) == row.expected)
    }
}
