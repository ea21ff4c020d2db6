// Tests how many entries of the log are requested at a time.

import Testing

@testable import Fleet

@Suite("Number of log entries per read")
struct ReadCountTests {
    @Test("the count is halved after each oversized reply, down to one")
    func tooMuch() {
        var read = ReadCount()
        var counts: [Int] = [read.count]
        for _ in 0..<10 {
            read.failed(.tooMuch)
            counts.append(read.count)
        }
        #expect(counts == [256, 128, 64, 32, 16, 8, 4, 2, 1, 1, 1])
    }

    @Test("late replies reduce the count only to 32, and leave smaller counts unchanged")
    func late() {
        var read = ReadCount()
        for _ in 0..<10 { read.failed(.late) }
        #expect(read.count == 32)
        for _ in 0..<3 { read.failed(.tooMuch) }
        read.failed(.late)
        #expect(read.count == 4)
    }

    @Test("the count grows slowly, and only after the whole log was read, to avoid a repeated failure at the same entry")
    func grows() {
        var read = ReadCount()
        for _ in 0..<8 { read.failed(.tooMuch) }
        for _ in 0..<100 { read.came(isUpToDate: false) }
        #expect(read.count == 1)
        read.came(isUpToDate: true)
        #expect(read.count == 2)
        var rounds = 1
        while read.count < 256 {
            read.came(isUpToDate: true)
            rounds += 1
        }
        #expect((20...60).contains(rounds), "\(rounds)")
        read.came(isUpToDate: true)
        #expect(read.count == 256)
    }
}
