// Tests where the content of a remembered response begins, because HTTP/2 sends head and content separately.

import Testing

@testable import Downstream

@Suite("A complete response that is sent again")
struct CompleteResponseTests {
    struct Row: Sendable {
        let text: String
        let content: String
    }

    static let rows = [
        Row(text: "HTTP/1.1 200 OK\r\nA: b\r\n\r\n{}", content: "{}"),
        Row(text: "HTTP/1.1 200 OK\r\nA: b\r\n\r\n\r\n\r\nx", content: "\r\n\r\nx"),
        Row(text: "HTTP/1.1 304 Not Modified\r\nA: b\r\n\r\n", content: ""),
        Row(text: "HTTP/1.1 200 OK\r\nA: b\r\n", content: ""),
        Row(text: "\r\n\r", content: ""),
        Row(text: "", content: ""),
    ]

    @Test("its content starts after its head", arguments: rows)
    func content(row: Row) {
        let response = Array(row.text.utf8).withUnsafeBytes { CompleteResponse($0) }
        #expect(response.content.withBytes { String(decoding: $0, as: UTF8.self) } == row.content)
        #expect(response.bytes.elementsEqual(row.text.utf8))
    }
}
