// Tests of the head of a response that is sent in another coding than the stored one.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Heads of compressed responses")
struct NegotiatedHeadTests {
    private func made(_ text: String, _ coded: NegotiatedHead.Coded?) -> (quick: [String], read: [String]) {
        var fields = Fields()
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 1)
            fields.append(name: String(parts[0]), value: String(parts[1].dropFirst()))
        }
        let time = Timestamp(seconds: 1_795_000_000)
        let received = ReceivedResponse(
            ResponseHead(status: 200, fields: fields), control: ResponseCacheControl(fields), contentBytes: 5_000, requestTime: time,
            responseTime: time)
        let (head, metadata) = StoredHead.make(received, settings: CachePolicySettings())
        var quick: [UInt8] = []
        NegotiatedHead.append(head.span, metadata, coded, to: &quick)
        func lines(_ bytes: [UInt8]) -> [String] {
            String(decoding: bytes, as: UTF8.self).split(separator: "\r\n").map(String.init).filter { !$0.hasPrefix("Date") }.sorted()
        }
        return (lines(quick), lines(NegotiatedHead.make(head.span, coded)))
    }

    @Test("a negotiated head states the sent length and coding, a weak ETag if coded, Vary and no digests")
    func heads() {
        let (type, weakened) = ("Content-Type: application/json", "ETag: W/\"a~cistern\"")
        let coded = NegotiatedHead.Coded(.gzip, contentBytes: 700)
        let rows: [(String, NegotiatedHead.Coded?, [String])] = [
            (type, coded, ["Content-Encoding: gzip", "Content-Length: 700", type, "HTTP/1.1 200 OK", "Vary: Accept-Encoding"]),
            (type, nil, ["Content-Length: 5000", type, "HTTP/1.1 200 OK", "Vary: Accept-Encoding"]),
            (
                type + "\nETag: \"a\"", coded,
                ["Content-Encoding: gzip", "Content-Length: 700", type, weakened, "HTTP/1.1 200 OK", "Vary: Accept-Encoding"]
            ),
            ("ETag: \"a\"\n" + type, nil, ["Content-Length: 5000", type, "ETag: \"a\"", "HTTP/1.1 200 OK", "Vary: Accept-Encoding"]),
            (
                type + "\nETag: W/\"a\"", NegotiatedHead.Coded(.zstd),
                ["Content-Encoding: zstd", type, "ETag: W/\"a\"", "HTTP/1.1 200 OK", "Vary: Accept-Encoding"]
            ),
            (
                type + "\nETag: \"a\"\nETag: \"b\"", coded,
                ["Content-Encoding: gzip", "Content-Length: 700", type, weakened, "HTTP/1.1 200 OK", "Vary: Accept-Encoding"]
            ),
            (
                type + "\nVary: accept-encoding, Accept", coded,
                ["Content-Encoding: gzip", "Content-Length: 700", type, "HTTP/1.1 200 OK", "Vary: accept-encoding, Accept"]
            ),
            (
                type + "\nRepr-Digest: sha-256=:AA==:\nContent-MD5: AA==", coded,
                ["Content-Encoding: gzip", "Content-Length: 700", type, "HTTP/1.1 200 OK", "Vary: Accept-Encoding"]
            ),
        ]
        for (lines, coded, expected) in rows {
            let made = made(lines, coded)
            #expect(made.quick == expected && made.read == expected, "\(lines)")
        }
    }
}
