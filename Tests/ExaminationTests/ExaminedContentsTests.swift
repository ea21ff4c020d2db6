// Tests of the table of examined contents.

import Testing

@testable import ReverseProxy

@Suite("Table of examined contents")
struct ExaminedContentsTests {
    @Test(
        "most of ten thousand contents are remembered, whatever the distance of their numbers",
        arguments: [1, 8, 64, 4096, 1 << 32] as [UInt64])
    func remembers(distance: UInt64) {
        let table = ExaminedContents()
        let numbers = (1...10_000).map { UInt64($0) * distance }
        for number in numbers { table[number] = ExaminedContents.Entry(number: number, head: number) }
        #expect(numbers.count { table[$0].number == $0 } > 8_000)
        #expect(numbers.allSatisfy { table[$0].number != $0 || table[$0].head == $0 })
    }
}
