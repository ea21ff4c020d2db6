// Tests of the state machine that writes the log: lists of events and expected actions.

import Testing

@testable import Fleet

/// Passes events to a writer, at the time in `now`.
struct WriterPlay {
    var writer: LogWriter
    var now: Int64 = 0

    init(limits: LogWriter.Limits = .init()) { writer = LogWriter(node: 9, limits: limits) }

    static func connected(replicas: Int = 1, limits: LogWriter.Limits = .init()) -> WriterPlay {
        var play = WriterPlay(limits: limits)
        _ = play.when(.connected(isNewPrimary: false, fence: nil, replicas: replicas))
        return play
    }

    mutating func when(_ event: LogWriter.Event) -> [LogWriter.Action] { writer.handle(event, now: now) }

    /// Why purges are pending: by token if they are not in the log; under 0 for all others.
    var causes: [LogWriter.Token: LogWriter.Pending] {
        var causes = writer.unreachedCauses
        if writer.pendingPurges > causes.count { causes[0] = .notReplicated }
        return causes
    }

    static func message(_ name: UInt8) -> LogMessage { LogMessage(.target, argument: [name]) }

    static func send(_ entries: (LogMessage, UInt64)...) -> LogWriter.Action {
        .send(entries.map { .init(entry: LogEntry($0.0, origin: LogOrigin(node: 9, sequence: $0.1)), position: nil) })
    }

    static func at(_ milliseconds: UInt64) -> LogWriter.Reply { .appended(LogPosition(milliseconds)) }
}

@Suite("Appending to the fleet log")
struct WriterTests {
    private typealias Play = WriterPlay
    private let a = WriterPlay.message(1)
    private let b = WriterPlay.message(2)
    private let hello = LogMessage(.hello)

    @Test("a purge is sent at once, and durable when a replica has it")
    func purge() {
        var play = Play.connected()
        #expect(play.when(.append(a, .purge, token: 1)) == [.hold(a), Play.send((a, 1))])
        #expect(
            play.when(.answered([Play.at(5)])) == [.settle(a, at: LogPosition(5)), .report(1, .appended(LogPosition(5))), .wait])
        #expect(play.when(.waited(replicas: 2)) == [.report(1, .durable)])
        #expect(play.writer.pendingPurges == 0 && play.writer.nextTick == nil)
    }

    @Test("writes with one token are merged only until they are sent, so that no response waits for the next ones")
    func identities() {
        var play = Play.connected()
        let message = LogMessage(.identities, argument: [1, 2, 3, 4, 5, 6, 7, 8])
        #expect(play.when(.append(message, .write, token: 1)) == [.hold(message), Play.send((message, 1))])
        #expect(play.when(.append(message, .write, token: 2)) == [.hold(message)])
        #expect(play.when(.append(message, .write, token: 3)) == [])
        #expect(
            play.when(.answered([Play.at(5)])) == [
                .settle(message, at: LogPosition(5)), .report(1, .appended(LogPosition(5))), Play.send((message, 2)),
            ])
        #expect(
            play.when(.answered([Play.at(6)])) == [
                .settle(message, at: LogPosition(6)), .report(2, .appended(LogPosition(6))), .report(3, .appended(LogPosition(6))),
            ])
    }

    @Test("a purge that no replica acknowledged is pending, kept, and checked with backoff until one does")
    func notReplicated() {
        var play = Play.connected()
        _ = play.when(.append(a, .purge, token: 1))
        _ = play.when(.answered([Play.at(5)]))
        #expect(play.when(.waited(replicas: 0)) == [.keepPending(1, a), .report(1, .pending(.notReplicated))])
        for pause in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] as [Int64] {
            #expect(play.writer.nextTick == play.now + pause)
            play.now += pause
            #expect(play.when(.tick) == [.wait])
            #expect(play.when(.waited(replicas: 0)) == [])
        }
        play.now += 30_000
        _ = play.when(.tick)
        #expect(play.when(.waited(replicas: 1)) == [.dropPending(1), .report(1, .durable)])
    }

    @Test("without replicas a purge is complete once it is in the log, and is not kept")
    func noReplica() {
        var play = Play.connected(replicas: 0)
        for token in 1...3 as ClosedRange<UInt64> {
            _ = play.when(.append(a, .purge, token: token))
            #expect(
                play.when(.answered([Play.at(token)])) == [
                    .settle(a, at: LogPosition(token)), .report(token, .appended(LogPosition(token))), .report(token, .noReplica),
                ])
            #expect(play.writer.pendingPurges == 0 && play.writer.nextTick == nil)
        }
        // The only replica is lost and not replaced. A purge that waits for it continues to wait.
        #expect(play.when(.replicas(1)) == [])
        _ = play.when(.append(b, .purge, token: 4))
        #expect(play.when(.answered([Play.at(4)])).last == .wait)
        #expect(play.when(.waited(replicas: 0)) == [.keepPending(4, b), .report(4, .pending(.notReplicated))])
        #expect(play.when(.replicas(0)) == [] && play.causes == [0: .notReplicated])
        play.now += 1_000
        #expect(play.when(.tick) == [.wait])
        #expect(play.when(.waited(replicas: 1)) == [.dropPending(4), .report(4, .durable)])
    }

    @Test("messages of the last minute to a Redis server without replicas are repeated at a new primary")
    func noReplicaAgain() {
        var play = Play.connected(replicas: 0)
        _ = play.when(.append(a, .purge, token: 1))
        _ = play.when(.answered([Play.at(1)]))
        _ = play.when(.lost)
        #expect(play.when(.connected(isNewPrimary: true, fence: nil, replicas: 0)) == [.hold(a), Play.send((a, 1), (hello, 2))])
        #expect(play.when(.answered([Play.at(2), Play.at(3)])) == [.settle(a, at: LogPosition(2))])
    }

    @Test("a purge kept for lack of a connection is complete once a Redis server without replicas has it")
    func noReplicaKept() {
        var play = Play()
        _ = play.when(.append(a, .purge, token: 1))
        _ = play.when(.append(b, .keptPurge, token: 2))
        _ = play.when(.connected(isNewPrimary: false, fence: nil, replicas: 0))
        let actions = play.when(.answered([Play.at(1), Play.at(2)]))
        #expect(actions.contains(.dropPending(1)) && actions.contains(.dropPending(2)) && play.writer.pendingPurges == 0)
    }

    @Test("a purge without a connection is pending at once, and sent after reconnecting, also by another process")
    func away() {
        var play = Play()
        #expect(play.when(.append(a, .purge, token: 1)) == [.hold(a), .keepPending(1, a), .report(1, .pending(.notReached))])
        #expect(play.when(.append(b, .write, token: 2)) == [.hold(b), .report(2, .later)])
        var other = Play()
        #expect(other.when(.append(a, .keptPurge, token: 1)) == [.hold(a)])
        #expect(play.when(.connected(isNewPrimary: false, fence: nil, replicas: 1)) == [Play.send((a, 1), (b, 2))])
        #expect(other.when(.connected(isNewPrimary: true, fence: nil, replicas: 1)) == [Play.send((a, 1))])
        #expect(
            other.when(.answered([Play.at(5)])) == [.settle(a, at: LogPosition(5)), .report(1, .appended(LogPosition(5))), .wait])
        #expect(other.when(.waited(replicas: 1)) == [.dropPending(1), .report(1, .durable)])
    }

    @Test("the reported cause of a pending purge follows its current state")
    func causes() {
        var play = Play()
        _ = play.when(.append(a, .purge, token: 1))
        #expect(play.causes == [1: .notReached])
        _ = play.when(.connected(isNewPrimary: false, fence: nil, replicas: 1))
        #expect(play.causes == [1: .notReached])
        _ = play.when(.answered([.refused]))
        #expect(play.causes == [1: .refused])
        play.now += 1_000
        #expect(play.when(.tick) == [Play.send((a, 1))])
        _ = play.when(.answered([Play.at(5)]))
        #expect(play.causes == [0: .notReplicated])
        _ = play.when(.lost)
        #expect(play.causes == [0: .notReplicated])
    }

    @Test("a purge that is not in the log within a second is pending")
    func slow() {
        var play = Play.connected()
        _ = play.when(.append(a, .purge, token: 1))
        #expect(play.writer.nextTick == 1_000)
        play.now = 1_000
        #expect(play.when(.tick) == [.keepPending(1, a), .report(1, .pending(.notReached))])
        #expect(play.writer.nextTick == nil)
    }

    @Test("writes to one target within ten milliseconds are merged into one entry; the first is sent at once")
    func merged() {
        var play = Play.connected()
        #expect(play.when(.append(a, .write, token: 1)) == [.hold(a), Play.send((a, 1))])
        #expect(play.when(.append(a, .write, token: 2)) == [.hold(a)])
        #expect(play.when(.append(a, .write, token: 3)) == [])
        #expect(play.when(.answered([Play.at(5)])) == [.settle(a, at: LogPosition(5)), .report(1, .appended(LogPosition(5)))])
        #expect(play.writer.nextTick == 10)
        #expect(play.when(.append(b, .write, token: nil)) == [.hold(b), Play.send((b, 2))], "other entries are not delayed")
        _ = play.when(.answered([Play.at(6)]))
        play.now = 10
        #expect(play.when(.tick) == [Play.send((a, 3))])
        #expect(
            play.when(.answered([Play.at(15)])) == [
                .settle(a, at: LogPosition(15)), .report(2, .appended(LogPosition(15))), .report(3, .appended(LogPosition(15))),
            ])
    }

    @Test("too many writes are merged into one entry that makes everything stale; purges among them stay separate")
    func tooMany() {
        var limits = LogWriter.Limits()
        limits.writes = 2
        var play = Play(limits: limits)
        _ = play.when(.append(a, .purge, token: nil))
        _ = play.when(.append(a, .write, token: nil))
        _ = play.when(.append(b, .write, token: nil))
        let third = Play.message(3)
        #expect(
            play.when(.append(third, .write, token: 7)) == [
                .hold(.everythingStale), .settle(a, at: nil), .settle(b, at: nil), .report(7, .later),
            ])
        #expect(play.when(.append(a, .write, token: nil)) == [])
        #expect(play.when(.connected(isNewPrimary: false, fence: nil, replicas: 1)) == [Play.send((a, 1), (.everythingStale, 2))])
    }

    @Test("too many purges are refused instead of lost")
    func refused() {
        var limits = LogWriter.Limits()
        limits.purges = 1
        var play = Play(limits: limits)
        _ = play.when(.connected(isNewPrimary: false, fence: nil, replicas: 1))
        _ = play.when(.append(a, .purge, token: 1))
        #expect(play.when(.append(b, .purge, token: 2)) == [.report(2, .refused)])
        #expect(play.when(.append(b, .keptPurge, token: 3)) == [.hold(b)], "a persisted purge is sent, even above the limit")
    }

    @Test("after a lost connection unacknowledged entries are sent again with their sequence, and a wait first appends a greeting")
    func lost() {
        var play = Play.connected()
        _ = play.when(.append(a, .purge, token: 1))
        #expect(play.when(.lost) == [.keepPending(1, a), .report(1, .pending(.notReached))])
        #expect(play.when(.connected(isNewPrimary: false, fence: nil, replicas: 1)) == [Play.send((a, 1))])
        #expect(play.when(.answered([Play.at(5)])).last == .wait)
        _ = play.when(.lost)
        #expect(play.when(.connected(isNewPrimary: false, fence: nil, replicas: 1)) == [Play.send((hello, 2))])
        #expect(play.when(.answered([Play.at(6)])) == [.wait])
        #expect(play.when(.waited(replicas: 1)) == [.dropPending(1), .report(1, .durable)])
    }

    @Test("a new primary gets the fence alone, then the last minute's messages, held until they have a position, then a greeting")
    func newPrimary() {
        var play = Play.connected()
        _ = play.when(.append(a, .write, token: nil))
        _ = play.when(.answered([Play.at(5)]))
        play.now = 30_000
        _ = play.when(.append(b, .purge, token: 1))
        _ = play.when(.answered([Play.at(30_005)]))
        _ = play.when(.waited(replicas: 1))
        play.now = 70_000
        _ = play.when(.lost)
        play.now = 3_600_000
        let fence = Fence(at: LogPosition(4_000_000), doubtedAfter: LogPosition(5))
        #expect(
            play.when(.connected(isNewPrimary: true, fence: fence, replicas: 0)) == [
                .hold(b), .send([.init(entry: fence.entry, position: fence.position)]),
            ])
        #expect(play.when(.answered([.refused])) == [])
        // The entry is sent once, even if yet another primary is met before.
        _ = play.when(.lost)
        #expect(
            play.when(.connected(isNewPrimary: true, fence: nil, replicas: 0)) == [
                .send([.init(entry: fence.entry, position: fence.position)])
            ])
        #expect(play.when(.answered([.refused])) == [])
        play.now += 1_000
        #expect(play.when(.tick) == [.send([.init(entry: fence.entry, position: fence.position)])])
        #expect(play.when(.answered([.alreadyBeyond])) == [Play.send((b, 2), (hello, 3))])
        #expect(play.when(.answered([Play.at(4_000_001), Play.at(4_000_002)])) == [.settle(b, at: LogPosition(4_000_001))])
    }

    @Test("an entry that Redis refuses is retried first, with its sequence")
    func engineRefuses() {
        var play = Play.connected()
        _ = play.when(.append(a, .purge, token: 1))
        _ = play.when(.append(b, .write, token: nil))
        #expect(play.when(.answered([.refused])) == [.keepPending(1, a), .report(1, .pending(.refused))])
        #expect(play.writer.nextTick == 1_000)
        play.now = 1_000
        #expect(play.when(.tick) == [Play.send((a, 1), (b, 2))])
    }

    @Test("responses do not wait for refused writes or writes behind them; both are appended once Redis accepts them")
    func refusedWrites() {
        var play = Play.connected()
        _ = play.when(.append(a, .write, token: 1))
        #expect(play.when(.answered([.refused])) == [.report(1, .later)])
        #expect(play.when(.append(b, .write, token: 2)) == [.hold(b), .report(2, .later)])
        play.now += 1_000
        #expect(play.when(.tick) == [Play.send((a, 1), (b, 2))])
        #expect(play.when(.answered([Play.at(10), Play.at(11)])) == [.settle(a, at: LogPosition(10)), .settle(b, at: LogPosition(11))])
    }

    @Test("a purge during a refusal is reported as refused at once, and sent with the refused ones")
    func refusedBehind() {
        var play = Play.connected()
        _ = play.when(.append(a, .purge, token: 1))
        _ = play.when(.answered([.refused]))
        play.now += 10
        #expect(play.when(.append(b, .purge, token: 2)) == [.hold(b), .keepPending(2, b), .report(2, .pending(.refused))])
        play.now += 990
        #expect(play.when(.tick) == [Play.send((a, 1), (b, 2))])
        #expect(play.when(.answered([.refused, .refused])) == [])
        // The connection is lost in the meantime. A purge that arrives now was not refused.
        _ = play.when(.lost)
        #expect(play.when(.append(LogMessage(.all), .purge, token: 3)).last == .report(3, .pending(.notReached)))
    }

    @Test("if the last minute has more messages than are remembered, everything becomes stale at a new primary")
    func forgotten() {
        var limits = LogWriter.Limits()
        limits.remembered = 4
        var play = Play.connected(limits: limits)
        for name in 1...6 as ClosedRange<UInt8> {
            _ = play.when(.append(Play.message(name), .write, token: nil))
            _ = play.when(.answered([Play.at(UInt64(name))]))
        }
        _ = play.when(.lost)
        let actions = play.when(.connected(isNewPrimary: true, fence: nil, replicas: 1))
        #expect(actions.contains(.hold(.everythingStale)))
        guard case .send(let outgoing) = actions.last else {
            Issue.record("no entry is sent")
            return
        }
        #expect(outgoing.contains { $0.entry.message == .everythingStale } && outgoing.last?.entry.message.kind == .hello)
    }

    @Test("a batch is limited by its number of entries")
    func batches() {
        var limits = LogWriter.Limits()
        limits.batch = 2
        var play = Play(limits: limits)
        for name in 1...3 as ClosedRange<UInt8> { _ = play.when(.append(Play.message(name), .write, token: nil)) }
        #expect(
            play.when(.connected(isNewPrimary: false, fence: nil, replicas: 1)) == [Play.send((Play.message(1), 1), (Play.message(2), 2))])
        #expect(play.when(.answered([Play.at(1), Play.at(2)])).last == Play.send((Play.message(3), 3)))
    }

    @Test("a batch is limited by its bytes, and a longer entry is sent alone")
    func batchBytes() {
        var limits = LogWriter.Limits()
        (limits.batchBytes, limits.argumentBytes) = (10, 20)
        var play = Play(limits: limits)
        func message(_ name: UInt8, _ count: Int) -> LogMessage { LogMessage(.target, argument: Array(repeating: name, count: count)) }
        let messages = [message(1, 6), message(2, 4), message(3, 1), message(4, 15), message(5, 1)]
        for message in messages { _ = play.when(.append(message, .purge, token: nil)) }
        #expect(play.when(.connected(isNewPrimary: false, fence: nil, replicas: 1)) == [Play.send((messages[0], 1), (messages[1], 2))])
        let rest: [(LogMessage, UInt64)] = [(messages[2], 3), (messages[3], 4), (messages[4], 5)]
        var position: UInt64 = 1
        for (sent, next) in zip([2, 1, 1], rest) {
            let replies = (0..<sent).map { Play.at(position + UInt64($0)) }
            position += UInt64(sent)
            _ = play.when(.answered(replies))
            #expect(play.when(.waited(replicas: 1)).last == Play.send(next))
        }
    }

    @Test("an oversized argument is widened: a write to everything stale, a purge to a purge of everything")
    func tooLong() {
        var limits = LogWriter.Limits()
        limits.argumentBytes = 1
        var play = Play(limits: limits)
        let long = LogMessage(.target, argument: [1, 2])
        #expect(play.when(.append(long, .write, token: nil)) == [.hold(.everythingStale)])
        #expect(play.when(.append(long, .purge, token: nil)) == [.hold(LogMessage(.all))])
        #expect(
            play.when(.append(LogMessage(.selection, argument: [1, 2], isSoft: true), .purge, token: nil))
                == [.hold(LogMessage(.all, isSoft: true))])
        #expect(play.when(.append(a, .purge, token: nil)) == [.hold(a)])
    }
}
