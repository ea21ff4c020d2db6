// Tests of entries that a change of primary has lost. A node that had read them reports the loss; a node that had not counts a gap.

import Testing

@testable import Fleet

@Suite("Entries lost in a change of primary")
struct LossTests {
    private typealias Play = FollowerPlay
    private let info = FollowerPlay.info

    /// The engine returned with its state at 100. A node that had read up to 500 has reported the loss.
    private static func log(lostUpTo: UInt64) -> (LogInfo, [PositionedEntry]) {
        let fence = Fence(at: LogPosition(2_000), doubtedAfter: LogPosition(100))
        let told = Fence(at: LogPosition(2_001), doubtedAfter: LogPosition(2_000), lostUpTo: LogPosition(lostUpTo))
        return (
            FollowerPlay.info(last: 2_001, primary: 2, count: 3, added: 3),
            [FollowerPlay.entry(100), PositionedEntry(fence.position, fence.entry), PositionedEntry(told.position, told.entry)]
        )
    }

    struct Row: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let read: UInt64
        let lostUpTo: UInt64
        let isGap: Bool
        /// Whether a new process counts a gap. It does not know from which primary its persisted position comes.
        let isGapAnew: Bool

        init(_ testDescription: String, read: UInt64, lostUpTo: UInt64, isGap: Bool, isGapAnew: Bool? = nil) {
            (self.testDescription, self.read, self.lostUpTo, self.isGap) = (testDescription, read, lostUpTo, isGap)
            self.isGapAnew = isGapAnew ?? isGap
        }
    }

    private static let rows = [
        Row("disconnected before the first lost entry", read: 100, lostUpTo: 500, isGap: true),
        Row("disconnected after some lost entries", read: 300, lostUpTo: 500, isGap: true),
        Row("has read all lost entries", read: 500, lostUpTo: 500, isGap: false),
        Row("has read more than the node that reported the loss", read: 600, lostUpTo: 500, isGap: false, isGapAnew: true),
    ]

    /// - Parameter isNew: whether a new process of the node meets the primary.
    @Test("a node that had not read all lost entries counts one gap, also after a restart", arguments: rows, [false, true])
    func gap(row: Row, isNew: Bool) {
        var play = Play.upToDate()
        if row.read > 100 { _ = play.when(.entries([Play.entry(row.read, .target, node: 5, 2)])) }
        _ = play.when(.lost)
        if isNew { play = Play(kept: KeptPosition(position: LogPosition(row.read), epoch: 1, primary: [1], added: 2)) }
        let (log, entries) = Self.log(lostUpTo: row.lostUpTo)
        var gaps = 0
        for round in 0..<3 {
            let actions =
                play.when(.connected(log, fleetMilliseconds: 900)) + play.when(.entries(entries))
                + (round == 0 ? play.when(.lost) : play.when(.infoRead(log)))
            gaps += actions.count { $0 == .gap(.lostEntries) }
            #expect(round > 0 || actions.contains(.raiseFloor(LogPosition(row.lostUpTo))), "marks up to the loss are removed")
        }
        #expect(gaps == ((isNew ? row.isGapAnew : row.isGap) ? 1 : 0))
    }

    @Test("a node whose last read entry is missing reports it to the others, until it has read its own report")
    func reportedToOthers() {
        var play = Play.upToDate()
        _ = play.when(.entries([Play.entry(500, .target, node: 5, 2)]))
        _ = play.when(.lost)
        let log = info(100, 1, 2, 100, 1, 1, 0)
        let lost = Fence(at: LogPosition(1_500), doubtedAfter: LogPosition(1_500), lostUpTo: LogPosition(500))
        for _ in 0..<2 {
            // The connection is lost before the report is appended.
            _ = play.when(.connected(log, fleetMilliseconds: nil))
            _ = play.when(.nothingNew)
            #expect(
                play.when(.infoRead(log)).contains { if case .append(let fence) = $0 { fence.lostUpTo == lost.lostUpTo } else { false } })
            #expect(play.when(.applied(report: 100)).allSatisfy { if case .keep(let kept) = $0 { kept.primary == [1] } else { true } })
            _ = play.when(.lost)
        }
        _ = play.when(.connected(log, fleetMilliseconds: nil))
        _ = play.when(.nothingNew)
        _ = play.when(.infoRead(log))
        let actions = play.when(.entries([PositionedEntry(LogPosition(1_501), lost.entry)]))
        #expect(!actions.contains(.gap(.lostEntries)))
        #expect(play.follower.reached?.primary == [2] && play.follower.isUpToDate)
    }

    @Test("a change of primary that loses nothing is not reported")
    func nothingLost() {
        var play = Play.upToDate()
        _ = play.when(.lost)
        let log = info(100, 1, 2, 100, 1, 1, 0)
        _ = play.when(.connected(log, fleetMilliseconds: 900))
        let fence = Fence(at: LogPosition(1_900), doubtedAfter: LogPosition(100))
        _ = play.when(.entries([Play.entry(100), PositionedEntry(fence.position, fence.entry)]))
        #expect(play.when(.infoRead(info(1_900, 1, 2, 100, 2, 2, 0))) == [.upToDate, .report(2)])
    }

    @Test("another entry with the ID of the last read entry counts as a loss")
    func givenAgain() {
        var play = Play.upToDate()
        _ = play.when(.entries([Play.entry(500, .target, node: 5, 2)]))
        _ = play.when(.lost)
        let fence = Fence(at: LogPosition(2_000), doubtedAfter: LogPosition(100))
        let log = info(2_000, 1, 2, 100, 3, 3, 0)
        _ = play.when(.connected(log, fleetMilliseconds: 900))
        _ = play.when(.entries([Play.entry(500, .target, node: 7, 1), PositionedEntry(fence.position, fence.entry)]))
        #expect(
            play.when(.infoRead(log)).contains { if case .append(let fence) = $0 { fence.lostUpTo == LogPosition(500) } else { false } })
    }

    @Test(
        "a lost write that its sender did not repeat stays applied after a restart, whenever the loss was reported",
        arguments: [false, true])
    func restart(isTold: Bool) {
        var fleet = ModelFleet(nodes: 2, keys: 1, replicas: 1)
        func meet(_ node: Int) {
            fleet.connect(node)
            for _ in 0..<3 {
                fleet.read(node)
                fleet.deliver(node)
                fleet.report(node)
                fleet.keep(node)
            }
        }
        for node in 0..<2 { meet(node) }
        fleet.write(0, key: 0)
        fleet.deliver(0)
        for node in 0..<2 { meet(node) }
        fleet.engine.replicate(to: 0)
        fleet.beginFetch(0, key: 0)
        fleet.endFetch(0, 0)
        #expect(fleet.mayTake(1, key: 0))
        fleet.time += 10
        fleet.write(0, key: 0)
        fleet.deliver(0)
        fleet.read(1)
        fleet.report(1)
        fleet.pass(2_000)
        fleet.keep(1)
        #expect(fleet.nodes[1].disk.obeyed == [3])
        fleet.failOver(to: 0, clock: 0)
        if isTold {
            meet(1)
            #expect(fleet.nodes[1].disk.kept?.primary == [2] && fleet.nodes[1].follower.isUpToDate)
        } else {
            fleet.connect(1)
            fleet.read(1)
            fleet.report(1)
            fleet.keep(1)
        }
        fleet.restart(1)
        meet(1)
        fleet.checkTake(1, key: 0)
        #expect(fleet.nodes[1].follower.isUpToDate && !fleet.mayTake(1, key: 0))
        #expect(fleet.violation == nil)
    }
}
