// Concurrent requests for one target at several nodes, in virtual time. Uses the real state machines for waiting between nodes
// (`LeaseWait`), for waiting within a node (`CollapsedRequests`) and for the decision after a wait (`OutcomeFacts`). The engine, the
// upstream and the clock are models.

import CachePolicy
import Decisions
import Fleet
import HTTPCore
import ReverseProxy
import TestSupport
import Upstream

/// A random schedule.
struct CrowdSchedule {
    enum Kind: CaseIterable { case shareable, tooLong, unshareable, fault, broken }

    var kind: Kind
    var nodes: Int
    /// Milliseconds until the upstream's head, and until the end of its response.
    var head: Int64
    var whole: Int64
    /// Arrival time and node of each client.
    var clients: [(at: Int64, node: Int)]
    /// Period in which the engine does not respond.
    var stall: Range<Int64>?
    /// Time from which the first fetching node is dead.
    var death: Int64?
}

final class ModelCrowd {
    /// `@unchecked Sendable` because a model has one thread.
    final class Client: FlightFollower, @unchecked Sendable {
        let number: Int
        let node: Int
        let arrival: Int64
        var ended: Int64?
        var flight: Flight?
        var isFollowing = false
        var outcome: FlightOutcome?

        init(_ number: Int, _ node: Int, _ arrival: Int64) { (self.number, self.node, self.arrival) = (number, node, arrival) }

        var clientNumber: UInt64 { 1 }
        func flightEnded(_ outcome: FlightOutcome, isOwn: Bool, order: SentOrder) { self.outcome = outcome }
    }

    private final class Stored {}

    private struct Search {
        var wait: LeaseWait
        var waiters: [Client]
    }

    private struct Node {
        let collapsed = CollapsedRequests()
        var search: Search?
        var hasLease = false
        var isStored = false
        var isGone = false
        var markEnd: Int64 = 0
        var requestEnd: Int64 = 0
        var began: Int64 = 0
    }

    private enum Lease: Equatable {
        case node(Int)
        case mark(LeaseMark)
    }

    static let wait: Int64 = 5_000
    /// Later than the end of any schedule.
    private static let end: Int64 = 60_000
    private static let roundTrip: Int64 = 1
    private static let key = FlightKey([1])

    private let schedule: CrowdSchedule
    private(set) var now: Int64 = 0
    private var nodes: [Node]
    private var hasRecord = false
    private var lease: (value: Lease, end: Int64)?
    private var events: [(at: Int64, number: Int, act: () -> Void)] = []
    private var lastEvent = 0
    private(set) var clients: [Client] = []
    private(set) var requests = 0

    init(_ schedule: CrowdSchedule) {
        self.schedule = schedule
        nodes = (0..<schedule.nodes).map { _ in Node() }
        clients = schedule.clients.enumerated().map { Client($0.offset, $0.element.node, $0.element.at) }
    }

    func run() {
        for client in clients { at(client.arrival) { [self] in arrive(client) } }
        if let death = schedule.death {
            at(death) { [self] in nodes.firstIndex(where: \.hasLease).map { nodes[$0].isGone = true } }
        }
        while let next = events.indices.min(by: { (events[$0].at, events[$0].number) < (events[$1].at, events[$1].number) }) {
            guard events[next].at < Self.end else { break }
            let event = events.remove(at: next)
            now = event.at
            event.act()
        }
    }

    private func at(_ time: Int64, _ act: @escaping () -> Void) {
        lastEvent += 1
        events.append((max(time, now), lastEvent, act))
    }

    /// Acts at the engine after a round trip, or after its stall.
    private func atEngine(_ node: Int, _ act: @escaping () -> Void) {
        var time = now + Self.roundTrip
        if let stall = schedule.stall, stall.contains(time) { time = stall.upperBound }
        at(time) { [self] in if !nodes[node].isGone { act() } }
    }

    // MARK: Node

    private func arrive(_ client: Client) {
        let node = client.node
        guard !nodes[node].isGone else { return }
        guard !nodes[node].isStored else {
            client.ended = now
            return
        }
        guard now >= nodes[node].markEnd, !nodes[node].collapsed.isUnshareable(Self.key, now: now) else { return enter(client) }
        guard nodes[node].search == nil else {
            nodes[node].search?.waiters.append(client)
            return
        }
        nodes[node].search = Search(wait: LeaseWait(deadline: now + Self.wait), waiters: [client])
        ask(.take, node)
    }

    private func ask(_ question: LeaseWait.Question, _ node: Int) {
        atEngine(node) { [self] in
            if question != .poll, hasRecord {
                nodes[node].isStored = true
                let waiters = nodes[node].search?.waiters ?? []
                nodes[node].search = nil
                for client in waiters { client.ended = now }
                return
            }
            let state = leaseState(question, node)
            switch nodes[node].search?.wait.handle(state, to: question, now: now) {
            case .ask(let next): ask(next, node)
            case .askLater(let next, let milliseconds):
                at(now + milliseconds) { [self] in if !nodes[node].isGone { ask(next, node) } }
            case .proceed, nil: proceed(state, node)
            }
        }
    }

    private func leaseState(_ question: LeaseWait.Question, _ node: Int) -> LeaseState {
        if let lease, lease.end > now {
            switch lease.value {
            case .node(node): return .ofThisNode
            case .node: return .ofAnother
            case .mark(let mark): return .marked(mark)
            }
        }
        lease = nil
        guard question == .take else { return .free }
        lease = (.node(node), now + LeaseTimes.expiry)
        return .taken
    }

    private func proceed(_ state: LeaseState, _ node: Int) {
        let waiters = nodes[node].search?.waiters ?? []
        nodes[node].search = nil
        if state == .taken {
            (nodes[node].hasLease, nodes[node].began) = (true, now)
            renew(node)
        }
        if case .marked(let mark) = state {
            nodes[node].markEnd = now + UnshareableTargets.milliseconds(upstream: 0)
            if mark == .eachRequest { nodes[node].requestEnd = nodes[node].markEnd }
        }
        for client in waiters { enter(client) }
    }

    private func renew(_ node: Int) {
        at(now + LeaseTimes.renewal) { [self] in
            guard nodes[node].hasLease, !nodes[node].isGone else { return }
            renew(node)
            atEngine(node) { [self] in
                guard nodes[node].hasLease else { return }
                // The lease is still held, or taken again after a stall. The node's commands run in order.
                if lease.map({ $0.end <= now || $0.value == .node(node) }) ?? true { lease = (.node(node), now + LeaseTimes.expiry) }
            }
        }
    }

    private func enter(_ client: Client) {
        let node = client.node
        // The store is checked again after each wait.
        guard !nodes[node].isStored else {
            client.ended = now
            return
        }
        guard now >= nodes[node].requestEnd else { return fetch(client) }
        let end = client.arrival + Self.wait
        let joined = nodes[node].collapsed.join(Self.key, now: now, as: client, mayWait: now < end)
        client.flight = joined.flight
        guard joined.role == .follower else { return fetch(client, leads: joined.role == .leader) }
        client.isFollowing = true
        at(end) { [self] in
            guard client.isFollowing, let flight = client.flight, !nodes[node].isGone else { return }
            client.isFollowing = false
            nodes[node].collapsed.leave(flight, ObjectIdentifier(client))
            fetch(client)
        }
    }

    // MARK: Upstream

    private func fetch(_ client: Client, leads: Bool = false) {
        requests += 1
        let (node, began) = (client.node, now)
        let isEarly = schedule.kind == .tooLong || schedule.kind == .unshareable
        at(now + (isEarly ? schedule.head : schedule.whole)) { [self] in
            guard !nodes[node].isGone else { return }
            if schedule.kind == .tooLong { endLease(node, .eachNode) } else { land(client, leads, began) }
        }
        at(now + schedule.whole) { [self] in
            guard !nodes[node].isGone else { return }
            client.ended = now
            if schedule.kind == .tooLong { land(client, leads, began) }
        }
    }

    private var outcome: FlightOutcome {
        switch schedule.kind {
        case .shareable, .tooLong: .stored
        case .unshareable: .unshareable
        case .fault: .failed(.fault(.serverError, 503))
        case .broken: .failed(.transfer(.connectionTerminated))
        }
    }

    private func land(_ client: Client, _ leads: Bool, _ began: Int64) {
        let (node, collapsed) = (client.node, nodes[client.node].collapsed)
        if outcome == .stored { nodes[node].isStored = true }
        endLease(node, schedule.kind == .shareable ? nil : schedule.kind == .tooLong ? .eachNode : .eachRequest)
        let followers = clients.filter { $0.isFollowing && $0.node == node }
        collapsed.end(leads ? client.flight : nil, of: Self.key, outcome, by: 1, began: began, now: now)
        for follower in followers {
            guard let outcome = follower.outcome.take() else { continue }
            follower.isFollowing = false
            let facts = OutcomeFacts<Stored>(RequestCacheControl(), .live, strictness: .rescue, now: Timestamp(milliseconds: 0))
            if outcome == .stored { follower.ended = now } else { go(facts.decide(.flight(outcome)).next, follower) }
        }
    }

    private func go(_ next: ExchangeMachine.Next, _ client: Client) {
        switch next {
        case .respond: client.ended = now
        case .fetchAgain: enter(client)
        case .fetchAlone, .keepWaiting: fetch(client)
        }
    }

    private func endLease(_ node: Int, _ mark: LeaseMark?) {
        guard nodes[node].hasLease || outcome == .stored else { return }
        let (hadLease, time) = (nodes[node].hasLease, UnshareableTargets.milliseconds(upstream: now - nodes[node].began))
        nodes[node].hasLease = false
        if mark != nil { nodes[node].markEnd = now + time }
        atEngine(node) { [self] in
            if mark == nil { hasRecord = true }
            guard hadLease, lease?.value == .node(node) else { return }
            lease = mark.map { (.mark($0), now + time) }
        }
    }
}
