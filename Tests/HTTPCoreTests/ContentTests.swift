// Tests of chunked content and dates: tables, each row parsed whole and byte by byte.

import Glibc
import Testing

@testable import HTTPCore

@Suite("Chunked content (RFC 9112 §7.1)")
struct ChunkedDecoderTests {
    /// Returns the decoded content, nil if it was refused, and the number of consumed bytes.
    fileprivate func decode(_ bytes: [UInt8], pieces: Int, allowsPadding: Bool = false) -> (content: [UInt8]?, consumed: Int?) {
        var decoder = ChunkedDecoder(allowsPadding: allowsPadding)
        var content: [UInt8] = []
        var start = 0
        while start < bytes.count {
            let piece = Array(bytes[start..<min(bytes.count, start + pieces)])
            var position = 0
            reading: while true {
                switch decoder.next(piece.span, &position) {
                case .content(let range): content += piece[range]
                case .needsMore: break reading
                case .end(let consumed): return (content, start + consumed)
                case .refused: return (nil, nil)
                }
            }
            start += piece.count
        }
        return (content, nil)
    }

    @Test(
        "valid chunked content is decoded",
        arguments: [
            ("3\r\nabc\r\n0\r\n\r\n", "abc"), ("0\r\n\r\n", ""), ("1\r\na\r\n1\r\nb\r\n0\r\n\r\n", "ab"),
            ("003\r\nabc\r\n0\r\n\r\n", "abc"),
            ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789"), ("3;x\r\nabc\r\n0;y=z\r\n\r\n", "abc"),
            ("3;x=\"a;\\\"b\"\r\nabc\r\n0\r\n\r\n", "abc"),
            // RFC 9112 §7.1.1, RFC 9110 §5.6.3: a sender must not generate blanks there, and a recipient must accept them.
            ("3 ; x = y\r\nabc\r\n0 ;x\r\n\r\n", "abc"), ("3\t \t;x=y \r\nabc\r\n0\r\n\r\n", "abc"),
            ("0\r\nT: 1\r\nU: 2\r\n\r\n", ""), ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
        ])
    func good(text: String, content: String) {
        let bytes = Array(text.utf8)
        for pieces in [1, 2, 3, 1_000] {
            let result = decode(bytes + Array("GET".utf8), pieces: pieces)
            #expect(result.content == Array(content.utf8))
            #expect(result.consumed == bytes.count)
        }
    }

    @Test(
        "invalid chunked content is rejected",
        arguments: [
            "x\r\n", "\r\n", ";x\r\n", "3 \r\nabc\r\n", " 3\r\nabc\r\n", "+3\r\nabc\r\n", "0x3\r\nabc\r\n", "3\nabc\r\n", "3\rabc\r\n",
            "3\r\nabcd\r\n", "3 x\r\nabc\r\n", "3 3\r\nabc\r\n", "3 \nabc\r\n", "3 =x\r\nabc\r\n", "3 \"x\"\r\nabc\r\n",
            "3" + String(repeating: " ", count: 20_000) + ";x\r\n",
            "3\r\nabc\n0\r\n\r\n", "3\r\nabc0\r\n\r\n", "ffffffffffffffff\r\n", "3;\u{1}\r\n", "3;a=\"\n\"\r\n", "0\r\nT : 1\r\n\r\n",
            "0\r\nT\r\n\r\n",
            "0\r\n T: 1\r\n\r\n", "0\r\nT: \u{0}\r\n\r\n", "0\r\n\r", "0\r\n\n", "3;" + String(repeating: "a", count: 20_000) + "\r\n",
            "0\r\nT: " + String(repeating: "a", count: 10_000) + "\r\n\r\n",
        ])
    func bad(text: String) {
        for pieces in [1, 7, 100_000] {
            let result = decode(Array(text.utf8) + Array("x".utf8), pieces: pieces)
            #expect(result.content == nil)
        }
    }
}

@Suite("Padded chunk sizes")
struct PaddedChunkTests {
    /// Blanks after a size without an extension violate RFC 9112 §7.1, but some servers pad sizes, and nginx and HAProxy accept that. It
    /// opens no request smuggling: every recipient that accepts the line reads one size, and clients receive Cistern's own framing. For
    /// requests it stays refused, because no conforming client sends it.
    @Test("a response may have blanks after chunk sizes", arguments: [("3 ", true), ("3  \t", true), ("3 x", false), (" 3", false)])
    func padded(size: String, isAccepted: Bool) {
        for pieces in [1, 2, 100] {
            let bytes = Array("\(size)\r\nabc\r\n0 \r\n\r\n".utf8)
            #expect((ChunkedDecoderTests().decode(bytes, pieces: pieces, allowsPadding: true).content == Array("abc".utf8)) == isAccepted)
            #expect(ChunkedDecoderTests().decode(bytes, pieces: pieces).content == nil)
        }
    }
}

@Suite("Dates (RFC 9110 §5.6.7)")
struct HTTPDateTests {
    private static let now: Int64 = 1_795_000_000

    @Test(
        "the three date formats are parsed",
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("Sun Nov  6 08:49:37 1994", 784_111_777),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Mon, 29 Feb 2016 12:00:00 GMT", 1_456_747_200),
            ("Fri, 31 Dec 2100 23:59:59 GMT", 4_133_980_799), ("SUN, 06 nOV 1994 08:49:37 gmt", 784_111_777),
            ("sunday, 06-NOV-94 08:49:37 Gmt", 784_111_777), ("sun nov  6 08:49:37 1994", 784_111_777),
        ] as [(String, Int64)])
    func read(text: String, seconds: Int64) {
        #expect(HTTPDate.parse(Array(text.utf8)[...], now: Self.now) == seconds)
    }

    @Test("the fast parser for the usual format agrees with the general one, whatever byte is changed")
    func fixedDate() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 29 Feb 2016 23:59:60 GMT", "Sat, 30 Apr 0000 00:00:00 GMT"] {
            let date = Array(text.utf8)
            let (shorter, longer) = (Array(date.dropLast()), date + [0x20])
            #expect(FixedDate.parse(date.span) != nil)
            #expect(FixedDate.parse(shorter.span) == nil && FixedDate.parse(longer.span) == nil)
            for place in date.indices {
                for byte in UInt8.min...UInt8.max {
                    var changed = date
                    changed[place] = byte
                    let long = HTTPDate.parseAny(changed[...], now: Self.now)
                    // Another letter case is left to the slow parser.
                    let isSpeltOtherwise = byte != date[place] && byte.asciiLowercased == date[place].asciiLowercased
                    let expected = isSpeltOtherwise ? nil : long
                    if FixedDate.parse(changed.span) != expected {
                        Issue.record("\(String(decoding: changed, as: UTF8.self)): \(String(describing: long))")
                    }
                }
            }
        }
    }

    @Test("a formatted date is parsed back")
    func roundTrip() {
        for seconds in stride(from: Int64(0), to: 5_000_000_000, by: 86_400 * 37 + 12_345) {
            #expect(HTTPDate.parse(HTTPDate.format(seconds)[...], now: Self.now) == seconds)
        }
    }

    @Test(
        "any other text is rejected",
        arguments: [
            "", "0", "-1", "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT", "Sun 06 Nov 1994 08:49:37 GMT", "06 Nov 1994 08:49:37 GMT", "Sun, 06 Nox 1994 08:49:37 GMT",
        ])
    func refused(text: String) {
        #expect(HTTPDate.parse(Array(text.utf8)[...], now: Self.now) == nil)
    }
}

@Suite("Media types (RFC 9110 §8.3.1)")
struct MediaTypeTests {
    @Test(
        "type, subtype and suffix are parsed, whatever their case and parameters",
        arguments: [
            ("application/json", "application/json", ""), ("Application/JSON; charset=utf-8", "application/json", ""),
            ("application/json;charset=UTF8", "application/json", ""), ("application/json; charset=\"utf-8\"", "application/json", ""),
            (" text/json\t;a=b/c", "text/json", ""), ("application/vnd.api+json", "application/vnd.api+json", "json"),
            ("application/a+b+JSON", "application/a+b+json", "json"), ("application/json+", "application/json+", ""),
            ("text/html, application/json", "text/html", ""),
        ])
    func read(text: String, essence: String, suffix: String) throws {
        let type = try #require(MediaType(Array(text.utf8)[...]))
        #expect(type.essence == Array(essence.utf8) && type.isEssence(Array(essence.utf8)))
        #expect(type.suffix.map(\.asciiLowercased) == Array(suffix.utf8))
        #expect((type.type + [UInt8(ascii: "/")] + type.subtype).map(\.asciiLowercased) == Array(essence.utf8))
    }

    @Test(
        "an invalid media type is rejected",
        arguments: ["", "json", "/", "application/", "/json", "a/b/c", "a b/c", "a/b c", "a/\u{e9}", ";a/b", "a/b\0", ",application/json"])
    func refused(text: String) { #expect(MediaType(Array(text.utf8)[...]) == nil) }

    @Test("a slice of a longer text is parsed like separate text")
    func slice() {
        let type = MediaType(Array("xx: application/json\r\n".utf8)[4..<20])
        #expect(type?.isEssence("application/json") == true && type?.isEssence("application/jso") == false)
    }
}

@Suite("Content of unknown length")
struct GrowingContentTests {
    /// Appends content in pieces. Returns how often it is moved beyond 1 MiB, and its final capacity.
    private func moves(_ count: Int, limit: Int) -> (count: Int, capacity: Int) {
        let piece = [UInt8](repeating: 7, count: 48 << 10)
        var content: [UInt8] = []
        var places: [UnsafePointer<UInt8>?] = []
        while content.count < count {
            content.append(copying: piece.span, growingTo: limit)
            let place = content.withUnsafeBufferPointer { $0.baseAddress }
            if content.count > 1 << 20, places.last != place { places.append(place) }
        }
        // Compares in blocks, because single bytes take long in debug builds.
        let isWhole = content.withUnsafeBytes { bytes in
            stride(from: 0, to: bytes.count, by: piece.count).allSatisfy {
                memcmp(bytes.baseAddress! + $0, piece, min(piece.count, bytes.count - $0)) == 0
            }
        }
        #expect(isWhole)
        return (max(0, places.count - 1), content.capacity)
    }

    @Test("long content is copied at most once, and short content allocates little more than it needs")
    func isMovedOnce() {
        #expect(moves(16 << 20, limit: 17 << 20).count <= 1)
        #expect(moves(500_000, limit: 1 << 30).capacity < 2 << 20)
        #expect(moves(2 << 20, limit: 1 << 30).capacity < 65 << 20)
    }
}
