// Tests of the state machine that follows the log: lists of events and expected actions.

import Testing

@testable import Fleet

/// Passes events to a follower, 100 ms apart by default.
struct FollowerPlay {
    var follower: LogFollower
    var now: Int64 = 0

    static let node: UInt64 = 99

    init(kept: KeptPosition? = nil, limits: LogFollower.Limits = .init()) {
        follower = LogFollower(node: Self.node, kept: kept, now: 0, limits: limits)
    }

    /// A node in sync that has read everything up to 100.
    static func upToDate(limits: LogFollower.Limits = .init()) -> FollowerPlay {
        var play = FollowerPlay(kept: KeptPosition(position: LogPosition(100), epoch: 1, primary: [1], added: 1), limits: limits)
        _ = play.when(.connected(info(last: 100), fleetMilliseconds: nil))
        _ = play.when(.entries([entry(100)]))
        _ = play.when(.infoRead(info(last: 100)))
        return play
    }

    static func info(
        last: UInt64, epoch: UInt64 = 1, primary: UInt8 = 1, first: UInt64? = 100, count: UInt64 = 1, added: UInt64 = 1,
        lastDeleted: UInt64 = 0
    ) -> LogInfo {
        LogInfo(
            epoch: epoch, primary: [primary], last: LogPosition(last), first: first.map { LogPosition($0) },
            lastDeleted: LogPosition(lastDeleted),
            count: count, added: added)
    }

    /// - Parameter read: position up to which the log was read when it was persisted.
    static func kept(_ position: UInt64, added: UInt64?, read: UInt64? = nil) -> KeptPosition {
        var kept = KeptPosition(position: LogPosition(position), epoch: 1, primary: [1], added: added)
        kept.ceiling = LogPosition((read ?? position) + 10_000)
        return kept
    }

    static func entry(_ position: UInt64, _ kind: LogMessage.Kind = .target, node: UInt64 = 5, _ sequence: UInt64 = 1) -> PositionedEntry {
        PositionedEntry(LogPosition(position), LogEntry(LogMessage(kind), origin: LogOrigin(node: node, sequence: sequence)))
    }

    mutating func when(_ event: LogFollower.Event, at time: Int64? = nil) -> [LogFollower.Action] {
        now = time ?? now + 100
        return follower.handle(event, now: now)
    }
}

@Suite("Following the fleet log")
struct FollowerTests {
    private typealias Play = FollowerPlay
    private let info = FollowerPlay.info
    private let entry = FollowerPlay.entry

    @Test("a new node reads the log from the beginning, applies all entries, and connects after checking for trimming")
    func new() {
        var play = Play()
        #expect(play.follower.version == nil)
        let log = info(200, 1, 1, 100, 2, 2, 0)
        #expect(
            play.when(.connected(log, fleetMilliseconds: nil)) == [
                .startAnew(epoch: 1, floor: .beginning), .gap(.neverFollowed), .mayAppend(fence: nil, isNewPrimary: false),
                .readFrom(.beginning),
            ])
        #expect(play.when(.entries([entry(100, .target, 5, 1)])) == [.apply(entry(100, .target, 5, 1)), .readFrom(LogPosition(100))])
        #expect(
            play.when(.entries([entry(200, .all, 5, 2)])) == [.apply(entry(200, .all, 5, 2)), .readInfo, .readFrom(LogPosition(200))])
        #expect(!play.follower.isUpToDate)
        #expect(play.when(.infoRead(log)) == [.upToDate, .report(1)])
        #expect(play.follower.isUpToDate && play.follower.version == nil, "not yet persisted")
        let kept = Play.kept(200, added: 2)
        #expect(play.when(.applied(report: 1)) == [.keep(kept)])
        #expect(play.follower.version == nil, "not yet on disk")
        #expect(play.when(.kept(kept)) == [])
        #expect(play.follower.version == RecordVersion(epoch: 1, position: LogPosition(200)))
    }

    @Test("a restarted node only notes entries applied before, applies newer ones, and only notes its own")
    func again() {
        var play = Play(kept: KeptPosition(position: LogPosition(100), epoch: 1, primary: [1], added: 1))
        let log = info(300, 1, 1, 100, 3, 3, 0)
        _ = play.when(.connected(log, fleetMilliseconds: nil))
        let own = entry(300, .target, Play.node, 1)
        #expect(
            play.when(.entries([entry(100, .target, 5, 1), entry(200, .target, 5, 2), own])) == [
                .note(entry(100, .target, 5, 1)), .apply(entry(200, .target, 5, 2)), .note(own), .readInfo, .readFrom(LogPosition(300)),
            ])
    }

    @Test("a connection lost before the mark table was filled leaves it empty, and the next one starts at the beginning")
    func lostWhileFilling() {
        let log = info(300, 1, 1, 100, 3, 3, 0)
        let entries = [entry(100, .target, 5, 1), entry(200, .target, 5, 2), entry(300, .target, 5, 4)]
        for count in 0...3 {
            var play = Play(kept: KeptPosition(position: LogPosition(100), epoch: 1, primary: [1], added: 1))
            _ = play.when(.connected(log, fleetMilliseconds: nil))
            if count > 0 { _ = play.when(.entries(Array(entries.prefix(count)))) }
            _ = play.when(.lost)
            let actions = play.when(.connected(log, fleetMilliseconds: nil))
            #expect(actions.first == .startAnew(epoch: 1, floor: .beginning) && actions.last == .readFrom(.beginning))
            // Entries that were already applied are only noted.
            let again = play.when(.entries(entries))
            for (index, one) in entries.enumerated() {
                #expect(again.contains(index < max(1, count) ? .note(one) : .apply(one)), "\(count): \(index)")
            }
            // The missing entry belongs to this process's time, not to the past: it was missing only after the process began.
            _ = play.when(.infoRead(log))
            let end = play.now + 2_000
            _ = play.when(.nothingNew, at: end - 1_000)
            #expect(play.when(.tick, at: end).contains(.gap(.lostEntries)))
        }
    }

    @Test("a repeated entry is applied once; greetings and fences are not applied")
    func repeated() {
        var play = Play.upToDate()
        let fence = Fence(at: LogPosition(300), doubtedAfter: LogPosition(150))
        #expect(
            play.when(
                .entries([
                    entry(200, .target, 5, 2), entry(210, .target, 5, 2), entry(220, .target, 5, 1), entry(230, .hello, 5, 3),
                    PositionedEntry(LogPosition(300), fence.entry),
                ])) == [
                    .apply(entry(200, .target, 5, 2)), .doubt(after: LogPosition(150), before: LogPosition(300)), .report(2),
                    .readFrom(LogPosition(300)),
                ])
        #expect(
            play.when(.entries([entry(300, .target, 5, 9), entry(250, .target, 5, 8)])) == [.readFrom(LogPosition(300))],
            "the entry is not after the last one")
    }

    @Test("after 1.5 seconds without a reply the node is disconnected from the log and requests another connection")
    func silence() {
        var play = Play.upToDate()
        let last = play.now
        #expect(play.when(.tick, at: last + 1_500) == [])
        #expect(play.when(.tick, at: last + 1_501) == [.disconnected(since: last, .silence), .reconnect])
        #expect(play.follower.version == nil && play.when(.nothingNew) == [] && play.when(.lost) == [])
        #expect(
            play.when(.connected(info(100, 1, 1, 100, 1, 1, 0), fleetMilliseconds: nil)) == [
                .mayAppend(fence: nil, isNewPrimary: false), .readFrom(LogPosition(100)),
            ])
        #expect(play.when(.nothingNew) == [.readInfo, .readFrom(LogPosition(100))])
        #expect(play.when(.infoRead(info(100, 1, 1, 100, 1, 1, 0))) == [.upToDate])
    }

    @Test("another epoch is a gap, whether it is seen at connection or while reading")
    func epoch() {
        var play = Play.upToDate()
        #expect(play.when(.epoch(1)) == [])
        #expect(play.when(.epoch(nil)) == [.disconnected(since: play.now, .otherLog), .reconnect])
        let log = info(50, 2, 1, 50, 1, 1, 0)
        #expect(
            play.when(.connected(log, fleetMilliseconds: 1_000)) == [
                .startAnew(epoch: 2, floor: .beginning), .gap(.epoch), .mayAppend(fence: nil, isNewPrimary: true), .readFrom(.beginning),
            ])
    }

    @Test("an entry that is repeated in a new log is not applied again, and one that was not read before is")
    func repeatedInNewLog() {
        var play = Play.upToDate()
        _ = play.when(.entries([entry(101, .target, 5, 2)]))
        _ = play.when(.epoch(nil))
        _ = play.when(.connected(info(0, 2, 1, nil, 0, 0, 0), fleetMilliseconds: nil))
        let repeated = [entry(50, .target, 5, 2), entry(51, .target, 5, 3), entry(52, .target, 6, 2)]
        #expect(
            play.when(.entries(repeated)).prefix(3) == [.note(repeated[0]), .apply(repeated[1]), .apply(repeated[2])])
    }

    @Test("a log that returns after a replacement gets a new epoch, also in a later process that read the kept position")
    func epochIsBack() {
        var play = Play.upToDate()
        _ = play.when(.epoch(2))
        _ = play.when(.connected(info(50, 2, 1, 50, 1, 1, 0), fleetMilliseconds: nil))
        _ = play.when(.entries([entry(50, .target, 5, 1)]))
        _ = play.when(.infoRead(info(50, 2, 1, 50, 1, 1, 0)))
        guard case .keep(let kept) = play.when(.applied(report: 2)).first else {
            Issue.record("no position is persisted")
            return
        }
        #expect(kept.epoch == 2 && kept.formerEpochs == [1])
        let back = info(100, 1, 2, 100, 1, 1, 0)
        #expect(play.when(.connected(back, fleetMilliseconds: nil)) == [.disconnected(since: play.now, .lost), .renewEpoch, .reconnect])
        #expect(!play.follower.isUpToDate && play.follower.version == nil)
        var next = Play(kept: KeptPosition(bytes: kept.bytes))
        #expect(next.when(.connected(back, fleetMilliseconds: nil)) == [.renewEpoch, .reconnect])
        #expect(next.when(.connected(info(100, 3, 2, 100, 1, 1, 0), fleetMilliseconds: nil)).contains(.gap(.epoch)))
    }

    @Test("a reply that arrived while the process was suspended is discarded, and the log is read again")
    func stopped() {
        let events: [LogFollower.Event] = [
            .entries([entry(300, .target, 5, 9)]), .nothingNew, .engineTime(1), .epoch(1), .infoRead(Play.info(last: 100)),
        ]
        for event in events {
            var play = Play.upToDate()
            let since = play.now
            #expect(play.follower.connectedUntil == since + 1_500)
            #expect(!play.when(event, at: since + 1_500).contains(.reconnect))
            play = Play.upToDate()
            #expect(play.when(event, at: since + 1_501) == [.disconnected(since: since, .stopped), .reconnect])
            #expect(play.follower.connectedUntil == nil)
        }
    }

    @Test("a late tick of the process's own clock is reported as a suspension, not as silence of Redis")
    func stoppedBetweenTicks() {
        var play = Play.upToDate()
        let last = play.now
        #expect(play.when(.tick) == [])
        #expect(play.when(.tick, at: last + 1_700) == [.disconnected(since: last, .stopped), .reconnect])
    }

    @Test("time that passed at Redis but not locally is reported as a suspension of the machine")
    func engineTime() {
        var play = Play.upToDate()
        for time in [5_000, 5_000, 6_000, 9_000, 8_000, 11_000] as [UInt64] { #expect(play.when(.engineTime(time)) == []) }
        #expect(play.when(.engineTime(14_001)) == [.disconnected(since: play.now, .stopped), .reconnect])
        // Times of the former connection do not count any more.
        _ = play.when(.connected(Play.info(last: 100), fleetMilliseconds: nil))
        #expect(play.when(.engineTime(99_000)) == [])
    }

    @Test("a log with fewer entries than were read counts as removed", arguments: [(50, 1), (100, 0)] as [(UInt64, UInt64)])
    func removed(last: UInt64, added: UInt64) {
        var play = Play.upToDate()
        #expect(
            play.when(.infoRead(Play.info(last: last, count: added, added: added))) == [
                .disconnected(since: play.now, .removed), .reconnect,
            ])
    }

    @Test("a log that reached its last IDs and was reset gets a new epoch, because no fence can exceed them")
    func lastIds() {
        for (last, isRenewed) in [(LogPosition(.max, 3), true), (LogPosition(.max - 500, 3), false)] {
            var play = Play.upToDate()
            _ = play.when(.entries([PositionedEntry(last, LogEntry.unopened)]))
            _ = play.when(.lost)
            let actions = play.when(.connected(Play.info(last: 100), fleetMilliseconds: nil))
            #expect((actions == [.renewEpoch, .reconnect]) == isRenewed)
            // A log that has not gone back stays valid.
            play = Play.upToDate()
            _ = play.when(.entries([PositionedEntry(last, LogEntry.unopened)]))
            _ = play.when(.lost)
            let same = LogInfo(epoch: 1, primary: [1], last: last, first: LogPosition(100), lastDeleted: .beginning, count: 2, added: 2)
            #expect(!play.when(.connected(same, fleetMilliseconds: nil)).contains(.renewEpoch))
        }
    }

    @Test("the first connection to a trimmed log reports only the gap of a new follower")
    func firstOfTrimmed() {
        var play = Play()
        let actions = play.when(.connected(info(300, 1, 1, 300, 1, 3, 0), fleetMilliseconds: nil))
        #expect(actions.contains(.gap(.neverFollowed)) && !actions.contains(.gap(.trimmed)))
        #expect(actions.contains(.startAnew(epoch: 1, floor: LogPosition(300).previous)))
    }

    static let trims: [(String, LogInfo, Bool)] = [
        ("nothing was trimmed", FollowerPlay.info(last: 200, first: 100, count: 2, added: 2), false),
        ("only read entries were trimmed", FollowerPlay.info(last: 200, first: 200, count: 1, added: 2), false),
        ("an unread entry was trimmed", FollowerPlay.info(last: 300, first: 300, count: 1, added: 3), true),
        ("all entries were trimmed, none was added", FollowerPlay.info(last: 100, first: nil, count: 0, added: 1), false),
        ("all entries were trimmed, including an added one", FollowerPlay.info(last: 200, first: nil, count: 0, added: 2), true),
        ("a single unread entry was deleted", FollowerPlay.info(last: 300, first: 100, count: 2, added: 3, lastDeleted: 200), true),
        (
            "another primary: more entries were trimmed than existed before the last read entry",
            FollowerPlay.info(last: 101, primary: 2, first: 99, count: 2, added: 3), true
        ),
        ("another primary has the last read entry", FollowerPlay.info(last: 101, primary: 2, count: 2, added: 2), false),
        ("the log was deleted and created again", FollowerPlay.info(last: 300, first: 300, count: 1, added: 1), true),
    ]

    @Test("entries trimmed before they were read are a gap", arguments: trims.indices)
    func trimmed(row: Int) {
        let (name, info, isGap) = Self.trims[row]
        var play = Play.upToDate()
        _ = play.when(.lost)
        #expect(play.when(.connected(info, fleetMilliseconds: nil)).contains(.gap(.trimmed)) == isGap, "\(name)")
    }

    @Test("entries trimmed while others are read are a gap")
    func trimmedMeanwhile() {
        var play = Play.upToDate()
        _ = play.when(.lost)
        _ = play.when(.connected(info(300, 1, 1, 100, 3, 3, 0), fleetMilliseconds: nil))
        _ = play.when(.entries([entry(300, .target, 6, 1)]))
        let actions = play.when(.infoRead(info(300, 1, 1, 300, 1, 3, 0)))
        #expect(actions == [.raiseFloor(LogPosition(299, .max)), .gap(.trimmed), .upToDate, .report(2)])
    }

    @Test("a skipped sequence number is waited for, and then counts as a gap")
    func missing() {
        var play = Play.upToDate()
        let shown = entry(200, .target, 5, 3)
        #expect(play.when(.entries([shown])) == [.apply(shown), .disconnected(since: play.now, .missing), .readFrom(LogPosition(200))])
        let since = play.now
        var other = play
        #expect(play.when(.nothingNew) == [.readFrom(LogPosition(200))])
        #expect(
            play.when(.entries([entry(210, .target, 5, 2)])) == [
                .apply(entry(210, .target, 5, 2)), .upToDate, .report(2), .readFrom(LogPosition(210)),
            ])
        #expect(other.when(.nothingNew, at: since + 1_000) == [.readFrom(LogPosition(200))])
        #expect(other.when(.tick, at: since + 2_000) == [.raiseFloor(LogPosition(200)), .gap(.lostEntries), .upToDate, .report(2)])
    }

    @Test("more missing entries than the limit are a gap at once")
    func tooMuch() {
        var limits = LogFollower.Limits()
        limits.missing = 10
        var play = Play.upToDate(limits: limits)
        let shown = entry(200, .target, 5, 1_000_000_000_000)
        #expect(play.when(.entries([shown])).contains(.gap(.lostEntries)))
        #expect(play.follower.isUpToDate)
    }

    @Test("entries missing before the position of an earlier process only raise the floor")
    func oldHole() {
        var play = Play(kept: KeptPosition(position: LogPosition(200), epoch: 1, primary: [1], added: 2))
        let log = info(200, 1, 1, 100, 2, 2, 0)
        _ = play.when(.connected(log, fleetMilliseconds: nil))
        _ = play.when(.entries([entry(100, .target, 5, 1), entry(200, .target, 5, 3)]))
        _ = play.when(.infoRead(log))
        #expect(play.when(.tick, at: play.now + 1_000) == [])
        _ = play.when(.nothingNew)
        #expect(play.when(.tick, at: play.now + 1_400) == [.raiseFloor(LogPosition(200)), .upToDate, .report(1)])
    }

    @Test("a new primary gets a fence above all IDs of the former one, and the last minutes are read again")
    func newPrimary() {
        var play = Play.upToDate()
        _ = play.when(.entries([entry(500_000, .target, 5, 2)]))
        _ = play.when(.lost)
        // The new primary lacks the last entry.
        let log = info(400_000, 1, 2, 100, 2, 2, 0)
        let fence = Fence(at: LogPosition(601_000), doubtedAfter: LogPosition(400_000))
        #expect(
            play.when(.connected(log, fleetMilliseconds: 600_000)) == [
                .doubt(after: LogPosition(400_000), before: LogPosition(601_000)), .mayAppend(fence: fence, isNewPrimary: true),
                .readFrom(LogPosition(280_000)),
            ])
        // A new entry with an ID from before the fence, and an entry that was read before.
        #expect(
            play.when(
                .entries([entry(400_000, .target, 7, 1), entry(500_001, .target, 5, 2), PositionedEntry(LogPosition(601_000), fence.entry)])
            )
                == [
                    .doubt(after: LogPosition(399_999, .max), before: LogPosition(601_000)), .apply(entry(400_000, .target, 7, 1)),
                    .doubt(after: LogPosition(400_000), before: LogPosition(601_000)), .readInfo,
                    .append(Fence(at: LogPosition(601_000), doubtedAfter: LogPosition(399_999, .max))), .readFrom(LogPosition(601_000)),
                ])
    }

    /// The primary's clock is behind. A node that had not met the former primary appended the entry at 300,000, then another one made the
    /// fence. This node connects last.
    private static let behind = (
        log: FollowerPlay.info(last: 601_000, primary: 2, count: 3, added: 3),
        early: FollowerPlay.entry(300_000, node: 7),
        fence: PositionedEntry(LogPosition(601_000), Fence(at: LogPosition(601_000), doubtedAfter: LogPosition(300_000)).entry)
    )

    @Test("a node that connects after another node's fence reads from the position where that node's check began")
    func connectsAfterFence() {
        var play = Play.upToDate()
        _ = play.when(.entries([entry(500_000, .target, 5, 2)]))
        _ = play.when(.lost)
        let (log, early, fence) = Self.behind
        #expect(play.when(.connected(log, fleetMilliseconds: 600_000)).last == .readFrom(LogPosition(380_000)))
        let doubt = LogFollower.Action.doubt(after: LogPosition(300_000), before: LogPosition(601_000))
        #expect(play.when(.entries([fence, entry(602_000, .target, 5, 3)])) == [doubt, .readFrom(LogPosition(180_000))])
        #expect(
            play.when(.entries([early, fence])) == [
                .doubt(after: LogPosition(299_999, .max), before: LogPosition(601_000)), .apply(early), doubt, .readInfo,
                .append(Fence(at: LogPosition(601_000), doubtedAfter: LogPosition(299_999, .max))), .readFrom(LogPosition(601_000)),
            ])
        let lost = Fence(at: LogPosition(601_000), doubtedAfter: LogPosition(601_000), lostUpTo: LogPosition(500_000))
        #expect(play.when(.infoRead(log)) == [.append(lost), .upToDate], "the last read entry is missing")
    }

    @Test("a new process that connects after another node's fence also reads from there, and applies entries it had only noted")
    func newProcessConnectsAfterFence() {
        var play = Play(kept: KeptPosition(position: LogPosition(500_000), epoch: 1, primary: [1], added: 2))
        let (log, early, fence) = Self.behind
        _ = play.when(.connected(log, fleetMilliseconds: nil))
        let doubt = LogFollower.Action.doubt(after: LogPosition(300_000), before: LogPosition(601_000))
        let old = entry(100, .target, 5, 1)
        #expect(play.when(.entries([old, early, fence])) == [.note(old), .note(early), doubt, .readFrom(.beginning)])
        #expect(
            play.when(.entries([old, early, fence])) == [.note(old), .apply(early), doubt, .readInfo, .readFrom(LogPosition(601_000))])
        let lost = Fence(at: LogPosition(601_000), doubtedAfter: LogPosition(601_000), lostUpTo: LogPosition(500_000))
        #expect(play.when(.infoRead(log)) == [.append(lost), .upToDate])
    }

    @Test("entries trimmed since the fence was made are a gap; a node already following the primary does not read again")
    func trimmedSinceFence() {
        var (log, _, fence) = Self.behind
        var reading = Play.upToDate()
        #expect(reading.when(.entries([fence])).last == .readFrom(LogPosition(601_000)))
        (log.first, log.count) = (LogPosition(450_000), 2)
        var play = Play.upToDate()
        _ = play.when(.entries([entry(500_000, .target, 5, 2)]))
        _ = play.when(.lost)
        _ = play.when(.connected(log, fleetMilliseconds: 600_000))
        #expect(play.when(.entries([fence])).contains(.gap(.trimmed)))
    }

    @Test("a primary whose log is behind the last read position counts as a new primary")
    func primaryBehind() {
        var play = Play.upToDate()
        _ = play.when(.entries([entry(500, .target, 5, 2)]))
        _ = play.when(.lost)
        let actions = play.when(.connected(info(100, 1, 1, 100, 1, 1, 0), fleetMilliseconds: nil))
        #expect(actions.contains(.mayAppend(fence: Fence(at: LogPosition(1_500), doubtedAfter: LogPosition(100)), isNewPrimary: true)))
    }

    @Test("a new process at a new primary rejects records below its position, and applies the last minutes again")
    func newProcessAndPrimary() {
        var play = Play(kept: KeptPosition(position: LogPosition(500_000), epoch: 1, primary: [1], added: 2))
        let log = info(500_000, 1, 2, 100, 3, 3, 0)
        #expect(
            play.when(.connected(log, fleetMilliseconds: nil)) == [
                .startAnew(epoch: 1, floor: .beginning), .raiseFloor(LogPosition(500_000)), .mayAppend(fence: nil, isNewPrimary: true),
                .readFrom(.beginning),
            ])
        #expect(
            play.when(.entries([entry(100, .target, 5, 1), entry(450_000, .target, 6, 1)])) == [
                .note(entry(100, .target, 5, 1)), .apply(entry(450_000, .target, 6, 1)), .readFrom(LogPosition(450_000)),
            ])
    }

    @Test("reading pauses while too many batches are not applied durably")
    func backPressure() {
        var limits = LogFollower.Limits()
        limits.batches = 2
        var play = Play.upToDate(limits: limits)
        #expect(play.when(.entries([entry(200, .target, 5, 2)])).last == .readFrom(LogPosition(200)))
        #expect(play.when(.entries([entry(300, .target, 5, 3)])).last == .report(3))
        #expect(play.when(.applied(report: 2)) == [.keep(Play.kept(200, added: 2, read: 300)), .readFrom(LogPosition(300))])
        #expect(play.when(.applied(report: 2)) == [])
    }

    @Test("a jump of the Redis server's clock makes every node reject older records")
    func clock() {
        var play = Play.upToDate()
        #expect(
            play.when(.clockJumped) == [
                .raiseFloor(LogPosition(100)), .append(Fence(at: LogPosition(100), doubtedAfter: .beginning)),
            ])
    }

    @Test("the state of the log is checked every ten seconds; another primary or epoch causes a reconnection")
    func regularChecks() {
        var play = Play.upToDate()
        for _ in 0..<11 { _ = play.when(.nothingNew, at: play.now + 1_000) }
        #expect(play.when(.tick) == [.sendHello, .readInfo])
        #expect(play.when(.tick) == [])
        #expect(play.when(.infoRead(info(100, 1, 1, 100, 1, 1, 0))) == [])
        #expect(play.when(.infoRead(info(100, 1, 2, 100, 1, 1, 0))) == [.disconnected(since: play.now, .otherPrimary), .reconnect])
        play = Play.upToDate()
        #expect(play.when(.infoRead(info(100, 2, 1, 100, 1, 1, 0))) == [.disconnected(since: play.now, .otherLog), .reconnect])
    }

    @Test("with too many nodes, the sequences of those silent longest are forgotten and start again")
    func manyNodes() {
        var limits = LogFollower.Limits()
        limits.nodes = 4
        var play = Play.upToDate(limits: limits)
        for node in 10..<20 as Range<UInt64> { _ = play.when(.entries([entry(200 + node, .target, node, 5)])) }
        #expect(play.follower.isUpToDate)
        #expect(play.when(.entries([entry(300, .target, 10, 9)])).first == .apply(entry(300, .target, 10, 9)))
        #expect(play.follower.isUpToDate, "a jump cannot be detected")
    }
}
