// Who leads a fetch, who waits for it, and what wakes those who wait: without sockets.

import Decisions
import HTTPCore
import Locking
import Testing

@testable import Coordination

@Suite("Requests that share a fetch, as a machine")
struct CollapsedRequestsTests {
    /// One who comes, with what has woken it.
    private final class Follower: FlightFollower {
        let outcomes = Mutex<[String]>([])

        func join(_ requests: CollapsedRequests, _ key: [UInt8] = [1], now: Int64 = 0) -> String {
            let place = requests.join(FlightKey(key), now: now, as: self)
            return "\(place)"
        }

        func flightEnded(_ outcome: FlightOutcome) { outcomes.withLock { $0.append("\(outcome)") } }

        var woken: [String] { outcomes.withLock { $0 } }
    }

    @Test("the first leads, the others follow and are woken once; then the next leads")
    func leading() {
        let requests = CollapsedRequests()
        let all = (0..<3).map { _ in Follower() }
        #expect(all.map { $0.join(requests) } == ["leader", "follower", "follower"])
        #expect(requests.waiting == 2)
        requests.end(FlightKey([1]), .stored, now: 0)
        #expect(all.map(\.woken) == [[], ["stored"], ["stored"]])
        requests.end(FlightKey([1]), .abandoned, now: 0)
        #expect(all.map(\.woken) == [[], ["stored"], ["stored"]])
        #expect(Follower().join(requests) == "leader")
    }

    @Test("who comes after a write waits for nothing that was asked for before it; with the next fetch all is as ever")
    func written() {
        let requests = CollapsedRequests()
        let (leader, follower, reader) = (Follower(), Follower(), Follower())
        #expect([leader, follower].map { $0.join(requests) } == ["leader", "follower"])
        requests.noteWrite()
        #expect(reader.join(requests) == "alone")
        requests.noteSlow(FlightKey([1]))
        #expect(reader.join(requests) == "alone")
        requests.end(FlightKey([1]), .stored, now: 0)
        #expect(follower.woken == ["stored"] && reader.woken.isEmpty)
        #expect([reader, follower].map { $0.join(requests) } == ["leader", "follower"])
    }

    @Test("another user's write keeps nobody from waiting; of very many users that write, none is overlooked")
    func writtenByOthers() {
        let requests = CollapsedRequests()
        let (leader, follower) = (Follower(), Follower())
        #expect(requests.join(FlightKey([1]), now: 0, by: 1, as: leader) == .leader)
        requests.noteWrite(by: 2)
        #expect(requests.join(FlightKey([1]), now: 0, by: 1, as: follower) == .follower)
        #expect(requests.join(FlightKey([1]), now: 0, by: 2, as: follower) == .alone)
        for user in 3..<10_000 as Range<UInt64> { requests.noteWrite(by: user) }
        #expect(requests.join(FlightKey([1]), now: 0, by: 2, as: follower) == .alone)
        #expect(requests.join(FlightKey([1]), now: 0, by: 9_999, as: follower) == .alone)
    }

    @Test("another key is another fetch")
    func keys() {
        let requests = CollapsedRequests()
        #expect(Follower().join(requests, [1]) == "leader")
        #expect(Follower().join(requests, [2]) == "leader")
    }

    @Test("who leaves is not woken")
    func leaving() {
        let requests = CollapsedRequests()
        let (leader, gone, left) = (Follower(), Follower(), Follower())
        _ = [leader, gone, left].map { $0.join(requests) }
        requests.leave(FlightKey([1]), ObjectIdentifier(gone))
        #expect(requests.waiting == 1)
        requests.end(FlightKey([1]), .stored, now: 0)
        #expect(gone.woken.isEmpty && left.woken == ["stored"])
    }

    @Test("what cannot be shared is not waited for again, for ten seconds")
    func unshareable() {
        let requests = CollapsedRequests()
        let (leader, follower) = (Follower(), Follower())
        _ = [leader, follower].map { $0.join(requests) }
        requests.end(FlightKey([1]), .unshareable, now: 1_000)
        #expect(follower.woken == ["unshareable"])
        #expect(Follower().join(requests, now: 10_999) == "alone")
        #expect(Follower().join(requests, now: 11_000) == "leader")
    }

    @Test("a fetch that takes too long is not waited for; whichever ends first wakes those who wait already")
    func slow() {
        let requests = CollapsedRequests()
        let (first, waiting, second, third) = (Follower(), Follower(), Follower(), Follower())
        _ = [first, waiting].map { $0.join(requests) }
        requests.noteSlow(FlightKey([1]))
        #expect(second.join(requests) == "leader")
        #expect(third.join(requests) == "follower")
        requests.end(FlightKey([1]), .stored, now: 0)
        #expect(waiting.woken == ["stored"] && third.woken == ["stored"])
    }

    @Test("a background fetch leads where nobody does, and only there")
    func background() {
        let requests = CollapsedRequests()
        #expect(requests.lead(FlightKey([1])))
        #expect(!requests.lead(FlightKey([1])))
        #expect(Follower().join(requests) == "follower")
    }
}
