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

    private func entries(_ numbers: ClosedRange<UInt64>) -> [PlacedEntry] { numbers.map { entry(100 + 100 * $0, .target, 5, $0) } }

    private func kept(_ position: UInt64, added: UInt64?) -> KeptPosition {
        KeptPosition(position: LogPosition(position), epoch: 1, primary: [1], added: added)
    }

    @Test("what is read ahead of what is obeyed is bounded, and goes on when that is done")
    func readAhead() {
        // An entry counts as 128 bytes.
        var (play, _) = behind(Self.limits { ($0.portionBytes, $0.aheadBytes) = (250, 400) })
        #expect(play.when(.entries(entries(1...1))).suffix(1) == [.readFrom(LogPosition(200))])
        #expect(play.when(.entries(entries(2...2))).suffix(2) == [.report(1), .readFrom(LogPosition(300))])
        #expect(play.when(.entries(entries(3...3))).suffix(1) == [.readFrom(LogPosition(400))])
        #expect(play.when(.entries(entries(4...4))) == [.apply(entry(500, .target, 5, 4)), .report(2)], "four wait: no more is asked for")
        #expect(play.when(.applied(report: 1)) == [.readFrom(LogPosition(500))], "nothing is kept by it")
        #expect(play.follower.kept == kept(100, added: 1))
    }

    @Test("one portion at a time is read and obeyed, however small it is, and all of it is kept in the end")
    func portions() {
        var (play, log) = behind(Self.limits { ($0.portionBytes, $0.aheadBytes) = (1, 1) })
        for number in 1...9 as ClosedRange<UInt64> {
            #expect(play.when(.entries(entries(number...number))).last == .report(number))
            #expect(play.when(.applied(report: number)) == [.readFrom(LogPosition(100 + 100 * number))])
        }
        #expect(play.when(.entries(entries(10...10))).suffix(2) == [.look, .report(10)])
        #expect(play.when(.looked(log)) == [.seeing, .report(11)])
        #expect(play.when(.applied(report: 11)).first == .keep(FollowerPlay.kept(1_100, added: 11)))
    }

    @Test("who waits for the store hears of the engine all the same, and takes the time that has passed for no stop of its own")
    func slowStore() {
        var (play, log) = behind(Self.limits { ($0.portionBytes, $0.aheadBytes) = (1, 1) })
        _ = play.when(.engineTime(1_000))
        #expect(play.when(.entries(entries(1...1))).last == .report(1))
        for round in 0..<10 {
            #expect(play.when(.tick, at: play.now + 600) == [.look])
            #expect(play.when(.looked(log)) == (round == 0 ? [.report(2)] : []), "what was read is whole")
        }
        #expect(play.when(.applied(report: 1)) == [.readFrom(LogPosition(200))])
        #expect(play.when(.engineTime(8_000)) == [])
        #expect(play.when(.tick, at: play.now + 600) == [], "nothing is owed")
    }

    @Test("on the way the log is looked at, and where nothing was removed unread the next process goes on from there")
    func onTheWay() {
        var (play, log) = behind(Self.limits { $0.entriesOnTheWay = 4 })
        #expect(play.when(.entries(entries(1...3))).last == .readFrom(LogPosition(400)))
        #expect(play.when(.entries(entries(4...5))).suffix(2) == [.look, .readFrom(LogPosition(600))])
        #expect(play.when(.looked(log)) == [.report(1)])
        #expect(play.when(.applied(report: 1)) == [.keep(FollowerPlay.kept(600, added: 6))])
        #expect(play.follower.version == nil, "it does not see")
        var next = Play(kept: kept(600, added: 6))
        #expect(
            next.when(.connected(log, fleetMilliseconds: nil)) == [
                .startAnew(epoch: 1, floor: .beginning), .mayAppend(fence: nil, isNewPrimary: false), .readFrom(.beginning),
            ])
        let actions = next.when(.entries([entry(100, .target, 4, 1)] + entries(1...10)))
        #expect(actions.filter { if case .apply = $0 { true } else { false } } == entries(6...10).map { .apply($0) })
    }

    @Test("trimming that passes who reads is a gap once, and the position after it is kept with no count")
    func passed() {
        var (play, _) = behind(Self.limits { $0.entriesOnTheWay = 2 })
        #expect(play.when(.entries(entries(1...2))).suffix(2) == [.look, .readFrom(LogPosition(300))])
        // The first four entries were removed; two of them had been read.
        let trimmed = info(1_100, 1, 1, 600, 6, 11, 0)
        #expect(play.when(.looked(trimmed)) == [.raiseFloor(LogPosition(599, .max)), .gap(.trimmed), .report(1)])
        #expect(play.when(.applied(report: 1)) == [.keep(FollowerPlay.kept(300, added: nil))])
        // These are from a third node, so removed entries of the second node are also missing.
        let rest = (1...6).map { entry(500 + 100 * $0, .target, 6, $0) }
        #expect(play.when(.entries(Array(rest[..<2]))).suffix(2) == [.look, .readFrom(LogPosition(700))])
        #expect(play.when(.looked(trimmed)) == [.report(2)])
        #expect(play.when(.entries(Array(rest[2...]))).suffix(2) == [.look, .readFrom(LogPosition(1_100))])
        #expect(play.when(.looked(trimmed)) == [.seeing, .report(3)])
        #expect(play.when(.applied(report: 3)).isEmpty, "not as soon after the last")
        #expect(play.follower.lastToKeep(now: play.now) == FollowerPlay.kept(1_100, added: 11), "all was read: it is known again")
    }

    @Test("where something is missing nothing is kept on the way: the next process would take it for its past")
    func missing() {
        var (play, log) = behind(Self.limits { $0.entriesOnTheWay = 2 })
        #expect(play.when(.entries(entries(1...1) + entries(3...3))).contains(.look))
        #expect(play.when(.looked(log)) == [])
        // The missing entry arrives later, because its sender repeated it.
        #expect(play.when(.entries([entry(500, .target, 5, 2), entry(600, .target, 5, 4)])).contains(.look))
        #expect(play.when(.looked(log)) == [.report(1)])
    }

    @Test("what was missing before the process began holds nothing up")
    func missingBefore() {
        var play = Play(kept: kept(300, added: 3), limits: Self.limits { $0.entriesOnTheWay = 2 })
        let log = info(1_100, 1, 1, 200, 9, 9, 0)
        _ = play.when(.connected(log, fleetMilliseconds: nil))
        _ = play.when(.entries(entries(1...1) + [entry(300, .target, 5, 3)]))
        #expect(play.when(.entries([entry(400, .target, 5, 4), entry(500, .target, 5, 5)])).contains(.look))
        #expect(play.when(.looked(log)) == [.report(1)])
    }

    @Test("of another log the count begins with what was removed from it, so a process that goes on from the way sees no gap")
    func otherLog() {
        var play = Play(kept: kept(9_000, added: 9), limits: Self.limits { $0.entriesOnTheWay = 2 })
        let log = info(1_100, 2, 1, 200, 10, 510, 0)
        #expect(play.when(.connected(log, fleetMilliseconds: nil)).contains(.gap(.epoch)))
        #expect(play.when(.entries(entries(1...2))).contains(.look))
        #expect(play.when(.looked(log)) == [.report(1)])
        guard case .keep(let middle)? = play.when(.applied(report: 1)).first else {
            Issue.record("nothing is kept")
            return
        }
        #expect(middle.position == LogPosition(300) && middle.epoch == 2 && middle.added == 502)
        var next = Play(kept: middle)
        #expect(!next.when(.connected(log, fleetMilliseconds: nil)).contains { if case .gap = $0 { true } else { false } })
    }
}
