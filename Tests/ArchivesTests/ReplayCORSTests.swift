import Archives
import HTTPCore
import Testing

@Suite("CORS permissions of a replay")
struct ReplayCORSTests {
    struct Row: CustomTestStringConvertible {
        let testDescription: String
        /// Access-Control fields of recorded responses, each response's joined by `; `.
        var recorded: [String] = []
        var given: [String] = []
        var origin: String? = "http://a"
        /// Expected Access-Control-Allow-Origin of generated responses; nil if absent.
        let allowed: String?
        var credentials = false
    }

    private static let one = "Allow-Origin: http://a"

    static let rows: [Row] = [
        Row(testDescription: "nothing was recorded", allowed: nil),
        Row(testDescription: "the origin was recorded", recorded: [one], allowed: "http://a"),
        Row(
            testDescription: "the origin was recorded with credentials", recorded: [one + "; Allow-Credentials: true"], allowed: "http://a",
            credentials: true),
        Row(testDescription: "another origin was recorded", recorded: ["Allow-Origin: http://b"], allowed: nil),
        Row(testDescription: "any origin was recorded", recorded: ["Allow-Origin: *"], allowed: "*"),
        Row(
            testDescription: "any origin was recorded, therefore without credentials",
            recorded: ["Allow-Origin: *; Allow-Credentials: true"], allowed: "*"),
        Row(testDescription: "the own origin takes precedence over any origin", recorded: [one, "Allow-Origin: *"], allowed: "http://a"),
        Row(testDescription: "a request without Origin", recorded: ["Allow-Origin: *"], origin: nil, allowed: nil),
        Row(testDescription: "an origin is configured, nothing was recorded", given: ["http://a"], allowed: "http://a", credentials: true),
        Row(
            testDescription: "an origin is configured, another was recorded", recorded: ["Allow-Origin: http://b"], given: ["http://a"],
            allowed: "http://a", credentials: true),
        Row(testDescription: "another origin is configured than was recorded", recorded: [one], given: ["http://b"], allowed: nil),
        Row(testDescription: "any origin is configured", given: ["*"], allowed: "*"),
    ]

    @Test(arguments: rows)
    func cors(_ row: Row) {
        let responses = row.recorded.map { text in
            Spelt.fields(text.split(separator: "; ").map { "Access-Control-\($0)" })
        }
        let cors = ReplayCORS(responses, origins: row.given)
        let origin = row.origin.map { [("Origin", $0)] } ?? []
        let lines = { (bytes: [UInt8]) in String(decoding: bytes, as: UTF8.self) }
        let own = lines(cors.lines(for: Self.head("GET", origin)))
        let allowance = row.allowed.map { "Access-Control-Allow-Origin: \($0)\r\n" }
        #expect(own.contains("Access-Control-Allow-Origin") == (allowance != nil) && own.contains(allowance ?? ""))
        #expect(own.contains("Access-Control-Allow-Credentials: true\r\n") == row.credentials)
        let asking = [("Access-Control-Request-Method", "PATCH"), ("Access-Control-Request-Headers", "X-A")]
        let preflight = cors.preflight(Self.head("OPTIONS", origin + asking)).map(lines)
        #expect((preflight == nil) == (allowance == nil))
        guard let preflight, let allowance else { return }
        #expect(preflight.contains(allowance) && preflight.contains("Access-Control-Allow-Methods: PATCH\r\n"))
        #expect(preflight.contains("Access-Control-Allow-Headers: x-a\r\n"))
        #expect(preflight.contains("Access-Control-Allow-Credentials: true\r\n") == row.credentials)
    }

    @Test("a request that is no valid preflight gets no permission")
    func none() {
        let cors = ReplayCORS([], origins: ["*"])
        #expect(cors.preflight(Self.head("OPTIONS", [("Origin", "http://a")])) == nil)
        #expect(cors.preflight(Self.head("OPTIONS", [("Origin", "http://a"), ("Access-Control-Request-Method", "A B")])) == nil)
        #expect(cors.preflight(Self.head("OPTIONS", [("Access-Control-Request-Method", "PUT")])) == nil)
    }

    private static func head(_ method: String, _ fields: [(String, String)]) -> RequestHead {
        RequestHead(
            method: Method(Array(method.utf8).span), target: Array("/".utf8)[...], version: .http11,
            fields: Spelt.fields(fields.map { "\($0.0): \($0.1)" }))
    }
}
