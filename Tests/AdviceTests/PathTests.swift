// Tests of templates: which segments are identifiers, when words count, and that random paths cannot push out paths in use.

import CachePolicy
import HTTPCore
import Testing

@testable import Advice

/// An observation with a clock.
struct Observed {
    var traffic: TrafficObservation
    /// Milliseconds.
    var now: Int64 = 10_000_000

    init(limit: Int = 256) { traffic = TrafficObservation(limit: limit) }

    mutating func fetch(
        _ target: String, _ outcome: ObservedFetch.Outcome = .good(.unchanged, isStated: false), request: [(String, String)] = [],
        vary: String? = nil, partition: UInt64 = 0, route: UInt16 = 0, isForced: Bool = false, firstByte: Int64 = -1, likeness: UInt64 = 0
    ) {
        let bytes = Array(target.utf8)
        var (sent, received) = (Fields(), Fields())
        for (name, value) in request { sent.append(name: name, value: value) }
        if let vary { received.append(.vary, vary) }
        let content: UInt64 = if case .good(.hash(let hash), _) = outcome { hash } else { 0 }
        traffic.note(
            ObservedFetch(
                outcome, key: ContentHash.number(of: bytes.span) ^ partition, partition: partition, route: route, isForced: isForced,
                firstByte: firstByte), bytes[...],
            { ObservedMessage(target: bytes[...], request: sent, response: received, content: content, likeness: likeness) }, now: now)
    }

    /// Fetches until the path's words are known.
    mutating func admit(_ path: String, route: UInt16 = 0) {
        for _ in 0..<40 { fetch(path, route: route) }
    }

    var summaries: [ObservedSummary] { (0..<traffic.count).compactMap { traffic.summary($0, since: 0, now: now) } }
    var templates: [String] { summaries.map(\.template) }
    func summary(_ template: String) -> ObservedSummary? { summaries.first { $0.template == template } }
}

@Suite("Advice: templates of paths")
struct PathTests {
    @Test(
        "identifiers become *, words stay",
        arguments: [
            ("/users", "/users"), ("/users/17", "/users/*"), ("/users/17/posts", "/users/*/posts"), ("/", "/"), ("/users/", "/users/"),
            ("/v1/a-b_c.json", "/v1/a-b_c.json"), ("/oauth2/me", "/oauth2/me"),
            ("/users/6ba7b810-9dad-11d1-80b4-00c04fd430c8", "/users/*"), ("/blobs/da39a3ee5e6b4b0d3255bfef95601890afd80709", "/blobs/*"),
            ("/users/ann%40example.com", "/users/*"), ("/users/ann@example.com", "/users/*"), ("/users/a%0d%0ab", "/users/*"),
            ("/orders/A-1042", "/orders/*"), ("/days/2026-11-29", "/days/*"), ("/s/abcdefghijklmnopqrstuvwxyz", "/s/*"),
            ("/t/eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "/t/*"), ("/1/2/3/4/5/6/7/8/9/10", "/*/*/*/*/*/*/*/*/**"),
        ])
    func template(_ path: String, _ template: String) {
        var observed = Observed()
        observed.admit(path + "?a=secret")
        #expect(observed.templates == [template])
    }

    @Test("paths with several readings are not observed", arguments: ["", "*", "//a", "/a//b", "/a/../b", "/./a", "users"])
    func unclear(_ path: String) {
        var observed = Observed()
        observed.admit(path)
        #expect(observed.templates.isEmpty && observed.traffic.unknown > 0)
    }

    @Test("a word counts after several successful requests; failures and 404s add no path")
    func admission() {
        var observed = Observed()
        for _ in 0..<100 {
            observed.fetch("/wp-admin", .absent(404, isStorable: true))
            observed.fetch("/broken", .failed(0))
            observed.fetch("/html", .unstored(.status))
        }
        #expect(observed.traffic.count == 0)
        for count in 1..<Int(PathWords.admission) {
            observed.fetch("/users")
            #expect(observed.traffic.count == 0, "\(count)")
        }
        observed.fetch("/users")
        #expect(observed.templates == ["/users"] && observed.summary("/users")?.counts.requests == 1)
        observed.fetch("/users", .failed(3))
        observed.fetch("/users", .unstored(.noStore))
        #expect(observed.summary("/users")?.counts.failures == [3: 1])
        #expect(observed.summary("/users")?.counts.unstored == [.noStore: 1])
    }

    @Test("paths of requests with credentials are observed")
    func users() {
        var observed = Observed()
        for _ in 0..<10 { observed.fetch("/me", partition: 7) }
        #expect(observed.templates == ["/me"])
    }

    private func name(_ number: Int) -> String {
        String(String(number).map { Character(UnicodeScalar(UInt8($0.wholeNumberValue ?? 0) + 97)) }) + "x"
    }

    @Test("below the first segment, many words in use become identifiers for good, and their templates end")
    func manyLaterWords() {
        var observed = Observed()
        for number in 0..<PathWords.wordLimit { observed.admit("/users/\(name(number))/posts") }
        observed.admit("/orders")
        #expect(observed.templates.contains("/users/\(name(1))/posts") && observed.traffic.count == PathWords.wordLimit + 1)
        observed.admit("/users/ida/posts")
        #expect(Set(observed.templates) == ["/orders", "/users/*/posts"])
        observed.admit("/users/\(name(1))/posts")
        #expect(Set(observed.templates) == ["/orders", "/users/*/posts"])
        #expect(observed.summary("/orders")?.counts.requests == 37)
    }

    @Test("random words below the first segment count as identifiers, and the words in use stay known")
    func randomWords() {
        var observed = Observed()
        for word in ["users", "orders"] { observed.admit("/v1/\(word)") }
        for number in 0..<10_000 {
            observed.fetch("/v1/\(name(number))")
            observed.fetch("/v1/users")
        }
        #expect(Set(observed.templates) == ["/v1/users", "/v1/orders", "/v1/*"])
        #expect(observed.summary("/v1/users")?.counts.requests == 10_034)
        // After two hours without requests, other words may replace a word.
        observed.now += 2 * ObservedPath.hour + 1
        observed.fetch("/v1/users")
        for number in 0..<100 { observed.fetch("/v1/\(name(number))") }
        observed.admit("/v1/items")
        #expect(observed.templates.contains("/v1/items") && observed.summary("/v1/users")?.counts.requests == 10_035)
    }

    @Test("words in use stay known, although the paths are remembered")
    func wordsInUse() {
        var observed = Observed()
        for _ in 0..<600 {
            observed.fetch("/users")
            observed.now += 60_000
        }
        for letter in "abcdefghijklmnopqrstuvwxyz" { observed.fetch("/w\(letter)") }
        observed.now += 1
        observed.fetch("/users")
        #expect(observed.templates.contains("/users") && (observed.summary("/users")?.counts.requests ?? 0) > 300)
    }

    @Test("the first segment with many different words: further words count as identifiers, and known ones stay")
    func manyWords() {
        var observed = Observed()
        observed.admit("/users")
        for number in 0..<10_000 { observed.fetch("/users/\(name(number))") }
        #expect(Set(observed.templates) == ["/users", "/users/*"])
        #expect((observed.summary("/users/*")?.counts.requests ?? 0) > 9_000)
        for number in 0..<10_000 { observed.fetch("/\(name(number))") }
        observed.admit("/users")
        #expect(Set(observed.templates) == ["/users", "/users/*", "/*"])
    }

    @Test("random paths cannot push out paths in use, and the number of paths is limited")
    func flood() {
        var observed = Observed(limit: 8)
        for path in ["/users/1", "/orders/1"] { observed.admit(path) }
        let words = (0..<16).map { "w" + String(UnicodeScalar(UInt8(97 + $0))) }
        for first in words {
            for second in words.prefix(6) { observed.admit("/\(first)/\(second)") }
        }
        #expect(observed.traffic.count == 8 && observed.traffic.rejected > 0)
        #expect(observed.templates.contains("/users/*") && observed.templates.contains("/orders/*"))
        // Hours later, unused paths give way.
        observed.now += 3 * ObservedPath.hour
        observed.admit("/wa/wb/wc")
        #expect(observed.templates.contains("/wa/wb/wc") && observed.traffic.count == 8 && observed.traffic.replaced == 1)
    }

    @Test("each route has its own paths, and a reload keeps those of routes that still exist")
    func routes() {
        var observed = Observed()
        for route in 0..<3 as Range<UInt16> { observed.admit("/users/1", route: route) }
        #expect(observed.summaries.map(\.route) == [0, 1, 2])
        observed.traffic = TrafficObservation(limit: 2, after: observed.traffic) { route, _ in [0: 1, 2: 0][route] }
        #expect(observed.summaries.map(\.route) == [1, 0])
        let before = observed.summaries.map(\.counts.requests)
        observed.fetch("/users/1", route: 0)
        #expect(observed.summaries.map(\.counts.requests) == [before[0], before[1] + 1])
    }

    @Test("with a limit of 0 nothing is observed")
    func off() {
        var observed = Observed(limit: 0)
        observed.admit("/users")
        #expect(observed.traffic.count == 0 && observed.traffic.unknown == 0)
    }
}
