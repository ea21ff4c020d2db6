// Tests of the examination of complete content: faults, decoded form and entity tag. Without sockets.

import CachePolicy
import HTTPCore
import JSON
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Results of content examination")
struct ContentExaminationTests {
    private static let nothing = ContentExamination.Findings()

    private func examination(
        _ content: [UInt8], _ coding: ContentCoding? = .identity, isJSON: Bool = true, mustHave: String? = nil, makesTag: Bool = false,
        limit: Int = 1 << 20, isDelimited: Bool = true
    ) -> ContentExamination {
        var good = GoodResponse()
        good.mustHave = [mustHave].compactMap { $0.flatMap(JSONPointer.init) }
        return ContentExamination(
            ContentExamination.Arrived(content, coding, isJSON: isJSON, JSONTextChecker.check(content.span), isDelimited: isDelimited),
            ContentExamination.Demands(good, storedBytes: nil, makesTag: makesTag, limitBytes: limit))
    }

    @Test("the amount of content to process decides whether it is examined on the event loop")
    func lengths() throws {
        let text = Array(TestContent.list(20).utf8)
        let coded = try TestContent.gzip(TestContent.list(20))
        // The content was checked on arrival.
        #expect(examination(text).findings(within: 10) == Self.nothing)
        #expect(examination(text, isJSON: false).findings(within: 10) == Self.nothing)
        #expect(examination(text, mustHave: "/data").findings(within: text.count - 1) == nil)
        #expect(examination(text, mustHave: "/data").findings(within: text.count) == Self.nothing)
        #expect(examination(text, makesTag: true).findings(within: text.count - 1) == nil)
        #expect(examination(text, makesTag: true).findings(within: text.count)?.ownTag != nil)
        // The limit applies to the encoded and to the decoded length.
        #expect(examination(coded, .gzip).findings(within: coded.count - 1) == nil)
        #expect(examination(coded, .gzip).findings(within: text.count - 1) == nil)
        #expect(examination(coded, .gzip).findings(within: text.count)?.decoded == text)
        // Content with an unknown coding is not examined.
        #expect(examination(text, nil).findings(within: 0) == Self.nothing)
    }

    @Test("faults are equal on and off the event loop")
    func faults() throws {
        let bomb = try TestContent.gzip(String(repeating: " ", count: 100_000) + "1")
        let rows: [(ContentExamination, UpstreamFault?)] = [
            (examination(Array("[1".utf8)), .invalidJSON), (examination(Array("[1]".utf8), mustHave: "/0"), nil),
            (examination(Array("[1]".utf8), mustHave: "/1"), .missingValue), (examination([], .gzip), .emptyContent),
            (examination([1, 2], .gzip), .undecodable), (examination(try TestContent.gzip("[1"), .gzip), .invalidJSON),
            (examination(try TestContent.gzip("[1]"), .gzip, mustHave: "/1"), .missingValue),
            (examination(bomb, .gzip, limit: 50_000), nil),
        ]
        for (examination, fault) in rows {
            #expect(examination.findings()?.fault == fault)
            if let atOnce = examination.findings(within: 60_000) { #expect(atOnce == examination.findings()) }
        }
    }

    @Test("content too large or too deep to examine is not a fault and is not stored; truncated content is a fault")
    func obstacles() throws {
        let large = try TestContent.gzip("[" + String(repeating: " ", count: 100_000) + "1]")
        let bomb = try TestContent.gzip("[" + String(repeating: " ", count: 4 << 20) + "]")
        let deep = Array((String(repeating: "[", count: 600) + String(repeating: "]", count: 600)).utf8)
        let rows: [(ContentExamination, ContentExamination.Findings)] = [
            (examination(large, .gzip, limit: 50_000), .init(obstacle: .tooLarge)),
            // Decoding stops at a length that is unlikely for the encoded length.
            (examination(bomb, .gzip, limit: 8 << 20), .init(obstacle: .tooLarge)),
            (examination(large, .gzip, isJSON: false, limit: 50_000), .init(obstacle: .tooLarge)),
            (examination(deep, mustHave: "/0", makesTag: true), .init(obstacle: .tooDeep)),
        ]
        for (examination, expected) in rows { #expect(examination.findings() == expected) }
        // Content that ends early was cut off if nothing else proves its end.
        let cut = Array(try TestContent.gzip("[1]").dropLast())
        for isDelimited in [true, false] {
            for bytes in [Array(deep.dropLast()), Array("[1".utf8)] {
                let found = examination(bytes, isDelimited: isDelimited).findings()
                #expect(found == .init(fault: .invalidJSON, isCut: !isDelimited))
            }
            #expect(examination(Array("[1]]".utf8), isDelimited: isDelimited).findings() == .init(fault: .invalidJSON))
            let short = examination(try TestContent.gzip("[1"), .gzip, isDelimited: isDelimited).findings()
            #expect(short == .init(decoded: Array("[1".utf8), fault: .invalidJSON, isCut: !isDelimited))
            let undecodable = examination(cut, .gzip, isDelimited: isDelimited).findings()
            #expect(undecodable == .init(fault: .undecodable, isCut: !isDelimited))
        }
        let coded = examination(try TestContent.gzip(String(decoding: deep, as: UTF8.self)), .gzip, makesTag: true).findings()
        #expect(coded == .init(decoded: deep, obstacle: .tooDeep) && coded?.flaw == .tooDeep)
    }

    @Test("zero padding after gzip is accepted; other trailing data is damage")
    func padding() throws {
        let coded = try TestContent.gzip("[1]")
        for behind in [[0], [UInt8](repeating: 0, count: 512)] as [[UInt8]] {
            #expect(examination(coded + behind, .gzip).findings() == .init(decoded: Array("[1]".utf8)))
        }
        for behind in [[1], [0, 0, 1], [UInt8](repeating: 0, count: 512) + coded] as [[UInt8]] {
            #expect(examination(coded + behind, .gzip).findings()?.fault == .undecodable)
        }
    }

    @Test("a tag depends on the meaning of the JSON, whatever its length")
    func tags() throws {
        let count = TestRun.isFast ? 2_000 : 10_000
        let one = examination(Array(TestContent.list(count, ",\"x\":1,\"y\":2").utf8), makesTag: true).findings()?.ownTag
        let other = examination(Array(TestContent.list(count, ", \"y\" : 2.0, \"x\":1e0").utf8), makesTag: true).findings()?.ownTag
        #expect(one != nil && one == other)
        #expect(one != examination(Array(TestContent.list(count, ",\"x\":1,\"y\":3").utf8), makesTag: true).findings()?.ownTag)
        let coded = try TestContent.gzip(TestContent.list(count, ",\"x\":1,\"y\":2"))
        #expect(examination(coded, .gzip, makesTag: true).findings()?.ownTag == one)
    }

    private func response(
        _ text: String, isGraphQL: Bool = false, kept: [String] = [], _ reading: JSONReading = .otherBytes, mustHave: [String] = []
    ) -> ContentExamination.Findings? {
        var (good, keep) = (GoodResponse(), GoodResponse())
        good.mustHave = mustHave.compactMap { JSONPointer($0) }
        keep.mustNotHave = kept.compactMap { JSONPointer($0) }
        // A byte that is invalid UTF-8.
        let bytes = text.unicodeScalars.flatMap { $0 == "\u{80}" ? [0xe9] : Array(String($0).utf8) }
        return ContentExamination(
            ContentExamination.Arrived(
                bytes, .identity, isJSON: true, JSONTextChecker.check(bytes.span, reading), isDelimited: true, reading: reading),
            ContentExamination.Demands(good, kept: keep, isGraphQL: isGraphQL, storedBytes: nil, makesTag: true, limitBytes: 1 << 20)
        ).findings()
    }

    @Test("readable JSON that RFC 8259 forbids is not a fault, gets no tag, and fails required values")
    func lenient() {
        for text in ["{\"a\":\"\u{80}\"}", "\u{feff}{\"a\":1}"] {
            #expect(response(text) == .init(isLenient: true))
            #expect(response(text, mustHave: ["/a"])?.fault == .missingValue)
        }
        #expect(response("[NaN]")?.fault == .invalidJSON && response("[NaN]", .extensions) == .init(isLenient: true))
        #expect(response("{\"a\":1}")?.isLenient == false && response("{\"a\":1}")?.ownTag != nil)
    }

    @Test("a response excluded by keep_if is not a fault")
    func kept() {
        #expect(response("{\"errors\":[]}", kept: ["/errors"])?.obstacle == .notKept)
        #expect(response("{\"errors\":[]}", kept: ["/errors"])?.fault == nil)
        #expect(response("{\"data\":1}", kept: ["/errors"])?.obstacle == nil)
    }

    @Test(
        "GraphQL errors without data are not stored",
        arguments: [
            ("{\"errors\":[{\"message\":\"PersistedQueryNotFound\"}]}", true), ("{\"data\":null,\"errors\":[{}]}", true),
            ("{\"errors\":[\"a\"],\"data\":null}", true), ("{\"errors\":[{\"data\":{}}]}", true),
            ("{\"extensions\":{\"data\":{}},\"errors\":[1]}", true), ("{\"errors\":[{}],\"data\":{\"a\":1}}", false),
            ("{\"data\":{\"errors\":[1]}}", false), ("{\"errors\":[]}", false), ("{\"errors\":{}}", false),
            ("[{\"errors\":[1]},{\"data\":null,\"errors\":[{}]}]", true), ("[{\"errors\":[1]},{\"data\":{\"a\":1}}]", false),
            ("[{\"errors\":[1]},{\"a\":1}]", false), ("[{\"a\":1},{\"errors\":[1]}]", false), ("[{\"errors\":[1]},1]", false),
            ("[[{\"errors\":[1]}]]", false), ("[]", false),
            ("{\"data\":[],\"errors\":[1]}", false), ("\"errors\"", false), ("{}", false),
        ])
    func graphQL(text: String, isError: Bool) {
        #expect(response(text, isGraphQL: true)?.obstacle == (isError ? .graphQLError : nil))
        #expect(response(text)?.obstacle == nil)
    }
}
