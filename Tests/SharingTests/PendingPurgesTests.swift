// Tests of pending purges: their order and their causes.

import Fleet
import Testing

@testable import Sharing

@Suite("Pending purges")
struct PendingPurgesTests {
    private static let messages = (0..<4).map { PendingMessage(message: LogMessage(.target, argument: [$0])) }
    private static let write = PendingMessage(message: .everythingStale, isWrite: true)

    @Test("pending purges are kept in the order of their requests, and two purges of one target stay separate")
    func order() {
        var pending = PendingPurges()
        for (message, token) in [(2, 3), (0, 1), (1, 2), (1, 2), (0, 4)] as [(Int, UInt64)] { pending.keep(Self.messages[message], token) }
        #expect(pending.all == [0, 1, 2, 0].map { Self.messages[$0] } && pending.messages.count == 3)
        pending.drop([1, 9])
        #expect(pending.all == [1, 2, 0].map { Self.messages[$0] })
        pending.drop([2, 3, 4])
        #expect(pending.all.isEmpty && pending.counts(unreached: [:]).isEmpty)
    }

    @Test("pending purges are counted by cause, and writes are not counted")
    func causes() {
        var pending = PendingPurges()
        for token in 1...3 as ClosedRange<UInt64> { pending.keep(Self.messages[Int(token)], token) }
        for _ in 0..<2 { pending.keep(Self.write, 41) }
        #expect(pending.counts(unreached: [:]) == [.notReplicated: 3])
        #expect(
            pending.counts(unreached: [1: .refused, 2: .notReached, 41: .notReached, 99: .notReached])
                == [.notReached: 1, .refused: 1, .notReplicated: 1])
        pending.drop([41])
        #expect(pending.counts(unreached: [3: .refused]) == [.refused: 1, .notReplicated: 2])
    }
}
