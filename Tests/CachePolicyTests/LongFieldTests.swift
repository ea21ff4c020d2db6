// Tests of fields of maximum length. Each grammar has a limit, and an unread rest never permits storing or sharing.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Fields above the parsing limit")
struct LongFieldTests {
    private let response = "Content-Type: application/json\n"

    private func decision(_ lines: String) -> StorageDecision {
        let answer = ResponseHead(status: 200, fields: fields(response + lines))
        let settings = CachePolicySettings()
        let control = ResponseCacheControl(answer.fields, targeted: settings.targetedFields)
        return Storing.decide(
            answer, control, to: StorableRequest(request(), RequestCacheControl(), isPartitioned: false),
            settings: settings)
    }

    private func list(_ count: Int, _ member: (Int) -> String) -> String { (0..<count).map(member).joined(separator: ",") }

    @Test("Cache-Control above the parsing limit forbids storing", arguments: [127, 128, 20_000])
    func cacheControl(others: Int) {
        let control = ResponseCacheControl(fields("Cache-Control: max-age=60,\(list(others) { "x\($0 % 10)" })"))
        #expect(control.noStore == (others >= 128))
        #expect(control.maxAge == (others >= 128 ? nil : 60))
    }

    @Test("field names in private and no-cache count towards the limit")
    func names() {
        let control = ResponseCacheControl(fields("Cache-Control: max-age=60, private=\"\(list(4_000) { "f\($0)" })\""))
        #expect(control.noStore && control.unstoredFields.isEmpty)
    }

    @Test("a request's Cache-Control above the parsing limit is treated as no-store and no-cache")
    func requestControl() {
        let directives = RequestCacheControl(fields("Cache-Control: max-stale=60,\(list(5_000) { "x\($0)" })"))
        #expect(directives.noStore && directives.noCache && directives.maxStale == nil)
    }

    @Test("a targeted field above the parsing limit forbids storing despite a permissive Cache-Control", arguments: [",", ";"])
    func targeted(separator: String) {
        let members = (0..<4_000).map { "k\($0)" }.joined(separator: separator)
        let lines = "Cache-Control: max-age=60\nCDN-Cache-Control: \(members)"
        #expect(decision(lines) == .forbidden(.noStore))
        #expect(decision("Cache-Control: max-age=60\nCDN-Cache-Control: max-age=60,\(list(100) { "k\($0)" })") == .allowed)
    }

    @Test("No-Vary-Search above the parsing limit is ignored, so arguments must match exactly")
    func searchVariance() {
        let names = { (count: Int) in "No-Vary-Search: params=(\((0..<count).map { "\"\($0)\"" }.joined(separator: " ")))" }
        #expect(SearchVariance(fields(names(200))) != nil)
        #expect(SearchVariance(fields(names(4_000))) == nil)
        #expect(SearchVariance(fields("No-Vary-Search: \(list(4_000) { "k\($0)" }), key-order")) == nil)
    }

    @Test("all names of No-Vary-Search are found, in any number and case")
    func listed() throws {
        let variance = try #require(
            SearchVariance(fields("No-Vary-Search: params=(\((0..<200).map { "\"A\($0)\"" }.joined(separator: " ")))")))
        func keeps(_ name: String, ignoringCase: Bool) -> Bool {
            let name = Array(name.utf8)
            return variance.keeps(name.span, ignoringCase: ignoringCase)
        }
        for number in 0..<200 {
            #expect(!keeps("A\(number)", ignoringCase: false) && !keeps("a\(number)", ignoringCase: true))
            #expect(keeps("a\(number)", ignoringCase: false))
        }
        for other in ["A200", "A", "", "B1", "A1990"] { #expect(keeps(other, ignoringCase: false) && keeps(other, ignoringCase: true)) }
    }

    @Test("a response with too many groups is not stored, and a write invalidates the first 512 groups")
    func groups() {
        #expect(decision("Cache-Control: max-age=60\nCache-Groups: \(list(128) { "\"g\($0)\"" })") == .allowed)
        for lines in [list(4_000) { "\"g\($0)\"" }, "\"\(String(repeating: "g", count: 20_000))\""] {
            #expect(decision("Cache-Control: max-age=60\nCache-Groups: \(lines)") == .forbidden(.tooManyMembers))
        }
        let written = fields("Cache-Group-Invalidation: \(list(4_000) { "\"g,\($0)\"" })")
        let first = CacheTags.firstGroups(of: written, named: "cache-group-invalidation")
        #expect(first.count == 512 && first.first == "g,0" && first.last == "g,511")
    }

    @Test("each tag is listed once, however many there are")
    func tags() {
        let tags = CacheTags.tags(of: fields("Surrogate-Key: \((0..<9_000).map { "k\($0 % 3_000)" }.joined(separator: " "))"))
        #expect(tags.count == 3_000 && tags.first == "k0")
    }

    @Test("a Vary field with too many names forbids storing, and a * after many names is found")
    func vary() {
        #expect(decision("Cache-Control: max-age=60\nVary: \(list(10_000) { "f\($0)" })") == .forbidden(.tooManyMembers))
        #expect(decision("Cache-Control: max-age=60\nVary: \(list(10_000) { "f\($0)" }), *") == .forbidden(.varyStar))
    }

    @Test("a selecting field above the parsing limit is compared without normalization")
    func selecting() {
        let long = list(129) { "l\($0);q=0.5" }
        let name = [Array("accept-language".utf8)[...]]
        let plain = SelectingFields.values(of: name, in: fields("Accept-Language: \(long)"))
        #expect(plain != SelectingFields.values(of: name, in: fields("Accept-Language:  l1;q=0.5 ,\(long)")))
        #expect(plain == SelectingFields.values(of: name, in: fields("Accept-Language: \(long)")))
        #expect(
            SelectingFields.values(of: name, in: fields("Accept-Language: de, en"))
                == SelectingFields.values(of: name, in: fields("Accept-Language: EN ,de")))
    }

    @Test("an entity tag is found after many others")
    func entityTags() {
        let (bytes, metadata) = stored("ETag: \"own\"\nContent-Type: application/json")
        for (others, isKnown) in [("\"own\"", true), ("W/\"own\"", true), ("*", true), ("\"other\"", false)] {
            let presented = fields("If-None-Match: \(list(5_000) { "\"t\($0)\"" }), \(others)")
            #expect(Preconditions.isNotModified(presented, stored: metadata, head: bytes.span) == isKnown)
        }
    }

    @Test("content codings above the parsing limit are treated as unknown")
    func codings() {
        #expect(ContentCoding(fields("Content-Encoding: identity, gzip")) == .gzip)
        #expect(ContentCoding(fields("Content-Encoding: \(list(10_000) { _ in "identity" })")) == nil)
    }
}
