// Whether many 404 at once are believed; and what is kept in memory of a confirmation that was not written.

import HTTPCore
import TestSupport
import Testing

@testable import CachePolicy

@Suite("A crowd of 404")
struct GoneWatchTests {
    private static let window: Int64 = 10_000

    /// Asks for so many that are there, and for so many that are 404; returns the last verdict.
    private func ask(_ watch: inout GoneWatch, found: Int, missing: Range<Int>, at now: Int64) -> GoneVerdict? {
        for target in 0..<found { watch.found(UInt64(1_000 + target), now: now) }
        return missing.map { watch.missing(UInt64(1 + $0), now: now) }.last
    }

    @Test(
        "more than a tenth of the targets asked for, and at least ten",
        arguments: [
            (0, 9, GoneVerdict.believed), (0, 10, .routesLost), (90, 10, .believed), (89, 10, .routesLost), (190, 21, .believed),
            (188, 21, .routesLost),
        ])
    func share(found: Int, missing: Int, expected: GoneVerdict) {
        var watch = GoneWatch(window: Self.window)
        #expect(ask(&watch, found: found, missing: 0..<missing, at: 1) == expected)
    }

    @Test("then those before are not believed either, until they are found again")
    func before() {
        var watch = GoneWatch(window: Self.window)
        #expect(ask(&watch, found: 0, missing: 0..<10, at: 1) == .routesLost)
        #expect(watch.missing(1, now: 2) == .routesLost)
        // Nobody asks for the others any more.
        #expect(watch.missing(1, now: Self.window * 5) == .routesLost)
        watch.found(1, now: Self.window * 5)
        #expect(watch.missing(1, now: Self.window * 6) == .believed)
    }

    @Test("what stays 404 for long is believed in the end")
    func long() {
        var watch = GoneWatch(window: Self.window)
        #expect(ask(&watch, found: 0, missing: 0..<12, at: 1) == .routesLost)
        #expect(ask(&watch, found: 0, missing: 0..<12, at: Self.window * 29) == .routesLost)
        #expect(ask(&watch, found: 0, missing: 0..<12, at: Self.window * 31) == .believed)
    }

    @Test("what was 404 before the window does not count, however often it is asked for")
    func old() {
        var watch = GoneWatch(window: Self.window)
        for target in 0..<30 { #expect(watch.missing(UInt64(1 + target), now: Int64(target) * Self.window / 5) == .believed) }
        let later = Self.window * 7
        for target in 0..<30 { #expect(watch.missing(UInt64(1 + target), now: later) == .believed) }
    }

    @Test("what one user alone has seen turn 404 keeps nobody else's from being believed, however many they are", .slow)
    func oneUser() {
        var watch = GoneWatch(window: Self.window)
        let own = (1...1_000).map { watch.missing(UInt64($0), by: 7, now: 1) }
        #expect(own.last == .routesLost)
        // Not the ninth of the others either: they are no crowd by themselves.
        for target in 2_001...2_009 { #expect(watch.missing(UInt64(target), by: UInt64(target % 2), now: 2) == .believed) }
        #expect(watch.missing(2_010, by: 8, now: 2) == .believed)
        #expect(watch.missing(1, by: 7, now: 2) == .routesLost)
    }

    @Test("what several users have seen is a crowd")
    func users() {
        var watch = GoneWatch(window: Self.window)
        for target in 1...9 { #expect(watch.missing(UInt64(target), by: UInt64(target % 3), now: 1) == .believed) }
        #expect(watch.missing(10, by: 5, now: 1) == .routesLost)
        for target in 1...9 { #expect(watch.missing(UInt64(target), by: UInt64(target % 3), now: 2) == .routesLost) }
        #expect(watch.isDistrusted(1, now: 2) && !watch.isDistrusted(99, now: 2))
    }

    @Test("memory is bounded, and what turned 404 is not pushed out by what did not", .slow)
    func bounded() {
        var watch = GoneWatch(window: Self.window)
        for target in 0..<9 { #expect(watch.missing(UInt64(1 + target), now: 1) == .believed) }
        for target in 0..<1_000_000 { watch.found(UInt64(target + 4_096), now: 1) }
        // As many as there are places were found; these ten are far less than a tenth.
        #expect(watch.missing(10, now: 1) == .believed)
        #expect(watch.missing(11, now: Self.window * 2) == .believed)
    }
}

@Suite("A confirmation that was not written (RFC 9111 §4.2.3)")
struct UnwrittenConfirmationTests {
    private func stored(request: Int64, response: Int64, date: Int64, age: Int64 = 0) -> StoredMetadata {
        var stored = StoredMetadata(
            requestTime: Timestamp(milliseconds: request), responseTime: Timestamp(milliseconds: response), date: Timestamp(seconds: date))
        stored.ageValue = age
        return stored
    }

    @Test(
        "the age is that of the confirmation",
        arguments: [
            (1_008_000, 1_008_200, 1_008, 0), (1_000_100, 1_000_100, 1_000, 0), (1_016_383, 1_016_400, 1_016, 0),
            (1_008_000, 1_008_000, 1_005, 0),
            // Through another cache, which tells an age of its own.
            (1_008_000, 1_008_000, 1_000, 7),
        ] as [(Int64, Int64, Int64, Int64)])
    func age(request: Int64, response: Int64, date: Int64, age: Int64) throws {
        let written = stored(request: 1_000_000, response: 1_000_000, date: 1_000)
        let fresh = stored(request: request, response: response, date: date, age: age)
        let note = try #require(UnwrittenConfirmation.encode(written: written, fresh: fresh))
        #expect(note < 1 << 28)
        var read = written
        UnwrittenConfirmation.apply(note, to: &read)
        #expect(read.date == fresh.date)
        let now = Timestamp(milliseconds: response + 4_000)
        #expect(Freshness.currentAge(of: read, now: now) == Freshness.currentAge(of: fresh, now: now))
    }

    @Test(
        "what does not fit must be written",
        arguments: [
            (1_016_384, 1_000, 0), (998_999, 1_000, 0), (1_001_000, 999, 0), (1_001_000, 20_000, 0), (1_008_000, 1_008, 60),
        ] as [(Int64, Int64, Int64)])
    func misfits(time: Int64, date: Int64, age: Int64) {
        let written = stored(request: 1_000_000, response: 1_000_000, date: 1_000)
        #expect(UnwrittenConfirmation.encode(written: written, fresh: stored(request: time, response: time, date: date, age: age)) == nil)
    }

    @Test("no note changes nothing")
    func none() {
        var read = stored(request: 1, response: 2, date: 3)
        UnwrittenConfirmation.apply(0, to: &read)
        #expect(read == stored(request: 1, response: 2, date: 3))
    }

    @Test("the Date takes the old one's place where it has its form")
    func redated() throws {
        func redated(_ text: String) -> String? {
            Array(text.utf8).withUnsafeBytes { StoredHead.redated($0, Timestamp(seconds: 1_750_000_008)) }.map {
                String(decoding: $0, as: UTF8.self)
            }
        }
        let head = "HTTP/1.1 200 OK\r\nX: date: 1\r\ndAtE: Sun, 15 Jun 2025 15:06:40 GMT\r\nETag: \"a\"\r\n"
        #expect(redated(head) == head.replacing("15:06:40", with: "15:06:48"))
        #expect(redated("HTTP/1.1 200 OK\r\nDate: Sunday, 15-Jun-25 15:06:40 GMT\r\n") == nil)
        #expect(redated("HTTP/1.1 200 OK\r\nX: 1\r\n") == nil)
    }
}
