// Tests that appended entries come back: which node greets in a quiet log, and when a node counts as disconnected although it can read.

import TestSupport
import Testing

@testable import Fleet

@Suite("A Redis server that can be read and rejects writes")
struct EchoTests {
    private typealias Play = FollowerPlay
    private let info = FollowerPlay.info

    /// The log is quiet for at most four seconds. This node greets after 2,099 ms.
    private func quiet() -> FollowerPlay {
        var limits = LogFollower.Limits()
        limits.quiet = 4_000
        return Play.upToDate(limits: limits)
    }

    @Test("a node without news sends one greeting per interval; a node that reads another node's greeting sends none")
    func greeting() {
        var play = quiet()
        let read = play.follower.echo.last
        #expect(play.follower.helloAfter == 2_099)
        _ = play.when(.nothingNew, at: read + 1_000)
        _ = play.when(.nothingNew, at: read + 2_098)
        #expect(!play.when(.tick, at: read + 2_098).contains(.sendHello))
        #expect(play.when(.tick, at: read + 2_099).contains(.sendHello))
        #expect(!play.when(.tick, at: read + 2_300).contains(.sendHello), "the greeting is in flight")
        _ = play.when(.entries([Play.entry(5_000, .hello, node: Play.node, 1)]), at: read + 2_400)
        _ = play.when(.nothingNew, at: read + 3_400)
        _ = play.when(.entries([Play.entry(6_000, .hello, node: 5, 2)]), at: read + 4_300)
        _ = play.when(.nothingNew, at: read + 5_300)
        #expect(!play.when(.tick, at: read + 6_398).contains(.sendHello))
        #expect(play.when(.tick, at: read + 6_399).contains(.sendHello))
    }

    @Test("a refused append disconnects the node, which continues reading; it reconnects once an append succeeded and was read")
    func refused() {
        var play = quiet()
        let read = play.follower.echo.last
        #expect(play.when(.refused) == [.disconnected(since: read, .refused)])
        #expect(play.follower.version == nil && play.follower.connectedUntil == nil)
        #expect(play.when(.refused) == [])
        let other = Play.entry(2_000, .target, node: 5, 2)
        #expect(
            play.when(.entries([other])) == [.apply(other), .report(2), .readFrom(LogPosition(2_000))], "entries of other nodes are applied"
        )
        #expect(play.when(.appended(LogPosition(3_000))) == [])
        #expect(!play.follower.isUpToDate)
        let own = Play.entry(3_000, .hello, node: Play.node, 1)
        #expect(play.when(.entries([own])).first == .upToDate)
        #expect(play.follower.isUpToDate)
    }

    @Test("a node whose append was refused stays disconnected after reconnecting to the log, and reports the reason")
    func refusedBefore() {
        var play = quiet()
        let read = play.follower.echo.last
        _ = play.when(.refused)
        #expect(play.when(.lost) == [], "the node is already disconnected")
        _ = play.when(.connected(info(100, 1, 1, 100, 1, 1, 0), fleetMilliseconds: nil))
        _ = play.when(.nothingNew)
        #expect(play.when(.infoRead(info(100, 1, 1, 100, 1, 1, 0))) == [.disconnected(since: read, .refused)])
        #expect(play.when(.appended(LogPosition(200))) == [])
        #expect(play.when(.entries([Play.entry(200, .hello, node: Play.node, 1)])).contains(.upToDate))
    }

    @Test("an own entry not read within 1.5 seconds means that reads and writes reach different servers")
    func ownEntryNotRead() {
        var play = quiet()
        let appended = play.now + 100
        #expect(play.when(.appended(LogPosition(200)), at: appended) == [])
        _ = play.when(.nothingNew, at: appended + 1_000)
        #expect(!play.when(.tick, at: appended + 1_500).contains(.reconnect))
        #expect(play.when(.tick, at: appended + 1_501) == [.disconnected(since: appended + 1_000, .unheard), .reconnect])
        _ = play.when(.connected(info(100, 1, 1, 100, 1, 1, 0), fleetMilliseconds: nil))
        _ = play.when(.nothingNew)
        let since = play.follower.echo.last
        #expect(play.when(.infoRead(info(100, 1, 1, 100, 1, 1, 0))) == [.disconnected(since: since, .unheard), .sendHello])
        _ = play.when(.appended(LogPosition(300)))
        #expect(play.when(.entries([Play.entry(300, .hello, node: Play.node, 2)])).contains(.upToDate))
    }

    @Test("an own entry that is read before its append reply counts as read")
    func readFirst() {
        var play = quiet()
        _ = play.when(.entries([Play.entry(200, .hello, node: Play.node, 1)]))
        #expect(play.when(.appended(LogPosition(200))) == [])
        _ = play.when(.nothingNew, at: play.now + 1_000)
        _ = play.when(.nothingNew, at: play.now + 1_000)
        #expect(play.follower.isUpToDate && play.follower.echo.awaited == nil)
    }

    @Test("hundreds of idle nodes together append only a few greetings per interval, even if some nodes stop", arguments: [2, 300])
    func fewGreetings(count: Int) {
        var numbers = SeededGenerator(seed: UInt64(count))
        let limits = LogFollower.Limits()
        var nodes: [(follower: LogFollower, tick: Int64, sequence: UInt64)] = (0..<count).map { _ in
            let kept = KeptPosition(position: LogPosition(100), epoch: 1, primary: [1], added: 1)
            var follower = LogFollower(node: numbers.next(), kept: kept, now: 0, limits: limits)
            _ = follower.handle(.connected(info(100, 1, 1, 100, 1, 1, 0), fleetMilliseconds: nil), now: 0)
            _ = follower.handle(.entries([Play.entry(100)]), now: 0)
            _ = follower.handle(.infoRead(info(100, 1, 1, 100, 1, 1, 0)), now: 0)
            return (follower, Int64.random(in: 0..<250, using: &numbers), 0)
        }
        /// Entries of the log, with the time at which all nodes have read them: after one round trip.
        var (log, greetings, longest, last): ([(PositionedEntry, Int64)], Int, Int64, Int64) = ([], 0, 0, 0)
        let end: Int64 = 150_000
        for now in stride(from: 0, to: end, by: 10) as StrideTo<Int64> {
            while let (placed, due) = log.first, due <= now {
                log.removeFirst()
                for index in nodes.indices { _ = nodes[index].follower.handle(.entries([placed]), now: now) }
                (longest, last) = (max(longest, now - last), now)
            }
            for index in nodes.indices where (now + nodes[index].tick) % 250 < 10 {
                _ = nodes[index].follower.handle(.nothingNew, now: now)
                guard nodes[index].follower.handle(.tick, now: now).contains(.sendHello) else { continue }
                nodes[index].sequence += 1
                greetings += 1
                log.append((Play.entry(UInt64(10_000 + now), .hello, node: nodes[index].follower.node, nodes[index].sequence), now + 20))
            }
        }
        #expect(longest <= limits.quiet + 300, "every node reads an entry within this time")
        #expect(greetings <= Int(end / (limits.quiet / 2)) * 3, "\(greetings)")
    }
}
