// Tests of positions and their text form.

import Testing

@testable import Fleet

@Suite("Positions in the fleet log")
struct PositionTests {
    @Test(
        "a position is read back as it was written",
        arguments: [LogPosition(0, 0), LogPosition(1_700_000_000_000, 7), LogPosition(.max, .max)])
    func text(position: LogPosition) {
        #expect(LogPosition(text: Array(position.text.utf8)) == position)
    }

    @Test(
        "text other than two canonical decimal numbers joined by a hyphen is rejected",
        arguments: [
            "", "-", "1", "1-", "-1", "1-1-1", "+1-1", "01-1", "1-01", " 1-1", "1-1 ", "1-a", "１-1", "18446744073709551616-0",
            "0-18446744073709551616",
            "1--1", "1-\u{0}",
        ])
    func strict(text: String) {
        #expect(LogPosition(text: Array(text.utf8)) == nil)
    }

    @Test("positions are ordered by time, then by sequence")
    func order() {
        let ascending = [LogPosition(0, 0), LogPosition(0, 1), LogPosition(1, 0), LogPosition(1, .max), LogPosition(2, 0)]
        #expect(ascending.shuffled().sorted() == ascending)
        for (lower, higher) in zip(ascending, ascending.dropFirst()) { #expect(higher.previous >= lower && higher.previous < higher) }
        #expect(LogPosition.beginning.previous == .beginning)
        #expect(LogPosition(.max, 3).later(byMilliseconds: 5) == LogPosition(.max, 0))
        #expect(LogPosition(3, 3).earlier(byMilliseconds: 5) == .beginning)
    }
}
