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
    static func seeing(limits: LogFollower.Limits = .init()) -> FollowerPlay {
        var play = FollowerPlay(kept: KeptPosition(position: LogPosition(100), epoch: 1, primary: [1], added: 1), limits: limits)
        _ = play.when(.connected(info(last: 100), fleetMilliseconds: nil))
        _ = play.when(.entries([entry(100)]))
        _ = play.when(.looked(info(last: 100)))
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

    static func entry(_ position: UInt64, _ kind: LogMessage.Kind = .target, node: UInt64 = 5, _ sequence: UInt64 = 1) -> PlacedEntry {
        PlacedEntry(LogPosition(position), LogEntry(LogMessage(kind), origin: LogOrigin(node: node, sequence: sequence)))
    }

    mutating func when(_ event: LogFollower.Event, at time: Int64? = nil) -> [LogFollower.Action] {
        now = time ?? now + 100
        return follower.handle(event, now: now)
    }
}

@Suite("Following the log")
struct FollowerTests {
    private typealias Play = FollowerPlay
    private let info = FollowerPlay.info
    private let entry = FollowerPlay.entry

    @Test("a new node reads from the beginning, applies everything, and sees once it has made sure that nothing was removed meanwhile")
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
            play.when(.entries([entry(200, .all, 5, 2)])) == [.apply(entry(200, .all, 5, 2)), .look, .readFrom(LogPosition(200))])
        #expect(!play.follower.isSeeing)
        #expect(play.when(.looked(log)) == [.seeing, .report(1)])
        #expect(play.follower.isSeeing && play.follower.version == nil, "not kept as yet")
        let kept = Play.kept(200, added: 2)
        #expect(play.when(.applied(report: 1)) == [.keep(kept)])
        #expect(play.follower.version == nil, "not on the disk as yet")
        #expect(play.when(.kept(kept)) == [])
        #expect(play.follower.version == RecordVersion(epoch: 1, position: LogPosition(200)))
    }

    @Test("who begins again fills the table with what was obeyed, and applies what was not; its own entries only mark")
    func again() {
        var play = Play(kept: KeptPosition(position: LogPosition(100), epoch: 1, primary: [1], added: 1))
        let log = info(300, 1, 1, 100, 3, 3, 0)
        _ = play.when(.connected(log, fleetMilliseconds: nil))
        let own = entry(300, .target, Play.node, 1)
        #expect(
            play.when(.entries([entry(100, .target, 5, 1), entry(200, .target, 5, 2), own])) == [
                .note(entry(100, .target, 5, 1)), .apply(entry(200, .target, 5, 2)), .note(own), .look, .readFrom(LogPosition(300)),
            ])
    }

    @Test("a connection that is lost before the table was filled fills nothing: the next one begins at the beginning")
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
            _ = play.when(.looked(log))
            let end = play.now + 2_000
            _ = play.when(.nothingNew, at: end - 1_000)
            #expect(play.when(.tick, at: end).contains(.gap(.lostEntries)))
        }
    }

    @Test("what comes again is applied once; greetings and fences are not applied")
    func repeated() {
        var play = Play.seeing()
        let fence = Fence(at: LogPosition(300), doubtedAfter: LogPosition(150))
        #expect(
            play.when(
                .entries([
                    entry(200, .target, 5, 2), entry(210, .target, 5, 2), entry(220, .target, 5, 1), entry(230, .hello, 5, 3),
                    PlacedEntry(LogPosition(300), fence.entry),
                ])) == [
                    .apply(entry(200, .target, 5, 2)), .doubt(after: LogPosition(150), before: LogPosition(300)), .report(2),
                    .readFrom(LogPosition(300)),
                ])
        #expect(
            play.when(.entries([entry(300, .target, 5, 9), entry(250, .target, 5, 8)])) == [.readFrom(LogPosition(300))],
            "not after the last")
    }

    @Test("no answer for a second and a half: nothing is seen, and another connection is asked for")
    func silence() {
        var play = Play.seeing()
        let last = play.now
        #expect(play.when(.tick, at: last + 1_500) == [])
        #expect(play.when(.tick, at: last + 1_501) == [.blind(since: last, .silence), .reconnect])
        #expect(play.follower.version == nil && play.when(.nothingNew) == [] && play.when(.lost) == [])
        #expect(
            play.when(.connected(info(100, 1, 1, 100, 1, 1, 0), fleetMilliseconds: nil)) == [
                .mayAppend(fence: nil, isNewPrimary: false), .readFrom(LogPosition(100)),
            ])
        #expect(play.when(.nothingNew) == [.look, .readFrom(LogPosition(100))])
        #expect(play.when(.looked(info(100, 1, 1, 100, 1, 1, 0))) == [.seeing])
    }

    @Test("another epoch is a gap, whether it shows at the connection or beside the entries")
    func epoch() {
        var play = Play.seeing()
        #expect(play.when(.epoch(1)) == [])
        #expect(play.when(.epoch(nil)) == [.blind(since: play.now, .otherLog), .reconnect])
        let log = info(50, 2, 1, 50, 1, 1, 0)
        #expect(
            play.when(.connected(log, fleetMilliseconds: 1_000)) == [
                .startAnew(epoch: 2, floor: .beginning), .gap(.epoch), .mayAppend(fence: nil, isNewPrimary: true), .readFrom(.beginning),
            ])
    }

    @Test("a log that was left and is back gets another epoch, also from a process that knows of it by what an earlier one kept")
    func epochIsBack() {
        var play = Play.seeing()
        _ = play.when(.epoch(2))
        _ = play.when(.connected(info(50, 2, 1, 50, 1, 1, 0), fleetMilliseconds: nil))
        _ = play.when(.entries([entry(50, .target, 5, 1)]))
        _ = play.when(.looked(info(50, 2, 1, 50, 1, 1, 0)))
        guard case .keep(let kept) = play.when(.applied(report: 2)).first else {
            Issue.record("nothing is kept")
            return
        }
        #expect(kept.epoch == 2 && kept.formerEpochs == [1])
        let back = info(100, 1, 2, 100, 1, 1, 0)
        #expect(play.when(.connected(back, fleetMilliseconds: nil)) == [.blind(since: play.now, .lost), .renewEpoch, .reconnect])
        #expect(!play.follower.isSeeing && play.follower.version == nil)
        var next = Play(kept: KeptPosition(bytes: kept.bytes))
        #expect(next.when(.connected(back, fleetMilliseconds: nil)) == [.renewEpoch, .reconnect])
        #expect(next.when(.connected(info(100, 3, 2, 100, 1, 1, 0), fleetMilliseconds: nil)).contains(.gap(.epoch)))
    }

    @Test("an answer that lay there while the process was stopped says nothing: the log is met again")
    func stopped() {
        let events: [LogFollower.Event] = [
            .entries([entry(300, .target, 5, 9)]), .nothingNew, .engineTime(1), .epoch(1), .looked(Play.info(last: 100)),
        ]
        for event in events {
            var play = Play.seeing()
            let since = play.now
            #expect(play.follower.seesUntil == since + 1_500)
            #expect(!play.when(event, at: since + 1_500).contains(.reconnect))
            play = Play.seeing()
            #expect(play.when(event, at: since + 1_501) == [.blind(since: since, .stopped), .reconnect])
            #expect(play.follower.seesUntil == nil)
        }
    }

    @Test("nor is the engine silent where it is this process that said nothing: its own clock ticks late then")
    func stoppedBetweenTicks() {
        var play = Play.seeing()
        let last = play.now
        #expect(play.when(.tick) == [])
        #expect(play.when(.tick, at: last + 1_700) == [.blind(since: last, .stopped), .reconnect])
    }

    @Test("so does time that has passed at the engine and not here: the whole machine was stopped")
    func engineTime() {
        var play = Play.seeing()
        for time in [5_000, 5_000, 6_000, 9_000, 8_000, 11_000] as [UInt64] { #expect(play.when(.engineTime(time)) == []) }
        #expect(play.when(.engineTime(14_001)) == [.blind(since: play.now, .stopped), .reconnect])
        // Times of the former connection do not count any more.
        _ = play.when(.connected(Play.info(last: 100), fleetMilliseconds: nil))
        #expect(play.when(.engineTime(99_000)) == [])
    }

    @Test("a log that has less than was read of it was removed whole", arguments: [(50, 1), (100, 0)] as [(UInt64, UInt64)])
    func removed(last: UInt64, added: UInt64) {
        var play = Play.seeing()
        #expect(play.when(.looked(Play.info(last: last, count: added, added: added))) == [.blind(since: play.now, .removed), .reconnect])
    }

    @Test("a log that has come to its last ids and has gone back gets another epoch: nothing could lift it above them")
    func lastIds() {
        for (last, isRenewed) in [(LogPosition(.max, 3), true), (LogPosition(.max - 500, 3), false)] {
            var play = Play.seeing()
            _ = play.when(.entries([PlacedEntry(last, LogEntry.unopened)]))
            _ = play.when(.lost)
            let actions = play.when(.connected(Play.info(last: 100), fleetMilliseconds: nil))
            #expect((actions == [.renewEpoch, .reconnect]) == isRenewed)
            // A log that has not gone back stays valid.
            play = Play.seeing()
            _ = play.when(.entries([PlacedEntry(last, LogEntry.unopened)]))
            _ = play.when(.lost)
            let same = LogInfo(epoch: 1, primary: [1], last: last, first: LogPosition(100), lastDeleted: .beginning, count: 2, added: 2)
            #expect(!play.when(.connected(same, fleetMilliseconds: nil)).contains(.renewEpoch))
        }
    }

    @Test("the first meeting of a log whose beginning is trimmed is no gap of another kind")
    func firstOfTrimmed() {
        var play = Play()
        let actions = play.when(.connected(info(300, 1, 1, 300, 1, 3, 0), fleetMilliseconds: nil))
        #expect(actions.contains(.gap(.neverFollowed)) && !actions.contains(.gap(.trimmed)))
        #expect(actions.contains(.startAnew(epoch: 1, floor: LogPosition(300).previous)))
    }

    static let trims: [(String, LogInfo, Bool)] = [
        ("nothing was removed", FollowerPlay.info(last: 200, first: 100, count: 2, added: 2), false),
        ("only what was read was removed", FollowerPlay.info(last: 200, first: 200, count: 1, added: 2), false),
        ("something after it was removed", FollowerPlay.info(last: 300, first: 300, count: 1, added: 3), true),
        ("all was removed, and nothing added", FollowerPlay.info(last: 100, first: nil, count: 0, added: 1), false),
        ("all was removed, what was added too", FollowerPlay.info(last: 200, first: nil, count: 0, added: 2), true),
        ("an entry after it was deleted by itself", FollowerPlay.info(last: 300, first: 100, count: 2, added: 3, lastDeleted: 200), true),
        (
            "another primary: more was removed before what was reached than ever was there",
            FollowerPlay.info(last: 101, primary: 2, first: 99, count: 2, added: 3), true
        ),
        ("another primary has what was reached", FollowerPlay.info(last: 101, primary: 2, count: 2, added: 2), false),
        ("the log was deleted and begun anew", FollowerPlay.info(last: 300, first: 300, count: 1, added: 1), true),
    ]

    @Test("entries that were removed before they were read are a gap", arguments: trims.indices)
    func trimmed(row: Int) {
        let (name, info, isGap) = Self.trims[row]
        var play = Play.seeing()
        _ = play.when(.lost)
        #expect(play.when(.connected(info, fleetMilliseconds: nil)).contains(.gap(.trimmed)) == isGap, "\(name)")
    }

    @Test("entries that are removed while others are read are a gap")
    func trimmedMeanwhile() {
        var play = Play.seeing()
        _ = play.when(.lost)
        _ = play.when(.connected(info(300, 1, 1, 100, 3, 3, 0), fleetMilliseconds: nil))
        _ = play.when(.entries([entry(300, .target, 6, 1)]))
        let actions = play.when(.looked(info(300, 1, 1, 300, 1, 3, 0)))
        #expect(actions == [.raiseFloor(LogPosition(299, .max)), .gap(.trimmed), .seeing, .report(2)])
    }

    @Test("what a node skips is waited for; then it is a gap")
    func missing() {
        var play = Play.seeing()
        let shown = entry(200, .target, 5, 3)
        #expect(play.when(.entries([shown])) == [.apply(shown), .blind(since: play.now, .missing), .readFrom(LogPosition(200))])
        let since = play.now
        var other = play
        #expect(play.when(.nothingNew) == [.readFrom(LogPosition(200))])
        #expect(
            play.when(.entries([entry(210, .target, 5, 2)])) == [
                .apply(entry(210, .target, 5, 2)), .seeing, .report(2), .readFrom(LogPosition(210)),
            ])
        #expect(other.when(.nothingNew, at: since + 1_000) == [.readFrom(LogPosition(200))])
        #expect(other.when(.tick, at: since + 2_000) == [.raiseFloor(LogPosition(200)), .gap(.lostEntries), .seeing, .report(2)])
    }

    @Test("more missing than is waited for is a gap at once")
    func tooMuch() {
        var limits = LogFollower.Limits()
        limits.missing = 10
        var play = Play.seeing(limits: limits)
        let shown = entry(200, .target, 5, 1_000_000_000_000)
        #expect(play.when(.entries([shown])).contains(.gap(.lostEntries)))
        #expect(play.follower.isSeeing)
    }

    @Test("a hole in what an earlier process obeyed is its past: it only raises the floor")
    func oldHole() {
        var play = Play(kept: KeptPosition(position: LogPosition(200), epoch: 1, primary: [1], added: 2))
        let log = info(200, 1, 1, 100, 2, 2, 0)
        _ = play.when(.connected(log, fleetMilliseconds: nil))
        _ = play.when(.entries([entry(100, .target, 5, 1), entry(200, .target, 5, 3)]))
        _ = play.when(.looked(log))
        #expect(play.when(.tick, at: play.now + 1_000) == [])
        _ = play.when(.nothingNew)
        #expect(play.when(.tick, at: play.now + 1_400) == [.raiseFloor(LogPosition(200)), .seeing, .report(1)])
    }

    @Test("another primary: a fence above all that the former gave, and the last minutes are read again")
    func newPrimary() {
        var play = Play.seeing()
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
                .entries([entry(400_000, .target, 7, 1), entry(500_001, .target, 5, 2), PlacedEntry(LogPosition(601_000), fence.entry)]))
                == [
                    .doubt(after: LogPosition(399_999, .max), before: LogPosition(601_000)), .apply(entry(400_000, .target, 7, 1)),
                    .doubt(after: LogPosition(400_000), before: LogPosition(601_000)), .look,
                    .append(Fence(at: LogPosition(601_000), doubtedAfter: LogPosition(399_999, .max))), .readFrom(LogPosition(601_000)),
                ])
    }

    /// The primary's clock is behind. A node that had not met the former primary appended the entry at 300,000, then another one made the
    /// fence. This node connects last.
    private static let behind = (
        log: FollowerPlay.info(last: 601_000, primary: 2, count: 3, added: 3),
        early: FollowerPlay.entry(300_000, node: 7),
        fence: PlacedEntry(LogPosition(601_000), Fence(at: LogPosition(601_000), doubtedAfter: LogPosition(300_000)).entry)
    )

    @Test("who comes when another has made the fence looks from where that one has looked")
    func secondToMeet() {
        var play = Play.seeing()
        _ = play.when(.entries([entry(500_000, .target, 5, 2)]))
        _ = play.when(.lost)
        let (log, early, fence) = Self.behind
        #expect(play.when(.connected(log, fleetMilliseconds: 600_000)).last == .readFrom(LogPosition(380_000)))
        let doubt = LogFollower.Action.doubt(after: LogPosition(300_000), before: LogPosition(601_000))
        #expect(play.when(.entries([fence, entry(602_000, .target, 5, 3)])) == [doubt, .readFrom(LogPosition(180_000))])
        #expect(
            play.when(.entries([early, fence])) == [
                .doubt(after: LogPosition(299_999, .max), before: LogPosition(601_000)), .apply(early), doubt, .look,
                .append(Fence(at: LogPosition(601_000), doubtedAfter: LogPosition(299_999, .max))), .readFrom(LogPosition(601_000)),
            ])
        let lost = Fence(at: LogPosition(601_000), doubtedAfter: LogPosition(601_000), lostUpTo: LogPosition(500_000))
        #expect(play.when(.looked(log)) == [.append(lost), .seeing], "what it had read last is not there")
    }

    @Test("a new process does so too, and applies what it had only noted")
    func newProcessSecondToMeet() {
        var play = Play(kept: KeptPosition(position: LogPosition(500_000), epoch: 1, primary: [1], added: 2))
        let (log, early, fence) = Self.behind
        _ = play.when(.connected(log, fleetMilliseconds: nil))
        let doubt = LogFollower.Action.doubt(after: LogPosition(300_000), before: LogPosition(601_000))
        let old = entry(100, .target, 5, 1)
        #expect(play.when(.entries([old, early, fence])) == [.note(old), .note(early), doubt, .readFrom(.beginning)])
        #expect(
            play.when(.entries([old, early, fence])) == [.note(old), .apply(early), doubt, .look, .readFrom(LogPosition(601_000))])
        let lost = Fence(at: LogPosition(601_000), doubtedAfter: LogPosition(601_000), lostUpTo: LogPosition(500_000))
        #expect(play.when(.looked(log)) == [.append(lost), .seeing])
    }

    @Test("what the fence's maker could look at, and was trimmed since, is a gap; who follows the primary already does not look again")
    func behindTheFence() {
        var (log, _, fence) = Self.behind
        var reading = Play.seeing()
        #expect(reading.when(.entries([fence])).last == .readFrom(LogPosition(601_000)))
        (log.first, log.count) = (LogPosition(450_000), 2)
        var play = Play.seeing()
        _ = play.when(.entries([entry(500_000, .target, 5, 2)]))
        _ = play.when(.lost)
        _ = play.when(.connected(log, fleetMilliseconds: 600_000))
        #expect(play.when(.entries([fence])).contains(.gap(.trimmed)))
    }

    @Test("the same primary, gone back behind what was read, is another one")
    func goneBack() {
        var play = Play.seeing()
        _ = play.when(.entries([entry(500, .target, 5, 2)]))
        _ = play.when(.lost)
        let actions = play.when(.connected(info(100, 1, 1, 100, 1, 1, 0), fleetMilliseconds: nil))
        #expect(actions.contains(.mayAppend(fence: Fence(at: LogPosition(1_500), doubtedAfter: LogPosition(100)), isNewPrimary: true)))
    }

    @Test("a new process behind a new primary takes nothing that is older than what it had obeyed, and applies the last minutes again")
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

    @Test("nothing is read while too much is not obeyed durably")
    func backPressure() {
        var limits = LogFollower.Limits()
        limits.batches = 2
        var play = Play.seeing(limits: limits)
        #expect(play.when(.entries([entry(200, .target, 5, 2)])).last == .readFrom(LogPosition(200)))
        #expect(play.when(.entries([entry(300, .target, 5, 3)])).last == .report(3))
        #expect(play.when(.applied(report: 2)) == [.keep(Play.kept(200, added: 2, read: 300)), .readFrom(LogPosition(300))])
        #expect(play.when(.applied(report: 2)) == [])
    }

    @Test("an engine's clock that jumps makes all older records untaken, at every node")
    func clock() {
        var play = Play.seeing()
        #expect(
            play.when(.clockJumped) == [
                .raiseFloor(LogPosition(100)), .append(Fence(at: LogPosition(100), doubtedAfter: .beginning)),
            ])
    }

    @Test("the state of the log is looked at every ten seconds; another primary or epoch there is another connection")
    func looks() {
        var play = Play.seeing()
        for _ in 0..<11 { _ = play.when(.nothingNew, at: play.now + 1_000) }
        #expect(play.when(.tick) == [.greet, .look])
        #expect(play.when(.tick) == [])
        #expect(play.when(.looked(info(100, 1, 1, 100, 1, 1, 0))) == [])
        #expect(play.when(.looked(info(100, 1, 2, 100, 1, 1, 0))) == [.blind(since: play.now, .otherPrimary), .reconnect])
        play = Play.seeing()
        #expect(play.when(.looked(info(100, 2, 1, 100, 1, 1, 0))) == [.blind(since: play.now, .otherLog), .reconnect])
    }

    @Test("many nodes: those longest silent are forgotten, and begin anew")
    func manyNodes() {
        var limits = LogFollower.Limits()
        limits.nodes = 4
        var play = Play.seeing(limits: limits)
        for node in 10..<20 as Range<UInt64> { _ = play.when(.entries([entry(200 + node, .target, node, 5)])) }
        #expect(play.follower.isSeeing)
        #expect(play.when(.entries([entry(300, .target, 10, 9)])).first == .apply(entry(300, .target, 10, 9)))
        #expect(play.follower.isSeeing, "no jump can be told")
    }
}
