// Purges that wait to be told, and what of them belongs together.

import Fleet
import Testing

@testable import Sharing

extension PendingPurges {
    fileprivate var count: Int { counts(unreached: [:], reached: .noReplica).values.reduce(0, +) }
}

@Suite("Purges that are pending")
struct PendingPurgesTests {
    private static let messages = (0..<4).map { PendingMessage(message: LogMessage(.target, argument: [$0])) }

    @Test("messages of one purge are one, though another purge was kept between them")
    func overlapping() {
        let (one, other) = (Self.messages[0...1], Self.messages[2...3])
        var pending = PendingPurges()
        for (message, purge, token) in [(one[0], 1, 11), (other[2], 2, 21), (other[3], 2, 22), (one[1], 1, 12)]
            as [(PendingMessage, UInt64, UInt64)]
        {
            pending.keep(message, of: purge, token)
        }
        #expect(pending.count == 2 && pending.purges == [Array(one), Array(other)])
        pending.drop([11])
        #expect(pending.count == 2 && pending.purges == [[one[1]], Array(other)])
        pending.drop([12])
        #expect(pending.count == 1 && pending.purges == [Array(other)])
        for token in [21, 22, 22] as [UInt64] { pending.drop([token]) }
        #expect(pending.count == 0 && pending.purges.isEmpty && pending.messages.isEmpty)
    }

    @Test("two purges of the same target are two")
    func same() {
        var pending = PendingPurges()
        pending.keep(Self.messages[0], of: 1, 1)
        pending.keep(Self.messages[0], of: 2, 2)
        #expect(pending.count == 2 && pending.messages.count == 1)
    }

    @Test("where a message lies in the log is kept in the place of what was known before; a write is no purge")
    func places() {
        var pending = PendingPurges()
        pending.keep(Self.messages[0], of: 1, 1)
        var placed = Self.messages[0]
        placed.place = LogPlace(epoch: 1, primary: [2], position: LogPosition(3))
        pending.keep(placed, of: 1, 1)
        let write = PendingMessage(message: .everythingStale, isWrite: true)
        pending.keep(write, of: 2, 2)
        #expect(pending.count == 1 && pending.purges == [[placed], [write]])
        pending.drop([1, 2])
        #expect(pending.count == 0 && pending.purges.isEmpty)
    }

    @Test("they are counted by why, each once: of the messages of one the worst counts, and a write has none")
    func reasons() {
        var pending = PendingPurges()
        for (message, purge, token) in [(0, 1, 11), (1, 1, 12), (2, 2, 21), (3, 3, 31)] as [(Int, UInt64, UInt64)] {
            pending.keep(Self.messages[message], of: purge, token)
        }
        pending.keep(PendingMessage(message: LogMessage(.target, argument: [9]), isWrite: true), of: 4, 41)
        #expect(pending.counts(unreached: [:], reached: .noReplica) == [.noReplica: 3])
        let causes: [LogWriter.Token: LogWriter.Pending] = [11: .refused, 12: .notReached, 21: .refused, 41: .notReached, 99: .notReached]
        #expect(pending.counts(unreached: causes, reached: .noReplica) == [.notReached: 1, .refused: 1, .noReplica: 1])
        #expect(pending.counts(unreached: [12: .refused], reached: .notReplicated) == [.refused: 1, .notReplicated: 2])
        #expect(PendingPurges().counts(unreached: [:], reached: .noReplica).isEmpty)
    }
}
