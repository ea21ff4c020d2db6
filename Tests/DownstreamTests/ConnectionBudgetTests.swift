// What all connections together may have, as far as no play shows it.

import Testing

@testable import Downstream

@Suite("Connections of all shards together")
struct ConnectionBudgetTests {
    private let budget = ConnectionBudget(DownstreamSettings())
    private static let crowd = ConnectionBudget.crowd
    private static let heap = ConnectionBudget.heap

    @Test("a crowd leaves memory behind when most of many connections are gone, and then not again")
    func crowd() {
        for _ in 0..<(Self.crowd - 1) { #expect(budget.take()) }
        for _ in 0..<(Self.crowd - 1) { budget.giveBack() }
        #expect(!budget.hasMemoryToReturn(), "too few")
        for _ in 0..<(2 * Self.crowd) { #expect(budget.take()) }
        for _ in 0..<(Self.crowd - 1) { budget.giveBack() }
        #expect(!budget.hasMemoryToReturn(), "most are still there")
        budget.giveBack()
        #expect(budget.hasMemoryToReturn())
        #expect(!budget.hasMemoryToReturn(), "it was returned before")
        for _ in 0..<Self.crowd { budget.giveBack() }
        #expect(budget.hasMemoryToReturn(), "and that of the rest")
    }

    @Test("and so does much that waited to be sent")
    func unsent() {
        #expect(budget.hold(Self.heap - 1) && budget.hold(1 - Self.heap))
        #expect(!budget.hasMemoryToReturn(), "too little")
        #expect(budget.hold(3 * Self.heap) && budget.hold(-Self.heap))
        #expect(!budget.hasMemoryToReturn(), "most is still there")
        #expect(budget.hold(-2 * Self.heap) && budget.hasMemoryToReturn())
        #expect(!budget.hasMemoryToReturn(), "it was returned before")
    }
}
