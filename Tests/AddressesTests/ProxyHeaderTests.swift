// Tests of the PROXY protocol. Each row is also tested cut at every byte.

import Addresses
import Testing

@Suite("The PROXY protocol")
struct ProxyHeaderTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let bytes: [UInt8]
        /// `ADDRESS PORT`; `-` for a header without an address; nil for an invalid header.
        let source: String?

        init(_ text: String, source: String?) { (testDescription, bytes, self.source) = (text, Array(text.utf8), source) }

        init(_ sentence: String, _ command: UInt8, _ family: UInt8, _ block: [UInt8], length: Int? = nil, source: String?) {
            let length = length ?? block.count
            testDescription = sentence
            bytes =
                [
                    0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a, command, family, UInt8(length >> 8),
                    UInt8(length & 0xff),
                ]
                + block
            self.source = source
        }
    }

    static let four: [UInt8] = [192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x67, 0x1f, 0x90]
    static let six = [UInt8](repeating: 0, count: 15) + [1] + [UInt8](repeating: 0, count: 16) + [0, 80, 0, 81]

    static let rows = [
        Row("PROXY TCP4 192.0.2.1 10.0.0.1 4711 8080\r\n", source: "192.0.2.1 4711"),
        Row("PROXY TCP6 2001:db8::1 ::1 4711 8080\r\n", source: "2001:db8::1 4711"),
        Row("PROXY TCP6 ::ffff:192.0.2.1 ::1 4711 8080\r\n", source: "192.0.2.1 4711"),
        Row("PROXY UNKNOWN\r\n", source: "-"),
        Row("PROXY UNKNOWN ffff::1 x y z\r\n", source: "-"),
        Row("PROXY TCP4 192.0.2.1 10.0.0.1 0 65535\r\n", source: "192.0.2.1 0"),
        Row("PROXY TCP4 192.0.2.1 10.0.0.1 4711 65536\r\n", source: nil),
        Row("PROXY TCP4 192.0.2.1 10.0.0.1 04711 80\r\n", source: nil),
        Row("PROXY TCP4 192.0.2.1 10.0.0.1 4711\r\n", source: nil),
        Row("PROXY TCP4 192.0.2.1  10.0.0.1 4711 80\r\n", source: nil),
        Row("PROXY TCP4 2001:db8::1 ::1 4711 80\r\n", source: nil),
        Row("PROXY TCP6 192.0.2.1 10.0.0.1 4711 80\r\n", source: nil),
        Row("PROXY UDP4 192.0.2.1 10.0.0.1 4711 80\r\n", source: nil),
        Row("PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\n", source: nil),
        Row("proxy TCP4 192.0.2.1 10.0.0.1 4711 80\r\n", source: nil),
        Row("GET / HTTP/1.1\r\n\r\n", source: nil),
        Row("PROXY \(String(repeating: "x", count: 101))", source: nil),
        Row("version 2, IPv4", 0x21, 0x11, four, source: "192.0.2.1 4711"),
        Row("version 2, IPv6", 0x21, 0x21, six, source: "::1 80"),
        Row("version 2 with data after the addresses", 0x21, 0x11, four + [0x03, 0x00, 0x04, 1, 2, 3, 4], source: "192.0.2.1 4711"),
        Row("version 2, LOCAL", 0x20, 0x11, four, source: "-"),
        Row("version 2, LOCAL without addresses", 0x20, 0x00, [], source: "-"),
        Row("version 2, unspecified", 0x21, 0x00, [1, 2, 3], source: "-"),
        Row("version 2, a Unix socket", 0x21, 0x31, [UInt8](repeating: 0, count: 216), source: "-"),
        Row("version 2, too short for its addresses", 0x21, 0x11, [UInt8](four.dropLast()), source: nil),
        Row("version 2, another family", 0x21, 0x41, four, source: nil),
        Row("version 3", 0x31, 0x11, four, source: nil),
        Row("version 2, another command", 0x22, 0x11, four, source: nil),
        Row("version 2, longer than the limit", 0x21, 0x11, four, length: 4_097, source: nil),
    ]

    @Test("a valid header yields the client address, and everything else is rejected", arguments: rows)
    func read(_ row: Row) {
        // Bytes after the header are ignored.
        for rest in [[], Array("GET".utf8)] as [[UInt8]] {
            switch ProxyHeader.read((row.bytes + rest)[...]) {
            case .header(let header, let bytes):
                #expect(row.source == header.source.map { "\($0.address) \($0.port)" } ?? "-" && bytes == row.bytes.count)
            case .invalid: #expect(row.source == nil)
            case .needsMore: Issue.record("all of it is there")
            }
        }
        guard row.source != nil else { return }
        for count in 0..<row.bytes.count { #expect(ProxyHeader.read(row.bytes[..<count]) == .needsMore, "\(count) bytes") }
    }
}
