// Tests of request collapsing: which request leads a fetch, which ones follow, and what wakes followers. Without sockets.

import CachePolicy
import Decisions
import HTTPCore
import Reactor
import TestSupport
import Testing
import Upstream

@testable import ReverseProxy

@Suite("Collapsed requests")
struct CollapsedRequestsTests {
    /// A request that may follow a fetch. Records the outcomes that woke it.
    private final class Follower: FlightFollower {
        let outcomes = Mutex<[String]>([])
        private let last = Mutex<Flight?>(nil)
        let clientNumber: UInt64

        init(client: UInt64 = 0) { clientNumber = client }

        func join(_ requests: CollapsedRequests, _ key: [UInt8] = [1], by user: UInt64 = 0, now: Int64 = 0) -> String {
            let joined = requests.join(FlightKey(key), now: now, by: user, as: self)
            last.withLock { $0 = joined.flight }
            return "\(joined.role)"
        }

        func end(_ requests: CollapsedRequests, _ outcome: FlightOutcome, now: Int64 = 0) {
            if let flight { requests.end(flight, of: FlightKey([1]), outcome, by: clientNumber, began: now, now: now) }
        }

        var flight: Flight? { last.withLock { $0 } }

        func flightEnded(_ outcome: FlightOutcome, isOwn: Bool, order: SentOrder) {
            outcomes.withLock { $0.append("\(outcome)\(isOwn ? "" : " of another")") }
        }

        var woken: [String] { outcomes.withLock { $0 } }
    }

    @Test("the first request leads, the others follow and are woken once; then the next request leads")
    func leading() {
        let requests = CollapsedRequests()
        let all = (0..<3).map { _ in Follower() }
        #expect(all.map { $0.join(requests) } == ["leader", "follower", "follower"])
        #expect(requests.waiting == 2)
        all[0].end(requests, .stored)
        #expect(all.map(\.woken) == [[], ["stored"], ["stored"]])
        all[0].end(requests, .abandoned)
        #expect(all.map(\.woken) == [[], ["stored"], ["stored"]])
        #expect(Follower().join(requests) == "leader")
    }

    @Test("a request after a write does not follow earlier fetches, but may follow later ones")
    func written() throws {
        let requests = CollapsedRequests()
        let all = (0..<6).map { _ in Follower() }
        #expect(all[..<2].map { $0.join(requests) } == ["leader", "follower"])
        requests.noteWrite()
        #expect(all[2..<4].map { $0.join(requests) } == ["leader", "follower"])
        // Regardless of the outcome of the previous fetch.
        requests.noteSlow(try #require(all[0].flight))
        #expect(all[4].join(requests) == "follower")
        requests.leave(try #require(all[0].flight), ObjectIdentifier(all[4]))
        #expect(requests.waiting == 3)
        all[0].end(requests, .unshareable, now: -10_000)
        #expect(all.map(\.woken) == [[], ["unshareable"], [], [], [], []])
        #expect(all[5].join(requests) == "follower")
        all[2].end(requests, .stored)
        #expect(all.map(\.woken) == [[], ["unshareable"], [], ["stored"], ["stored"], ["stored"]])
        #expect(requests.waiting == 0 && all[5].join(requests) == "leader")
    }

    @Test("frequent writes cause one fetch for each write")
    func busyWriter() {
        let requests = CollapsedRequests()
        var places: [String] = []
        for round in 0..<100 {
            if round % 10 == 0 { requests.noteWrite() }
            places.append(Follower().join(requests))
        }
        #expect(places.filter { $0 == "leader" }.count == 10 && places.filter { $0 == "follower" }.count == 90)
    }

    @Test("a write affects only its own user's requests, and no user's write is missed among many")
    func writtenByOthers() {
        let requests = CollapsedRequests()
        let all = (0..<6).map { _ in Follower() }
        #expect(all[0].join(requests, by: 1) == "leader")
        requests.noteWrite(by: 2)
        #expect(all[1].join(requests, by: 1) == "follower")
        #expect(all[2].join(requests, by: 2) == "leader")
        #expect(all[3].join(requests, by: 1) == "follower" && all[3].flight == all[2].flight)
        for user in 3..<10_000 as Range<UInt64> { requests.noteWrite(by: user) }
        #expect(all[4].join(requests, by: 2) == "leader")
        #expect(all[5].join(requests, by: 9_999) == "follower")
    }

    @Test("a write in another process counts as a write by every user")
    func writtenElsewhere() {
        let requests = CollapsedRequests()
        #expect(Follower().join(requests, by: 1) == "leader")
        requests.noteWriteElsewhere()
        #expect(Follower().join(requests, by: 1) == "leader" && Follower().join(requests, by: 2) == "follower")
        requests.noteWriteElsewhere()
        #expect(Follower().join(requests, by: 2) == "leader")
    }

    @Test("a long wait makes a follower a second leader, once per interval; the first fetch to end wakes the rest")
    func leadingToo() throws {
        let requests = CollapsedRequests()
        let first = Follower(client: 1)
        let same = (0..<2).map { _ in Follower(client: 1) }
        let others = (2...4 as ClosedRange<UInt64>).map { Follower(client: $0) }
        let roles = ([first] + same + others).map { $0.join(requests) }
        #expect(roles == ["leader"] + Array(repeating: "follower", count: 5))
        let flight = try #require(first.flight)
        #expect(!requests.leadToo(flight, same[0], after: 700, now: 699))
        #expect(requests.leadToo(flight, same[0], after: 700, now: 700))
        #expect(!requests.leadToo(flight, same[1], after: 700, now: 5_000), "a client has two fetches")
        #expect(!requests.leadToo(flight, others[0], after: 700, now: 1_399))
        #expect(requests.leadToo(flight, others[0], after: 700, now: 1_400))
        #expect(!requests.leadToo(flight, others[0], after: 700, now: 5_000))
        #expect(requests.leadToo(flight, others[1], after: 700, now: 2_100) && requests.waiting == 2)
        others[0].end(requests, .stored)
        #expect(same.map(\.woken) == [[], ["stored of another"]] && others.map(\.woken) == [[], [], ["stored of another"]])
        #expect(!requests.leadToo(flight, others[2], after: 0, now: 9_000))
    }

    @Test("a follower learns whether the failed fetch was its own client's")
    func ownFetch() {
        let requests = CollapsedRequests()
        let all = [1, 1, 2].map { Follower(client: $0) }
        _ = all.map { $0.join(requests) }
        all[0].end(requests, .failed(.slow))
        #expect(all.map(\.woken) == [[], ["failed(Decisions.FetchFailure.slow)"], ["failed(Decisions.FetchFailure.slow) of another"]])
    }

    @Test("requests with different keys do not share a fetch")
    func keys() {
        let requests = CollapsedRequests()
        #expect(Follower().join(requests, [1]) == "leader")
        #expect(Follower().join(requests, [2]) == "leader")
    }

    @Test("a follower that left is not woken")
    func leaving() {
        let requests = CollapsedRequests()
        let (leader, gone, left) = (Follower(), Follower(), Follower())
        _ = [leader, gone, left].map { $0.join(requests) }
        if let flight = gone.flight { requests.leave(flight, ObjectIdentifier(gone)) }
        #expect(requests.waiting == 1)
        leader.end(requests, .stored)
        #expect(gone.woken.isEmpty && left.woken == ["stored"])
    }

    @Test(
        "an unshareable response or upstream failure suspends waiting for ten times the upstream's time",
        arguments: [FlightOutcome.unshareable, .failed(.fault(.serverError, 503)), .failed(.transfer(.connectionTerminated))])
    func remembered(outcome: FlightOutcome) {
        let requests = CollapsedRequests()
        let (leader, follower) = (Follower(), Follower())
        _ = [leader, follower].map { $0.join(requests) }
        leader.end(requests, outcome, now: 1_000)
        #expect(follower.woken == ["\(outcome)"])
        #expect(Follower().join(requests, now: 10_999) == "alone")
        #expect(Follower().join(requests, now: 11_000) == "leader")
    }

    @Test(
        "limits of Cistern and outcomes that do not predict the next response are not remembered",
        arguments: [
            FlightOutcome.stored, .outdated, .overtaken, .abandoned, .failed(.tooManyStreams), .failed(.transfer(.connectionLimitReached)),
        ])
    func notRemembered(outcome: FlightOutcome) {
        let requests = CollapsedRequests()
        let leader = Follower()
        _ = leader.join(requests)
        leader.end(requests, outcome, now: 1_000)
        #expect(Follower().join(requests, now: 1_000) == "leader")
    }

    @Test("a stored response permits collapsing again, also after a request that was sent alone")
    func sharedAgain() {
        let requests = CollapsedRequests()
        let leader = Follower()
        _ = leader.join(requests)
        leader.end(requests, .unshareable, now: 1_000)
        #expect(Follower().join(requests, now: 1_000) == "alone")
        requests.end(nil, of: FlightKey([1]), .stored, began: 999, now: 1_000)
        #expect(Follower().join(requests, now: 1_000) == "leader")
    }

    @Test("a request past its waiting time leads or is sent alone, and does not follow")
    func deadlinePassed() {
        let requests = CollapsedRequests()
        func join() -> FlightRole { requests.join(FlightKey([1]), now: 0, as: Follower(), mayWait: false).role }
        #expect(join() == .leader && join() == .alone && requests.waiting == 0)
        #expect(Follower().join(requests) == "follower")
    }

    @Test("a fetch that waits for other requests of its client gets no followers of other clients")
    func clientLimited() {
        let requests = CollapsedRequests()
        let (first, own, other, next) = (Follower(client: 1), Follower(client: 1), Follower(client: 2), Follower(client: 3))
        #expect(first.join(requests) == "leader")
        if let flight = first.flight { requests.noteClientLimited(flight) }
        #expect([own, other, next].map { $0.join(requests) } == ["follower", "leader", "follower"])
        other.end(requests, .stored)
        #expect(own.woken == ["stored of another"] && next.woken == ["stored of another"])
    }

    @Test("whatever is slow, a client has at most two fetches for a flight, and one more in ten seconds")
    func fetchesOfOneClient() {
        RandomSchedules.run(300) {
            $0
        } end: { random in
            let requests = CollapsedRequests()
            var (now, led): (Int64, [UInt64: [Int64]]) = (0, [:])
            var flights: [(follower: Follower, isLeader: Bool)] = []
            func lead(_ follower: Follower) throws {
                let former = led[follower.clientNumber] ?? []
                let isAllowed = former.count < 2 || now - (former.last ?? 0) >= 10_000
                try demand(isAllowed, "\(follower.clientNumber) leads again at \(now), after \(former)")
                led[follower.clientNumber] = former + [now]
            }
            for _ in 0..<60 {
                now += Int64(random.below(1_500))
                switch random.below(5) {
                case 4: if let flight = flights.last?.follower.flight { requests.noteClientLimited(flight) }
                case 0...1:
                    let follower = Follower(client: UInt64(random.below(4)))
                    let role = follower.join(requests, now: now)
                    if role == "leader" { try lead(follower) }
                    flights.append((follower, role == "leader"))
                case 2:
                    if let flight = flights.last?.follower.flight { requests.noteSlow(flight) }
                default:
                    guard let index = flights.indices.last(where: { !flights[$0].isLeader }), let flight = flights[index].follower.flight
                    else { continue }
                    if requests.leadToo(flight, flights[index].follower, after: 700, now: now) {
                        try lead(flights[index].follower)
                        flights[index].isLeader = true
                    }
                }
            }
        }
    }

    @Test("four clients lead a slow flight within ten seconds, and others follow")
    func manyLeaders() {
        let requests = CollapsedRequests()
        func roles(_ clients: ClosedRange<UInt64>, now: Int64) -> [String] {
            clients.map { client in
                let follower = Follower(client: client)
                let role = follower.join(requests, now: now)
                if let flight = follower.flight { requests.noteSlow(flight) }
                return role
            }
        }
        #expect(roles(1...6, now: 0) == ["leader", "leader", "leader", "leader", "follower", "follower"])
        #expect(roles(7...7, now: 9_999) == ["follower"])
        #expect(roles(8...12, now: 10_000) == ["leader", "leader", "leader", "leader", "follower"])
    }

    @Test("a slow fetch gets no new followers of other clients, and the fetch that ends first wakes all waiting ones")
    func slow() {
        let requests = CollapsedRequests()
        let (first, waiting, second, third) = (Follower(client: 1), Follower(client: 2), Follower(client: 3), Follower(client: 4))
        #expect([first, waiting].map { $0.join(requests) } == ["leader", "follower"])
        if let flight = first.flight { requests.noteSlow(flight) }
        #expect(Follower(client: 1).join(requests) == "leader")
        if let flight = first.flight { requests.noteSlow(flight) }
        #expect(Follower(client: 1).join(requests) == "follower")
        #expect([second, third].map { $0.join(requests) } == ["leader", "follower"])
        second.end(requests, .stored)
        #expect(waiting.woken == ["stored of another"] && third.woken == ["stored of another"])
        // The end of the slower fetch wakes no follower of another fetch.
        let (next, last) = (Follower(), Follower())
        #expect([next, last].map { $0.join(requests) } == ["leader", "follower"])
        first.end(requests, .stored)
        #expect(last.woken.isEmpty)
    }

    @Test("a background fetch leads only if no other fetch does")
    func background() {
        let requests = CollapsedRequests()
        #expect(requests.lead(FlightKey([1]), span: .none, client: 0, now: 0) != nil)
        #expect(requests.lead(FlightKey([1]), span: .none, client: 0, now: 0) == nil)
        #expect(Follower().join(requests) == "follower")
    }
}
