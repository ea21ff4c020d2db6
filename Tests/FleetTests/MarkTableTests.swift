// Tables of noted marks, with the records that may be used.

import Testing

@testable import Fleet

@Suite("The table of marks")
struct MarkTableTests {
    private static func table(limits: MarkTable.Limits = MarkTable.Limits(), _ fill: (inout MarkTable) -> Void) -> MarkTable {
        var table = MarkTable(limits: limits)
        table.startAnew(epoch: 1, floor: LogPosition(10))
        fill(&table)
        return table
    }

    private func refusal(_ table: MarkTable, _ milliseconds: UInt64, epoch: UInt64 = 1, _ hashes: [UInt64] = [7, 8]) -> TakeRefusal? {
        table.refusal(of: RecordVersion(epoch: epoch, position: LogPosition(milliseconds)), reached: LogPosition(1_000), concerning: hashes)
        {
            $0 == [42]
        }
    }

    @Test("a record is accepted unless a mark for it, a purge or the floor is later than its position")
    func marks() {
        let table = Self.table { table in
            table.note(.hash(7), at: LogPosition(20))
            table.note(.hash(9), at: LogPosition(90))
        }
        #expect(refusal(table, 20) == nil)
        #expect(refusal(table, 19) == .marked)
        #expect(refusal(table, 19, [8]) == nil)
        #expect(refusal(table, 9) == .belowFloor)
        #expect(refusal(table, 10, [8]) == nil)
        #expect(refusal(table, 50, epoch: 2) == .otherEpoch)
        #expect(refusal(MarkTable(), 50) == .otherEpoch)
        #expect(refusal(table, 1_001) == .ahead)
    }

    @Test("marks arrive in any order, and the latest position counts")
    func order() {
        let table = Self.table { table in
            table.note(.hash(7), at: LogPosition(30))
            table.note(.hash(7), at: LogPosition(20))
            table.note(.selection([42]), at: LogPosition(60))
            table.note(.selection([1]), at: LogPosition(50))
            table.note(.selection([42]), at: LogPosition(40))
        }
        #expect(refusal(table, 29) == .marked)
        #expect(refusal(table, 30) == .selected)
        #expect(refusal(table, 59) == .selected)
        #expect(refusal(table, 60) == nil)
    }

    @Test("a purge of everything rejects all earlier records")
    func all() {
        let table = Self.table { $0.note(.all, at: LogPosition(20)) }
        #expect(refusal(table, 19, []) == .purgedAll)
        #expect(refusal(table, 20, []) == nil)
    }

    @Test("a mark without a log position rejects all its records until every pending append has a position")
    func held() {
        for mark in [Mark.hash(7), .selection([42]), .all] {
            var table = Self.table { _ in }
            table.hold(mark)
            table.hold(mark)
            #expect(refusal(table, 1_000) == .held)
            table.settle(mark, at: LogPosition(50))
            #expect(refusal(table, 1_000) == .held)
            table.settle(mark, at: nil)
            #expect(refusal(table, 1_000) == nil)
            #expect(refusal(table, 49) != nil)
        }
        var table = Self.table { _ in }
        table.hold(.hash(9))
        table.hold(.selection([1]))
        #expect(refusal(table, 1_000) == nil)
    }

    @Test("positions between the two bounds of a fence are rejected as doubtful")
    func doubt() {
        let table = Self.table { $0.doubt(after: LogPosition(20), before: LogPosition(30)) }
        #expect(refusal(table, 20) == nil)
        #expect(refusal(table, 21) == .doubted)
        #expect(refusal(table, 29) == .doubted)
        #expect(refusal(table, 30) == nil)
        #expect(refusal(Self.table { $0.doubt(after: .beginning, before: LogPosition(30)) }, 29) == .belowFloor)
    }

    @Test("entries evicted from the table raise the floor")
    func bounded() {
        var limits = MarkTable.Limits()
        (limits.hashes, limits.selections, limits.doubts) = (8, 2, 2)
        let hashes = Self.table(limits: limits) { table in
            for hash in 100..<112 as Range<UInt64> { table.note(.hash(hash), at: LogPosition(hash)) }
        }
        #expect(hashes.counts.hashes <= 8)
        #expect(refusal(hashes, 103, []) == nil && refusal(hashes, 102, []) == .belowFloor)
        #expect(refusal(hashes, 103, [104]) == .marked)
        let selections = Self.table(limits: limits) { table in
            for name in 1...3 as ClosedRange<UInt8> { table.note(.selection([name]), at: LogPosition(20 + UInt64(name))) }
        }
        #expect(selections.counts.selections == 2)
        #expect(refusal(selections, 20) == .belowFloor && refusal(selections, 21) == nil)
        let doubts = Self.table(limits: limits) { table in
            for at in [20, 30, 40] as [UInt64] { table.doubt(after: LogPosition(at), before: LogPosition(at + 5)) }
        }
        #expect(refusal(doubts, 24) == .belowFloor && refusal(doubts, 28) == nil && refusal(doubts, 44) == .doubted)
    }

    @Test("another epoch clears the table except for marks without a position")
    func newEpoch() {
        var table = Self.table { table in
            table.note(.hash(7), at: LogPosition(90))
            table.hold(.hash(8))
        }
        table.startAnew(epoch: 2, floor: .beginning)
        #expect(refusal(table, 1, epoch: 2, [7]) == nil)
        #expect(refusal(table, 1, epoch: 2, [8]) == .held)
    }
}
