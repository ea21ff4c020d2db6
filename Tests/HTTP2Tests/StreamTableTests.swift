import HTTP2
import TestSupport
import Testing

@Suite("Table of streams by number")
struct StreamTableTests {
    @Test("an inserted value is found until its removal, whichever stream numbers collide", arguments: [Int32(2), 32, 64, 2_048])
    func numbers(step: Int32) {
        var table = HTTP2StreamTable<Int32>()
        let numbers = (0..<100).map { 1 + $0 * step }
        for number in numbers { table[number] = -number }
        #expect(table.count == 100)
        #expect(Set(table.values) == Set(numbers.map { -$0 }))
        // Removes every third stream, from the middle outwards, so that others move up.
        let gone = numbers.enumerated().filter { $0.offset % 3 == 0 }.map(\.element).sorted { abs($0 - 50 * step) < abs($1 - 50 * step) }
        for number in gone {
            #expect(table.remove(number) == -number)
            #expect(table.remove(number) == nil)
        }
        for number in numbers { #expect(table[number] == (gone.contains(number) ? nil : -number)) }
        #expect(table.count == 100 - gone.count)
        for number in numbers { table[number] = nil }
        #expect(table.isEmpty && table.values.isEmpty)
    }

    @Test("a stream number has one value")
    func again() {
        var table = HTTP2StreamTable<String>()
        table[7] = "a"
        table[7] = "b"
        #expect(table[7] == "b" && table.count == 1)
        #expect(table[9] == nil)
        #expect(HTTP2StreamTable<String>()[1] == nil)
    }

    @Test("random schedules: the table agrees with a dictionary")
    func random() {
        RandomSchedules.run(20, steps: 1_000) { _ in
            (table: HTTP2StreamTable<Int>(), truth: [Int32: Int]())
        } step: { world, random in
            let (number, value) = (Int32(random.below(200)) * 16 + 1, random.below(1_000))
            if random.isTrue() {
                (world.table[number], world.truth[number]) = (value, value)
            } else {
                try demand(world.table.remove(number) == world.truth.removeValue(forKey: number))
            }
            try demand(world.table.count == world.truth.count)
            let looked = Int32(random.below(200)) * 16 + 1
            try demand(world.table[looked] == world.truth[looked], "\(looked)")
        }
    }
}
