// Tests of the coding in which stored content is sent, and of remembered codings. Without sockets.

import CachePolicy
import Downstream
import Forwarding
import HTTPCore
import Testing

@testable import Sending

@Suite("The form in which stored content is sent")
struct SentFormTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let form: SentForm
        let isNegotiated: Bool
        var facts: SentFormFacts

        init(
            _ sentence: String, _ form: SentForm, isNegotiated: Bool = true, _ coding: ContentCoding = .gzip,
            _ accepted: AcceptedCodings = .gzip, flags: StoredFlags = [.isOpen, .isJSON], _ compression: Compression = .gzip,
            bytes: Int = 5_000, asksForPlain: Bool = false, isText: Bool = true
        ) {
            (testDescription, self.form, self.isNegotiated) = (sentence, form, isNegotiated)
            facts = SentFormFacts(
                coding: coding, contentBytes: bytes, flags: flags, compression: compression, compressFromBytes: 1_024, isText: isText,
                accepted: accepted, asksForPlain: asksForPlain)
        }
    }

    static let rows = [
        Row("unchanged if the client accepts the stored coding", .asStored),
        Row("unchanged if the client accepts Zstandard", .asStored, .zstd, [.gzip, .zstd]),
        Row("decoded if the client accepts no coding", .decoded, .gzip, []),
        Row("decoded if the client asks for plain content", .decoded, asksForPlain: true),
        Row("recoded if the client accepts only gzip", .gzipped, .brotli),
        Row("decoded if the client accepts only another coding than gzip", .decoded, .zstd, .brotli),
        Row("compressed for the client before the store has compressed it", .gzipped, .identity),
        Row("short content is not compressed", .asStored, isNegotiated: false, .identity, bytes: 1_023),
        Row("content other than text is not compressed", .asStored, isNegotiated: false, .identity, isText: false),
        Row("content with possible secrets is stored coded and sent decoded", .decoded, isNegotiated: false, flags: .isJSON),
        Row("content with possible secrets that the upstream compressed is unchanged", .asStored, flags: [.isJSON, .cameCoded]),
        Row("content with possible secrets is sent coded if compression is always", .asStored, flags: .isJSON, .always),
        Row(
            "content with possible secrets that is stored plain is not compressed", .asStored, isNegotiated: false, .identity,
            flags: .isJSON),
        Row("no-transform: content that arrived plain is sent decoded", .decoded, isNegotiated: false, flags: [.isOpen, .noTransform]),
        Row(
            "content that could not be decoded is unchanged", .asStored, isNegotiated: false, .identity,
            flags: [.isOpen, .coded]),
        Row("compression off: content that arrived plain is sent decoded", .decoded, isNegotiated: false, .gzip, .gzip, .off),
        Row("compression off: content that arrived coded is unchanged", .asStored, flags: [.isOpen, .cameCoded], .off),
    ]

    @Test("each combination of the table gets its form", arguments: rows)
    func table(row: Row) {
        #expect(row.facts.form == row.form)
        #expect(row.facts.isNegotiated == row.isNegotiated)
    }

    @Test("content that is passed on is compressed with gzip only if nothing forbids it")
    func passed() {
        func form(_ lines: [(String, String)], asked: String = "gzip", bytes: Int = 5_000, isOpen: Bool = true) -> SentForm? {
            var (fields, request) = (Fields(), Fields())
            for (name, value) in lines { fields.append(name: name, value: value) }
            if !asked.isEmpty { request.append(.acceptEncoding, asked) }
            let head = RequestHead(method: .get, target: Array("/a".utf8)[...], version: .http11, fields: request)
            return SentFormFacts.passed(
                ResponseHead(status: 200, fields: fields), contentBytes: bytes, to: head, .gzip, from: 1_024, isOpen: { isOpen })?.form
        }
        let json = ("Content-Type", "application/json")
        #expect(form([json]) == .gzipped && form([("Content-Type", "text/csv; charset=utf-8")]) == .gzipped)
        #expect(form([json], asked: "") == .asStored && form([json], asked: "gzip;q=0, br") == .asStored)
        #expect(form([json], isOpen: false) == .asStored)
        #expect(form([json, ("Content-Encoding", "br")]) == nil && form([json, ("Content-Range", "bytes 0-1/2")]) == nil)
        #expect(form([json, ("Cache-Control", "no-transform")]) == nil && form([json], bytes: 1_023) == .asStored)
        #expect(form([json, ("Cache-Control", "no-store")]) == .gzipped)
        #expect(form([json, ("Cache-Control", "no-store"), ("Cache-Control", "NO-Transform")]) == nil)
        #expect(form([("Content-Type", "image/png")]) == nil && form([]) == nil)
    }

    @Test("recoded contents are remembered within their limit, and those used again are kept longest")
    func remembered() {
        let contents = RecodedContents(limitBytes: 16_000)
        var made: [UInt64] = []
        func ask(_ number: UInt64, bytes: Int = 904) {
            let name = RecodedContents.Name(content: number, isCoded: false)
            let content = [UInt8](repeating: UInt8(number), count: bytes)
            if let known = contents.find(name) {
                #expect(known.withBytes { $0.elementsEqual(content) })
            } else {
                made.append(number)
                contents.keep(name, .bytes(content))
            }
        }
        for number in 1...100 as ClosedRange<UInt64> {
            ask(0)
            ask(number)
            #expect(contents.bytes <= 16_000)
        }
        #expect(made == Array(0...100) && contents.found == 99)
        ask(100)
        #expect(made.count == 101)
        ask(1)
        #expect(made.last == 1)
        // The number of entries is limited too, so that all can be freed at once.
        let many = RecodedContents(limitBytes: 1 << 30)
        for number in 0...(2 * RecodedContents.entryLimit) {
            many.keep(RecodedContents.Name(content: UInt64(number), isCoded: true), .bytes([]))
        }
        #expect(many.bytes == (RecodedContents.entryLimit + 1) * 96)
        // Content that would evict all others is encoded each time.
        ask(200, bytes: 4_001)
        ask(200, bytes: 4_001)
        #expect(made.suffix(2) == [200, 200])
        // Two codings of one content are two entries.
        let coded = RecodedContents.Name(content: 100, isCoded: true)
        #expect(contents.find(coded) == nil)
        contents.keep(coded, .bytes([]))
        #expect(contents.find(coded)?.count == 0)
    }
}
