// Tests of confirmations by a 304 that are kept as numbers.

import HTTPCore
import TestSupport
import Testing

@testable import CachePolicy

@Suite("Confirmations kept as numbers (RFC 9111 §4.2.3)")
struct ConfirmationNoteTests {
    private func stored(request: Int64, response: Int64, date: Int64, age: Int64 = 0) -> StoredMetadata {
        var stored = StoredMetadata(
            requestTime: Timestamp(milliseconds: request), responseTime: Timestamp(milliseconds: response), date: Timestamp(seconds: date))
        stored.ageValue = age
        return stored
    }

    @Test(
        "the age is computed from the confirmation",
        arguments: [
            (1_008_000, 1_008_200, 1_008, 0), (1_000_100, 1_000_100, 1_000, 0), (1_016_383, 1_016_400, 1_016, 0),
            (1_008_000, 1_008_000, 1_005, 0),
            // Through another cache, which sends an Age.
            (1_008_000, 1_008_000, 1_000, 7),
        ] as [(Int64, Int64, Int64, Int64)])
    func age(request: Int64, response: Int64, date: Int64, age: Int64) throws {
        let written = stored(request: 1_000_000, response: 1_000_000, date: 1_000)
        let fresh = stored(request: request, response: response, date: date, age: age)
        let note = try #require(ConfirmationNote.encode(written: written, fresh: fresh))
        #expect(note < 1 << 27)
        var read = written
        ConfirmationNote.apply(note, to: &read)
        #expect(read.date == fresh.date)
        let now = Timestamp(milliseconds: response + 4_000)
        #expect(Freshness.currentAge(of: read, now: now) == Freshness.currentAge(of: fresh, now: now))
    }

    @Test(
        "a confirmation that does not fit the compact form must be written",
        arguments: [
            (264_000_000, 264_000, 0), (998_999, 1_000, 0), (1_001_000, 900, 0), (1_001_000, 20_000, 0), (1_008_000, 1_008, 60),
        ] as [(Int64, Int64, Int64)])
    func misfits(time: Int64, date: Int64, age: Int64) {
        let written = stored(request: 1_000_000, response: 1_000_000, date: 1_000)
        #expect(ConfirmationNote.encode(written: written, fresh: stored(request: time, response: time, date: date, age: age)) == nil)
    }

    @Test("a confirmation becomes at most a quarter second older, never younger, and later ones have larger numbers")
    func rounding() throws {
        var random = SeededGenerator(seed: 4711)
        for _ in 0..<2_000 {
            let time = 1_795_000_000_000 + Int64(random.below(1_000_000))
            let (delay, age) = (Int64(random.below(3_000)), Int64(random.below(20)))
            let written = stored(request: time, response: time + delay, date: time / 1000, age: age)
            var former: UInt32 = 0
            var passed = Int64(random.below(5_000)) + 4_000
            while passed < 250_000_000 {
                let date = (time + passed) / 1000 + Int64(random.below(3)) - 1
                let fresh = stored(request: time + passed, response: time + passed, date: date, age: written.ageValue)
                let note = try #require(ConfirmationNote.encode(written: written, fresh: fresh))
                var read = written
                ConfirmationNote.apply(note, to: &read)
                #expect(0..<250 ~= fresh.requestTime.milliseconds - read.responseTime.milliseconds)
                #expect(note > former && read.date == fresh.date)
                former = note
                passed = passed * 3 + 251
            }
        }
    }

    @Test("an empty confirmation changes nothing")
    func none() {
        var read = stored(request: 1, response: 2, date: 3)
        ConfirmationNote.apply(0, to: &read)
        #expect(read == stored(request: 1, response: 2, date: 3))
    }

    @Test("the confirmation's Date replaces the stored one if that has the standard format")
    func redated() throws {
        func redated(_ text: String) -> String? {
            let head = Array(text.utf8)
            return StoredHead.redated(head.span, Timestamp(seconds: 1_750_000_008)).map { String(decoding: $0, as: UTF8.self) }
        }
        let head = "HTTP/1.1 200 OK\r\nX: date: 1\r\ndAtE: Sun, 15 Jun 2025 15:06:40 GMT\r\nETag: \"a\"\r\n"
        #expect(redated(head) == head.replacing("15:06:40", with: "15:06:48"))
        #expect(redated("HTTP/1.1 200 OK\r\nDate: Sunday, 15-Jun-25 15:06:40 GMT\r\n") == nil)
        #expect(redated("HTTP/1.1 200 OK\r\nX: 1\r\n") == nil)
    }
}
