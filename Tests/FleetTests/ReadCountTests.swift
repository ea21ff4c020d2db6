// Tests how many entries of the log are requested at a time.

import Testing

@testable import Fleet

@Suite("How many entries are asked for")
struct ReadCountTests {
    @Test("half after each reply that was too much, down to one")
    func tooMuch() {
        var read = ReadCount()
        var counts: [Int] = [read.count]
        for _ in 0..<10 {
            read.failed(.tooMuch)
            counts.append(read.count)
        }
        #expect(counts == [256, 128, 64, 32, 16, 8, 4, 2, 1, 1, 1])
    }

    @Test("what is late is not cut into small pieces, and what is small already stays so")
    func late() {
        var read = ReadCount()
        for _ in 0..<10 { read.failed(.late) }
        #expect(read.count == 32)
        for _ in 0..<3 { read.failed(.tooMuch) }
        read.failed(.late)
        #expect(read.count == 4)
    }

    @Test("it grows slowly again, and only when all was read: else the same place would be come to in the same way")
    func grows() {
        var read = ReadCount()
        for _ in 0..<8 { read.failed(.tooMuch) }
        for _ in 0..<100 { read.came(isSeeing: false) }
        #expect(read.count == 1)
        read.came(isSeeing: true)
        #expect(read.count == 2)
        var rounds = 1
        while read.count < 256 {
            read.came(isSeeing: true)
            rounds += 1
        }
        #expect((20...60).contains(rounds), "\(rounds)")
        read.came(isSeeing: true)
        #expect(read.count == 256)
    }
}
