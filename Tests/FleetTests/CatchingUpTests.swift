// Tests of a node that catches up with a long log: how far it reads ahead, and where the next process continues.

import Testing

@testable import Fleet

@Suite("Catching up with a long log")
struct CatchingUpTests {
    private typealias Play = FollowerPlay
    private let info = FollowerPlay.info
    private let entry = FollowerPlay.entry

    private static func limits(_ change: (inout LogFollower.Limits) -> Void) -> LogFollower.Limits {
        var limits = LogFollower.Limits()
        change(&limits)
        return limits
    }

    /// Was disconnected since 100. Ten entries of another node are unread, 100 ms apart.
    private func behind(_ limits: LogFollower.Limits, removed: UInt64 = 0) -> (play: FollowerPlay, log: LogInfo) {
        var play = Play(kept: KeptPosition(position: LogPosition(100), epoch: 1, primary: [1], added: 1), limits: limits)
        let log = info(1_100, 1, 1, 100, 11, 11, 0)
        _ = play.when(.connected(log, fleetMilliseconds: nil))
        _ = play.when(.entries([entry(100, .target, 4, 1)]))
        return (play, log)
    }

    private func entries(_ numbers: ClosedRange<UInt64>) -> [PositionedEntry] { numbers.map { entry(100 + 100 * $0, .target, 5, $0) } }

    private func kept(_ position: UInt64, added: UInt64?) -> KeptPosition {
        KeptPosition(position: LogPosition(position), epoch: 1, primary: [1], added: added)
    }

    @Test("reading ahead of unapplied entries is bounded, and resumes when they are applied")
    func readAhead() {
        // An entry counts as 128 bytes.
        var (play, _) = behind(Self.limits { ($0.portionBytes, $0.aheadBytes) = (250, 400) })
        #expect(play.when(.entries(entries(1...1))).suffix(1) == [.readFrom(LogPosition(200))])
        #expect(play.when(.entries(entries(2...2))).suffix(2) == [.report(1), .readFrom(LogPosition(300))])
        #expect(play.when(.entries(entries(3...3))).suffix(1) == [.readFrom(LogPosition(400))])
        #expect(
            play.when(.entries(entries(4...4))) == [.apply(entry(500, .target, 5, 4)), .report(2)],
            "four entries are pending: no further read")
        #expect(play.when(.applied(report: 1)) == [.readFrom(LogPosition(500))], "the position is not persisted")
        #expect(play.follower.kept == kept(100, added: 1))
    }

    @Test("with the smallest limits, one batch at a time is read and applied, and all are kept in the end")
    func portions() {
        var (play, log) = behind(Self.limits { ($0.portionBytes, $0.aheadBytes) = (1, 1) })
        for number in 1...9 as ClosedRange<UInt64> {
            #expect(play.when(.entries(entries(number...number))).last == .report(number))
            #expect(play.when(.applied(report: number)) == [.readFrom(LogPosition(100 + 100 * number))])
        }
        #expect(play.when(.entries(entries(10...10))).suffix(2) == [.readInfo, .report(10)])
        #expect(play.when(.infoRead(log)) == [.upToDate, .report(11)])
        #expect(play.when(.applied(report: 11)).first == .keep(FollowerPlay.kept(1_100, added: 11)))
    }

    @Test("a node waiting for its store still monitors the Redis server, and does not take the delay for a suspension")
    func slowStore() {
        var (play, log) = behind(Self.limits { ($0.portionBytes, $0.aheadBytes) = (1, 1) })
        _ = play.when(.engineTime(1_000))
        #expect(play.when(.entries(entries(1...1))).last == .report(1))
        for round in 0..<10 {
            #expect(play.when(.tick, at: play.now + 600) == [.readInfo])
            #expect(play.when(.infoRead(log)) == (round == 0 ? [.report(2)] : []), "the log is read completely")
        }
        #expect(play.when(.applied(report: 1)) == [.readFrom(LogPosition(200))])
        #expect(play.when(.engineTime(8_000)) == [])
        #expect(play.when(.tick, at: play.now + 600) == [], "no action is pending")
    }

    @Test("the position is kept while catching up if nothing unread was trimmed, and the next process continues there")
    func entriesSinceInfo() {
        var (play, log) = behind(Self.limits { $0.entriesPerInfo = 4 })
        #expect(play.when(.entries(entries(1...3))).last == .readFrom(LogPosition(400)))
        #expect(play.when(.entries(entries(4...5))).suffix(2) == [.readInfo, .readFrom(LogPosition(600))])
        #expect(play.when(.infoRead(log)) == [.report(1)])
        #expect(play.when(.applied(report: 1)) == [.keep(FollowerPlay.kept(600, added: 6))])
        #expect(play.follower.version == nil, "the node is not connected to the log")
        var next = Play(kept: kept(600, added: 6))
        #expect(
            next.when(.connected(log, fleetMilliseconds: nil)) == [
                .startAnew(epoch: 1, floor: .beginning), .mayAppend(fence: nil, isNewPrimary: false), .readFrom(.beginning),
            ])
        let actions = next.when(.entries([entry(100, .target, 4, 1)] + entries(1...10)))
        #expect(actions.filter { if case .apply = $0 { true } else { false } } == entries(6...10).map { .apply($0) })
    }

    @Test("trimming that overtakes the reader is one gap, and the position is kept without a count")
    func passed() {
        var (play, _) = behind(Self.limits { $0.entriesPerInfo = 2 })
        #expect(play.when(.entries(entries(1...2))).suffix(2) == [.readInfo, .readFrom(LogPosition(300))])
        // The first four entries were removed; two of them had been read.
        let trimmed = info(1_100, 1, 1, 600, 6, 11, 0)
        #expect(play.when(.infoRead(trimmed)) == [.raiseFloor(LogPosition(599, .max)), .gap(.trimmed), .report(1)])
        #expect(play.when(.applied(report: 1)) == [.keep(FollowerPlay.kept(300, added: nil))])
        // These are from a third node, so removed entries of the second node are also missing.
        let rest = (1...6).map { entry(500 + 100 * $0, .target, 6, $0) }
        #expect(play.when(.entries(Array(rest[..<2]))).suffix(2) == [.readInfo, .readFrom(LogPosition(700))])
        #expect(play.when(.infoRead(trimmed)) == [.report(2)])
        #expect(play.when(.entries(Array(rest[2...]))).suffix(2) == [.readInfo, .readFrom(LogPosition(1_100))])
        #expect(play.when(.infoRead(trimmed)) == [.upToDate, .report(3)])
        #expect(play.when(.applied(report: 3)).isEmpty, "too soon after the last persisted position")
        #expect(
            play.follower.lastToKeep(now: play.now) == FollowerPlay.kept(1_100, added: 11),
            "the whole log was read: the position is known again")
    }

    @Test("while an entry is missing, no position is kept, because the next process would ignore the gap")
    func missing() {
        var (play, log) = behind(Self.limits { $0.entriesPerInfo = 2 })
        #expect(play.when(.entries(entries(1...1) + entries(3...3))).contains(.readInfo))
        #expect(play.when(.infoRead(log)) == [])
        // The missing entry arrives later, because its sender repeated it.
        #expect(play.when(.entries([entry(500, .target, 5, 2), entry(600, .target, 5, 4)])).contains(.readInfo))
        #expect(play.when(.infoRead(log)) == [.report(1)])
    }

    @Test("an entry that was missing before the process started does not delay keeping the position")
    func missingBefore() {
        var play = Play(kept: kept(300, added: 3), limits: Self.limits { $0.entriesPerInfo = 2 })
        let log = info(1_100, 1, 1, 200, 9, 9, 0)
        _ = play.when(.connected(log, fleetMilliseconds: nil))
        _ = play.when(.entries(entries(1...1) + [entry(300, .target, 5, 3)]))
        #expect(play.when(.entries([entry(400, .target, 5, 4), entry(500, .target, 5, 5)])).contains(.readInfo))
        #expect(play.when(.infoRead(log)) == [.report(1)])
    }

    @Test("for another log, the count starts with its trimmed entries, so a later process sees no gap")
    func otherLog() {
        var play = Play(kept: kept(9_000, added: 9), limits: Self.limits { $0.entriesPerInfo = 2 })
        let log = info(1_100, 2, 1, 200, 10, 510, 0)
        #expect(play.when(.connected(log, fleetMilliseconds: nil)).contains(.gap(.epoch)))
        #expect(play.when(.entries(entries(1...2))).contains(.readInfo))
        #expect(play.when(.infoRead(log)) == [.report(1)])
        guard case .keep(let middle)? = play.when(.applied(report: 1)).first else {
            Issue.record("no position is persisted")
            return
        }
        #expect(middle.position == LogPosition(300) && middle.epoch == 2 && middle.added == 502)
        var next = Play(kept: middle)
        #expect(!next.when(.connected(log, fleetMilliseconds: nil)).contains { if case .gap = $0 { true } else { false } })
    }
}
