// What the writer keeps from one process to the next: purges with their place in the log, and writes that have none.

import Testing

@testable import Fleet

@Suite("What is kept for the next process")
struct WriterKeepingTests {
    private typealias Play = WriterPlay
    private let a = WriterPlay.message(1)
    private let b = WriterPlay.message(2)
    private let hello = LogMessage(.hello)

    private static func log(last: UInt64, first: UInt64? = 1, epoch: UInt64 = 1, primary: UInt8 = 1, removed: UInt64 = 0) -> LogInfo {
        FollowerPlay.info(last: last, epoch: epoch, primary: primary, first: first, count: 1, added: 1 + removed)
    }

    private static func place(_ position: UInt64) -> LogPlace { LogPlace(epoch: 1, primary: [1], position: LogPosition(position)) }

    private func connected(_ log: LogInfo, replicas: Int, isNewPrimary: Bool = false) -> LogWriter.Event {
        .connected(isNewPrimary: isNewPrimary, fence: nil, replicas: replicas, log: log)
    }

    @Test("a purge that no replica has is kept with its place, once")
    func kept() {
        var play = Play()
        _ = play.when(connected(Self.log(last: 4), replicas: 0))
        _ = play.when(.append(a, .purge, token: 1))
        #expect(
            play.when(.answered([Play.at(5)])) == [
                .settle(a, at: LogPosition(5)), .tell(1, .appended(LogPosition(5))), .keepPending(1, a, at: Self.place(5)),
                .tell(1, .pending(.noReplica)),
            ])
        play.now = 1_000
        #expect(play.when(.tick) == [.wait])
        #expect(play.when(.waited(replicas: 0)) == [])
    }

    @Test("one that was kept before it was in the log is kept again with its place")
    func keptBefore() {
        var play = Play()
        #expect(play.when(.append(a, .purge, token: 1)).contains(.keepPending(1, a)))
        _ = play.when(connected(Self.log(last: 4), replicas: 0))
        #expect(play.when(.answered([Play.at(5)])).last == .keepPending(1, a, at: Self.place(5)))
    }

    @Test("in the same log it is not appended again: only the replica is asked for, behind a greeting")
    func sameLog() {
        var play = Play()
        #expect(play.when(.append(a, .keptPurge(Self.place(5)), token: 1)) == [.hold(a)])
        #expect(play.when(.append(b, .keptPurge(), token: 2)) == [.hold(b)])
        #expect(
            play.when(connected(Self.log(last: 9), replicas: 1)) == [.settle(a, at: LogPosition(5)), Play.send((b, 1), (hello, 2))])
        #expect(play.when(.answered([Play.at(10), Play.at(11)])).last == .wait)
        #expect(
            play.when(.waited(replicas: 1)) == [.dropPending(1), .tell(1, .durable), .dropPending(2), .tell(2, .durable)])
    }

    @Test("restarts in front of an engine without a replica append a greeting each, and no purge")
    func restarts() {
        for _ in 0..<10 {
            var play = Play()
            for token in 1...100 as ClosedRange<UInt64> {
                _ = play.when(.append(Play.message(UInt8(token)), .keptPurge(Self.place(token)), token: token))
            }
            #expect(play.when(connected(Self.log(last: 100), replicas: 0)).last == Play.send((hello, 1)))
            #expect(play.when(.answered([Play.at(101)])) == [])
            #expect(play.writer.pendingPurges == 100)
        }
    }

    @Test(
        "another log, another primary, and one that has gone back may not have it: it is appended",
        arguments: [
            (log(last: 9, epoch: 2), false), (log(last: 9, primary: 2), false), (log(last: 4), false), (log(last: 9), true),
        ])
    func otherLog(log: LogInfo, isNewPrimary: Bool) {
        var play = Play()
        _ = play.when(.append(a, .keptPurge(Self.place(5)), token: 1))
        #expect(play.when(connected(log, replicas: 1, isNewPrimary: isNewPrimary)) == [Play.send((a, 1))])
        #expect(play.when(.answered([Play.at(20)])).first == .settle(a, at: LogPosition(20)))
    }

    @Test("what was found in the log is appended where the primary changes later, behind what has a number of this process")
    func laterPrimary() {
        var play = Play()
        _ = play.when(.append(a, .keptPurge(Self.place(5)), token: 1))
        _ = play.when(connected(Self.log(last: 9), replicas: 1))
        _ = play.when(.answered([Play.at(10)]))
        _ = play.when(.waited(replicas: 0))
        _ = play.when(.append(b, .purge, token: 2))
        _ = play.when(.lost)
        let actions = play.when(connected(Self.log(last: 9, primary: 2), replicas: 1, isNewPrimary: true))
        #expect(actions == [.hold(a), Play.send((hello, 1), (b, 2), (a, 3), (hello, 4))], "\(actions)")
    }

    @Test("without a replica it is over when its entry was trimmed, whether a process sees that or meets it so")
    func trimmed() {
        var play = Play()
        _ = play.when(connected(Self.log(last: 4), replicas: 0))
        for (token, message) in [(1, a), (2, b)] as [(UInt64, LogMessage)] {
            _ = play.when(.append(message, .purge, token: token))
            _ = play.when(.answered([Play.at(token + 4)]))
        }
        #expect(play.when(.looked(Self.log(last: 6))) == [])
        #expect(play.when(.looked(Self.log(last: 6, first: 6, primary: 2, removed: 5))) == [], "another's")
        #expect(play.when(.looked(Self.log(last: 6, first: 6, removed: 5))) == [.dropPending(1)])
        #expect(play.writer.pendingPurges == 1)
        var next = Play()
        _ = next.when(.append(b, .keptPurge(Self.place(6)), token: 2))
        #expect(
            next.when(connected(Self.log(last: 9, first: 9, removed: 7), replicas: 0)) == [.settle(b, at: LogPosition(6)), .dropPending(2)])
        // A replica that there is will have it: it had all that came before.
        var other = Play()
        _ = other.when(.append(b, .keptPurge(Self.place(6)), token: 2))
        #expect(other.when(connected(Self.log(last: 9, first: 9, removed: 7), replicas: 1)).last == Play.send((hello, 1)))
    }

    @Test("writes without a place in the log are there to be kept: those under way too, each once, purges not among them")
    func writes() {
        var play = Play.connected()
        for message in [a, b, b] { _ = play.when(.append(message, .write, token: nil)) }
        _ = play.when(.append(Play.message(3), .purge, token: 1))
        _ = play.when(.lost)
        #expect(play.writer.writesToKeep == [a, b])
        _ = play.when(.connected(isNewPrimary: false, fence: nil, replicas: 1))
        _ = play.when(.answered([Play.at(1), Play.at(2), Play.at(3)]))
        _ = play.when(.lost)
        #expect(play.writer.writesToKeep == [])
    }

    @Test("too many of them, or too long ones, are one message")
    func manyWrites() {
        var limits = LogWriter.Limits()
        (limits.keptWrites, limits.keptWriteBytes) = (2, 10)
        for (messages, expected) in [
            ([a, b], [a, b]), ([a, b, Play.message(3)], [.everythingStale]),
            ([LogMessage(.target, argument: Array(repeating: 1, count: 11))], [.everythingStale]),
        ] as [([LogMessage], [LogMessage])] {
            var play = Play(limits: limits)
            for message in messages { _ = play.when(.append(message, .write, token: nil)) }
            #expect(play.writer.writesToKeep == expected)
        }
    }

    @Test("a write that was kept is sent, and no longer kept once it is in the log; until then it is not kept twice")
    func keptWrite() {
        var play = Play()
        #expect(play.when(.append(a, .keptWrite, token: 1)) == [.hold(a)])
        #expect(play.when(.append(a, .write, token: 2)) == [.hold(a), .tell(2, .later)])
        #expect(play.when(.connected(isNewPrimary: false, fence: nil, replicas: 1)) == [Play.send((a, 1), (a, 2))])
        #expect(play.when(.lost) == [])
        #expect(play.writer.writesToKeep == [a])
        _ = play.when(.connected(isNewPrimary: false, fence: nil, replicas: 1))
        #expect(
            play.when(.answered([Play.at(5), Play.at(6)])) == [
                .settle(a, at: LogPosition(5)), .dropPending(1), .settle(a, at: LogPosition(6)),
            ])
    }

    @Test("purges are bounded by their bytes: beyond, those that are not in the log are refused, and of others the oldest give way")
    func bytes() {
        var limits = LogWriter.Limits()
        limits.purgeBytes = 3
        func long(_ name: UInt8) -> LogMessage { LogMessage(.target, argument: [name, name]) }
        var play = Play(limits: limits)
        _ = play.when(.append(long(1), .purge, token: 1))
        #expect(play.when(.append(long(2), .purge, token: 2)) == [.tell(2, .refused)])
        #expect(play.when(.append(a, .purge, token: 3)).first == .hold(a))
        var alone = Play.connected(replicas: 0, limits: limits)
        for token in 1...2 as ClosedRange<UInt64> {
            _ = alone.when(.append(long(UInt8(token)), .purge, token: token))
            #expect(alone.when(.answered([Play.at(token)])).contains(.dropPending(1)) == (token == 2))
        }
    }
}
