// Tests what the writer persists for the next process: purges that no replica has, and writes that are not in the log.

import Testing

@testable import Fleet

@Suite("Unsent messages kept for the next process")
struct WriterKeepingTests {
    private typealias Play = WriterPlay
    private let a = WriterPlay.message(1)
    private let b = WriterPlay.message(2)

    @Test("a purge kept from an earlier process is appended again after numbered messages")
    func keptPurge() {
        var play = Play()
        _ = play.when(.append(a, .purge, token: 1))
        #expect(play.when(.append(b, .keptPurge, token: 2)) == [.hold(b)])
        #expect(play.when(.connected(isNewPrimary: true, fence: nil, replicas: 1)) == [Play.send((a, 1), (b, 2))])
        #expect(play.when(.answered([Play.at(10), Play.at(11)])).last == .wait)
        #expect(play.when(.waited(replicas: 1)) == [.dropPending(1), .report(1, .durable), .dropPending(2), .report(2, .durable)])
    }

    @Test("writes without a log position are kept once each, including those in progress; purges are not among them")
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

    @Test("too many or too long writes are kept as one message that makes everything stale")
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

    @Test("a kept write is sent and removed once it is in the log; until then it is not kept twice")
    func keptWrite() {
        var play = Play()
        #expect(play.when(.append(a, .keptWrite, token: 1)) == [.hold(a)])
        #expect(play.when(.append(a, .write, token: 2)) == [.hold(a), .report(2, .later)])
        #expect(play.when(.connected(isNewPrimary: false, fence: nil, replicas: 1)) == [Play.send((a, 1), (a, 2))])
        #expect(play.when(.lost) == [])
        #expect(play.writer.writesToKeep == [a])
        _ = play.when(.connected(isNewPrimary: false, fence: nil, replicas: 1))
        #expect(
            play.when(.answered([Play.at(5), Play.at(6)])) == [
                .settle(a, at: LogPosition(5)), .dropPending(1), .settle(a, at: LogPosition(6)),
            ])
    }

    @Test("purges beyond the byte limit are refused")
    func bytes() {
        var limits = LogWriter.Limits()
        limits.purgeBytes = 3
        func long(_ name: UInt8) -> LogMessage { LogMessage(.target, argument: [name, name]) }
        var play = Play(limits: limits)
        _ = play.when(.append(long(1), .purge, token: 1))
        #expect(play.when(.append(long(2), .purge, token: 2)) == [.report(2, .refused)])
        #expect(play.when(.append(a, .purge, token: 3)).first == .hold(a))
    }
}
