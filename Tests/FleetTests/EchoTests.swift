// Tests that appended entries come back: which node greets in a quiet log, and when a node counts as disconnected although it can read.

import TestSupport
import Testing

@testable import Fleet

@Suite("An engine that can be read and does not take writes")
struct EchoTests {
    private typealias Play = FollowerPlay
    private let info = FollowerPlay.info

    /// The log is quiet for at most four seconds. This node greets after 2,099 ms.
    private func quiet() -> FollowerPlay {
        var limits = LogFollower.Limits()
        limits.quiet = 4_000
        return Play.seeing(limits: limits)
    }

    @Test("a node that has read nothing new for its time greets once, and again after as long; who reads another's greeting does not")
    func greeting() {
        var play = quiet()
        let read = play.follower.echo.last
        #expect(play.follower.greetsAfter == 2_099)
        _ = play.when(.nothingNew, at: read + 1_000)
        _ = play.when(.nothingNew, at: read + 2_098)
        #expect(!play.when(.tick, at: read + 2_098).contains(.greet))
        #expect(play.when(.tick, at: read + 2_099).contains(.greet))
        #expect(!play.when(.tick, at: read + 2_300).contains(.greet), "it is under way")
        _ = play.when(.entries([Play.entry(5_000, .hello, node: Play.node, 1)]), at: read + 2_400)
        _ = play.when(.nothingNew, at: read + 3_400)
        _ = play.when(.entries([Play.entry(6_000, .hello, node: 5, 2)]), at: read + 4_300)
        _ = play.when(.nothingNew, at: read + 5_300)
        #expect(!play.when(.tick, at: read + 6_398).contains(.greet))
        #expect(play.when(.tick, at: read + 6_399).contains(.greet))
    }

    @Test("an append that is refused disconnects the node, which goes on reading; once one was taken and is read it is connected again")
    func refused() {
        var play = quiet()
        let read = play.follower.echo.last
        #expect(play.when(.refused) == [.blind(since: read, .refused)])
        #expect(play.follower.version == nil && play.follower.seesUntil == nil)
        #expect(play.when(.refused) == [])
        let other = Play.entry(2_000, .target, node: 5, 2)
        #expect(play.when(.entries([other])) == [.apply(other), .report(2), .readFrom(LogPosition(2_000))], "and obeys what others say")
        #expect(play.when(.appended(LogPosition(3_000))) == [])
        #expect(!play.follower.isSeeing)
        let own = Play.entry(3_000, .hello, node: Play.node, 1)
        #expect(play.when(.entries([own])).first == .seeing)
        #expect(play.follower.isSeeing)
    }

    @Test("who was refused is not connected by meeting the log anew, and says why")
    func refusedBefore() {
        var play = quiet()
        let read = play.follower.echo.last
        _ = play.when(.refused)
        #expect(play.when(.lost) == [], "it was disconnected already")
        _ = play.when(.connected(info(100, 1, 1, 100, 1, 1, 0), fleetMilliseconds: nil))
        _ = play.when(.nothingNew)
        #expect(play.when(.looked(info(100, 1, 1, 100, 1, 1, 0))) == [.blind(since: read, .refused)])
        #expect(play.when(.appended(LogPosition(200))) == [])
        #expect(play.when(.entries([Play.entry(200, .hello, node: Play.node, 1)])).contains(.seeing))
    }

    @Test("an own entry that is in the log and is not read within a second and a half: the servers of reading and writing are not the same")
    func unheard() {
        var play = quiet()
        let appended = play.now + 100
        #expect(play.when(.appended(LogPosition(200)), at: appended) == [])
        _ = play.when(.nothingNew, at: appended + 1_000)
        #expect(!play.when(.tick, at: appended + 1_500).contains(.reconnect))
        #expect(play.when(.tick, at: appended + 1_501) == [.blind(since: appended + 1_000, .unheard), .reconnect])
        _ = play.when(.connected(info(100, 1, 1, 100, 1, 1, 0), fleetMilliseconds: nil))
        _ = play.when(.nothingNew)
        let since = play.follower.echo.last
        #expect(play.when(.looked(info(100, 1, 1, 100, 1, 1, 0))) == [.blind(since: since, .unheard), .greet])
        _ = play.when(.appended(LogPosition(300)))
        #expect(play.when(.entries([Play.entry(300, .hello, node: Play.node, 2)])).contains(.seeing))
    }

    @Test("what is read before its reply comes is heard")
    func readFirst() {
        var play = quiet()
        _ = play.when(.entries([Play.entry(200, .hello, node: Play.node, 1)]))
        #expect(play.when(.appended(LogPosition(200))) == [])
        _ = play.when(.nothingNew, at: play.now + 1_000)
        _ = play.when(.nothingNew, at: play.now + 1_000)
        #expect(play.follower.isSeeing && play.follower.echo.awaited == nil)
    }

    @Test("three hundred nodes of a quiet fleet append some greetings in each interval, whoever of them ends", arguments: [2, 300])
    func oneForAll(count: Int) {
        var numbers = SeededGenerator(seed: UInt64(count))
        let limits = LogFollower.Limits()
        var nodes: [(follower: LogFollower, tick: Int64, sequence: UInt64)] = (0..<count).map { _ in
            let kept = KeptPosition(position: LogPosition(100), epoch: 1, primary: [1], added: 1)
            var follower = LogFollower(node: numbers.next(), kept: kept, now: 0, limits: limits)
            _ = follower.handle(.connected(info(100, 1, 1, 100, 1, 1, 0), fleetMilliseconds: nil), now: 0)
            _ = follower.handle(.entries([Play.entry(100)]), now: 0)
            _ = follower.handle(.looked(info(100, 1, 1, 100, 1, 1, 0)), now: 0)
            return (follower, Int64.random(in: 0..<250, using: &numbers), 0)
        }
        /// Entries of the log, with the time at which all nodes have read them: after one round trip.
        var (log, greetings, longest, last): ([(PlacedEntry, Int64)], Int, Int64, Int64) = ([], 0, 0, 0)
        let end: Int64 = 150_000
        for now in stride(from: 0, to: end, by: 10) as StrideTo<Int64> {
            while let (placed, due) = log.first, due <= now {
                log.removeFirst()
                for index in nodes.indices { _ = nodes[index].follower.handle(.entries([placed]), now: now) }
                (longest, last) = (max(longest, now - last), now)
            }
            for index in nodes.indices where (now + nodes[index].tick) % 250 < 10 {
                _ = nodes[index].follower.handle(.nothingNew, now: now)
                guard nodes[index].follower.handle(.tick, now: now).contains(.greet) else { continue }
                nodes[index].sequence += 1
                greetings += 1
                log.append((Play.entry(UInt64(10_000 + now), .hello, node: nodes[index].follower.node, nodes[index].sequence), now + 20))
            }
        }
        #expect(longest <= limits.quiet + 300, "nobody hears nothing for longer")
        #expect(greetings <= Int(end / (limits.quiet / 2)) * 3, "\(greetings)")
    }
}
