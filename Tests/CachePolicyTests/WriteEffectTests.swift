// Table of responses to writes: those that a failing gateway may send make stored responses stale, and only others remove them.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Effect of responses to writes")
struct WriteEffectTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let status: UInt16
        let lines: String
        /// Whether the response may come from a failing gateway.
        let isAmbiguous: Bool
        var target = "/users/1"
        var accept = "application/json"

        init(_ status: UInt16, _ lines: String, isAmbiguous: Bool, _ change: (inout Row) -> Void = { _ in }) {
            (self.status, self.lines, self.isAmbiguous) = (status, lines, isAmbiguous)
            change(&self)
        }

        var testDescription: String { "\(status) \(lines) to \(target)" }
    }

    private static let pages = [
        "/maintenance", "/maintenance.html", "/error", "/errors/503", "/", "/sorry", "http://o:1/unavailable", "/login",
        "https://portal.test/a",
    ]

    private static let redirects = ([302, 307] as [UInt16]).flatMap { status in
        pages.map { Row(status, "Location: \($0)", isAmbiguous: true) }
    }

    private static let rows =
        redirects + [
            // Redirects to a result of the write.
            Row(303, "Location: /users/2", isAmbiguous: false),
            Row(302, "Location: http://o:1/results/1?x", isAmbiguous: false),
            Row(303, "Location: /users/1", isAmbiguous: false), Row(303, "Location: /", isAmbiguous: false),
            Row(303, "Location: /errors", isAmbiguous: false), Row(303, "Location: /login", isAmbiguous: true),
            Row(303, "Location: /?done", isAmbiguous: false) { $0.target = "/" },
            Row(303, "Location: /errors/7", isAmbiguous: false) { $0.target = "/errors" },
            Row(301, "", isAmbiguous: false),
            // Responses that only a GET with conditions or a range may get.
            Row(304, "", isAmbiguous: true), Row(304, "ETag: \"a\"", isAmbiguous: true),
            Row(206, "Content-Type: application/json\nContent-Range: bytes 0-9/20", isAmbiguous: true),
            Row(206, "Content-Type: application/json", isAmbiguous: true),
            Row(206, "Content-Type: application/json\nContent-Range: items 0-9/20", isAmbiguous: false),
            // Types.
            Row(200, "Content-Type: application/problem+json", isAmbiguous: true),
            Row(200, "Content-Type: text/html", isAmbiguous: true),
            Row(201, "Content-Type: text/html", isAmbiguous: false) { $0.accept = "text/html" },
            Row(200, "Content-Type: text/plain", isAmbiguous: false), Row(200, "Content-Type: application/xml", isAmbiguous: false),
            Row(200, "Content-Type: application/json", isAmbiguous: false), Row(200, "Content-Length: 0", isAmbiguous: false),
            Row(200, "", isAmbiguous: false), Row(201, "Location: /users/2", isAmbiguous: false),
            Row(202, "Content-Type: application/json\nLocation: /", isAmbiguous: false), Row(204, "", isAmbiguous: false),
            Row(205, "", isAmbiguous: false), Row(207, "Content-Type: application/json", isAmbiguous: false),
        ]

    private static let methods: [HTTPCore.Method] = [.post, .put, .patch, .delete, .other(Array("FROB".utf8))]

    @Test("a response to a write that a failing gateway may send removes nothing", arguments: rows, methods)
    func effect(row: Row, method: HTTPCore.Method) {
        let origin = UpstreamOrigin(Array("http://o:1".utf8))
        let response = ResponseHead(status: Status(rawValue: row.status), fields: fields(row.lines))
        func effect(_ strictness: Strictness) -> Invalidation.Effect {
            var settings = CachePolicySettings()
            settings.strictness = strictness
            return Invalidation.effect(
                of: response, to: request(method, "Accept: \(row.accept)", target: row.target), origin: origin, settings)
        }
        // An unknown method may be a read, unless the response names a target.
        let mayBeRead = if case .other = method { !row.lines.contains("Location: ") } else { false }
        #expect(effect(.rescue) == (row.isAmbiguous || mayBeRead ? .makesStale : .takesOut))
        #expect(effect(.strict) == .takesOut)
    }
}
