// Tests of dates that move: formats that are recognized, and formats that are kept.

import TestSupport
import Testing

@testable import HTTPCore

@Suite("Moved dates")
struct DateShiftTests {
    /// A day and one second later.
    private static let shift = DateShift(from: 1_700_000_000, to: 1_700_086_401)

    private static func moved(_ text: String, _ shift: DateShift) -> String? {
        let bytes = Array(text.utf8)
        return shift.beginning(of: bytes[...]).map { String(decoding: $0 + bytes.dropFirst($0.count), as: UTF8.self) }
    }

    @Test(
        "dates keep their precision and offset",
        arguments: [
            ("2026-11-21T06:30:00Z", "2026-11-22T06:30:01Z"), ("2026-12-31T23:59:59.999999999Z", "2027-01-02T00:00:00.999999999Z"),
            ("2024-02-28t23:59:59.5+05:30", "2024-03-01t00:00:00.5+05:30"), ("2026-11-21 06:30:00-0800", "2026-11-22 06:30:01-0800"),
            ("2026-11-21T06:30:00", "2026-11-22T06:30:01"), ("2026-11-21T06:30:60Z", "2026-11-22T06:31:01Z"),
            ("2026-11-21", "2026-11-22"), ("Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 07 Nov 1994 08:49:38 GMT"),
        ])
    func dates(text: String, expected: String) { #expect(Self.moved(text, Self.shift) == expected) }

    @Test(
        "other texts are no dates",
        arguments: [
            "", "2026-11-21x", "2026-13-01", "2026-02-30", "2026-11-21T25:00:00Z", "2026-11-21T06:30Z", "2026-11-21T06:30:00 CET",
            "2026-11-21T06:30:00.Z", "2026-11-21T06:30:00+1:00", "2026-11-21T06:30:00+01:0", "2026-11-21T06:30:00ZZ", "2026/11/21",
            "20261121", "Mon, 06 Nov 1994 08:49:37 GMT", "sun, 06 nov 1994 08:49:37 gmt", "Sunday, 06-Nov-94 08:49:37 GMT",
            "on 2026-11-21", "9999-12-31T23:59:59Z", "9999-12-31", "Fri, 31 Dec 9999 23:59:59 GMT",
        ])
    func others(text: String) { #expect(Self.moved(text, Self.shift) == nil) }

    @Test("the day of the recording becomes the day of the replay, also shortly before and after midnight")
    func days() {
        // 23:00 UTC, and 01:00 UTC two days later.
        let shift = DateShift(from: 1_700_002_800, to: 1_700_096_400)
        #expect(Self.moved("2023-11-14", shift) == "2023-11-16")
    }

    @Test("moving there and back gives the original, and the length never changes")
    func random() {
        RandomSchedules.run(2_000) {
            $0
        } end: { generator in
            let pad = { (value: Int, width: Int) in
                let text = String(value)
                return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
            }
            let year = pad(1_000 + generator.below(8_000), 4)
            let day = "\(year)-\(pad(1 + generator.below(12), 2))-\(pad(1 + generator.below(28), 2))"
            let clock = "T\(pad(generator.below(24), 2)):\(pad(generator.below(60), 2)):\(pad(generator.below(60), 2))"
            let text = day + (generator.isTrue() ? "" : clock + generator.pick(["Z", "+02:00", ".25-11:30", ""]))
            let (from, to) = (Int64(generator.below(2_000_000_000)), Int64(generator.below(2_000_000_000)))
            guard let there = Self.moved(text, DateShift(from: from, to: to)) else { throw ScheduleFailure("\(text) is kept") }
            try demand(there.utf8.count == text.utf8.count, "\(text) becomes \(there)")
            try demand(Self.moved(there, DateShift(from: to, to: from)) == text, "\(text) does not return from \(there)")
        }
    }
}
