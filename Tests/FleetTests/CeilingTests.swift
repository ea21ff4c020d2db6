// Tests how often the position is persisted, and the upper bound of the positions that records carry until then.

import Testing

@testable import Fleet

@Suite("The ceiling of positions")
struct CeilingTests {
    private typealias Play = FollowerPlay
    private let info = FollowerPlay.info
    private let entry = FollowerPlay.entry

    @Test("a position is kept every two seconds; meanwhile records carry read positions up to the ceiling on disk")
    func ceiling() {
        var play = Play()
        _ = play.when(.connected(info(100, 1, 1, 100, 1, 1, 0), fleetMilliseconds: nil))
        _ = play.when(.entries([entry(100, .target, 5, 1)]))
        _ = play.when(.infoRead(info(100, 1, 1, 100, 1, 1, 0)))
        #expect(play.when(.applied(report: 1), at: 1_000) == [.keep(Play.kept(100, added: 1))])
        #expect(play.when(.entries([entry(200, .target, 5, 2)]), at: 1_010).contains(.report(2)))
        #expect(play.follower.version == nil)
        _ = play.when(.kept(Play.kept(100, added: 1)))
        #expect(play.follower.version?.position == LogPosition(200), "the entry was read and is below the ceiling")
        #expect(play.when(.applied(report: 2), at: 1_020) == [])
        _ = play.when(.nothingNew, at: 2_000)
        #expect(play.when(.tick, at: 2_010) == [])
        _ = play.when(.nothingNew, at: 2_900)
        #expect(play.when(.tick, at: 3_000).contains(.keep(Play.kept(200, added: 2))))
        // Records carry no position above the ceiling until a higher one is on the disk.
        #expect(play.when(.entries([entry(10_300, .target, 5, 3)]), at: 3_010).contains(.report(3)))
        #expect(play.follower.version?.position == LogPosition(10_100))
        _ = play.when(.kept(Play.kept(200, added: 2)), at: 3_020)
        #expect(play.follower.version?.position == LogPosition(10_200))
        #expect(play.when(.applied(report: 3), at: 3_030) == [.keep(Play.kept(10_300, added: 3))], "at once")
        _ = play.when(.kept(Play.kept(10_300, added: 3)), at: 3_040)
        #expect(play.follower.version?.position == LogPosition(10_300))
        #expect(play.follower.lastToKeep(now: 3_050) == nil)
        _ = play.when(.entries([entry(10_400, .target, 5, 4)]), at: 3_060)
        #expect(play.when(.applied(report: 4), at: 3_070) == [])
        #expect(play.follower.lastToKeep(now: 3_080) == Play.kept(10_400, added: 4))
    }

    @Test("a restart at the same primary continues; at another one it appends a fence above all earlier record positions")
    func formerCeiling() {
        let kept = Play.kept(100, added: 1, read: 5_000)
        var same = Play(kept: kept)
        #expect(
            same.when(.connected(info(3_000, 1, 1, 100, 2, 2, 0), fleetMilliseconds: nil)).suffix(2) == [
                .mayAppend(fence: nil, isNewPrimary: false), .readFrom(.beginning),
            ])
        var other = Play(kept: kept)
        let actions = other.when(.connected(info(3_000, 1, 2, 100, 2, 2, 0), fleetMilliseconds: nil))
        let fence = Fence(at: LogPosition(16_000), doubtedAfter: LogPosition(3_000))
        #expect(actions.contains(.mayAppend(fence: fence, isNewPrimary: true)), "\(actions)")
        #expect(actions.contains(.raiseFloor(LogPosition(15_000))), "applied entries that were not persisted may be lost")
        // The log of the unchanged primary bounds the positions as well.
        _ = same.when(.lost)
        let later = same.when(.connected(info(2_000, 1, 2, 100, 2, 2, 0), fleetMilliseconds: nil))
        #expect(later.contains(.raiseFloor(LogPosition(3_000))), "\(later)")
    }
}
