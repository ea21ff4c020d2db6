// Request collapsing (RFC 9111 §4): requests with the same key share one fetch. The first request leads and asks the upstream. Later
// requests, on any shard, follow: they are woken when the leader's fetch ends. After a failure, or a response that could not be shared,
// requests for the key are sent separately for ten times the fetch's duration.

import CachePolicy
import Decisions
import HTTPCore
import Reactor

/// A request that may wait for the fetch of another request.
public protocol FlightFollower: AnyObject, Sendable {
    /// Called on the leader's thread.
    /// - Parameters:
    ///   - isOwn: whether leader and follower are requests of one client.
    ///   - order: order of the leader's fetch.
    func flightEnded(_ outcome: FlightOutcome, isOwn: Bool, order: SentOrder)
    /// Number that represents the client's address.
    var clientNumber: UInt64 { get }
    /// Span of this request; `none` if it is not recorded.
    var span: SpanContext { get }
    /// Notes that this request waits for the fetch of the request with the span `leader`. Called on this request's thread, before that
    /// thread handles the end of the fetch.
    func noteLeader(span leader: SpanContext)
}

extension FlightFollower {
    public var span: SpanContext { .none }
    public func noteLeader(span leader: SpanContext) {}
}

/// A shared fetch. It may have several leaders; the first of their fetches to end wakes the followers.
public struct Flight: Sendable, Equatable {
    /// Requests join the flight with the highest number of their key.
    let number: UInt64
}

/// The flights of all shards, guarded by one mutex. Fresh hits do not use it.
public final class CollapsedRequests: Sendable {
    private struct State {
        /// Flights that are under way, by number; and the number of the flight that requests join, by key.
        var flights: [UInt64: Waiting] = [:]
        var joined: [FlightKey: UInt64] = [:]
        var lastNumber: UInt64 = 0
        /// Keys for which each request is sent separately.
        var unshareable = UnshareableTargets()
        /// Number of writes that may have changed data.
        var writes: UInt64 = 0
        /// Number of each user's last such write.
        var lastWrites: [UInt64: UInt64] = [:]
        /// Upper bound of that number for users without a record.
        var lastForgotten: UInt64 = 0

        /// Begins a flight. Later requests with the key join this flight instead of an earlier one.
        mutating func begin(_ key: FlightKey, leader span: SpanContext, client: UInt64, now: Int64) -> Flight {
            lastNumber += 1
            flights[lastNumber] = Waiting(leader: span, client: client, ledSince: now, writes: writes)
            joined[key] = lastNumber
            return Flight(number: lastNumber)
        }
    }

    private struct Waiting {
        /// Followers to wake. A request that stops waiting is removed, so that its memory is released before a slow upstream responds.
        var followers: [ObjectIdentifier: any FlightFollower] = [:]
        /// True if the fetch has taken too long: the next request becomes a leader too, if its client may lead. The fetch that ends first
        /// wakes all followers.
        var isSlow = false
        /// True if the fetch waits for other requests of its client: the next request of another client becomes a leader too.
        var isClientLimited = false
        /// Span of the leader; `none` if it is not recorded.
        var leader = SpanContext.none
        /// Client of the current or last leader.
        var client: UInt64
        /// Start of the last leader's fetch.
        var ledSince: Int64
        /// Clients that led before, with the start of the last fetch of each.
        var formerLeaders: [UInt64: Int64] = [:]
        /// Number of writes before the flight began.
        let writes: UInt64

        mutating func lead(_ client: UInt64, now: Int64) {
            formerLeaders[self.client] = ledSince
            (self.client, ledSince, isClientLimited) = (client, now, false)
        }

        func hasOtherLeader(than client: UInt64) -> Bool { formerLeaders.keys.contains { $0 != client } }

        /// Whether several clients have sent a fetch within the interval. Further ones would overload a slow upstream.
        func hasManyLeaders(now: Int64) -> Bool {
            let recent = formerLeaders.values.count { now - $0 < CollapsedRequests.leadAgainMilliseconds }
            return recent >= CollapsedRequests.leaderLimit
        }

        /// Returns whether a client may send another fetch: the second one at once, unless another client has led since; later ones after
        /// an interval.
        func mayLead(_ client: UInt64, now: Int64) -> Bool {
            guard let former = formerLeaders[client] else { return true }
            return now - (client == self.client ? ledSince : former) >= CollapsedRequests.leadAgainMilliseconds
        }
    }

    private let state = Mutex(State())

    public init() {}

    /// Maximum number of users with a separate record of their last write.
    private static let memoryLimit = 4_096
    /// Minimum milliseconds between later fetches of one client in a flight. The first may have a dead connection, so the next is not
    /// delayed if no other client has led since. More would overload a slow upstream.
    private static let leadAgainMilliseconds: Int64 = 10_000
    /// Maximum number of clients that lead a slow flight within `leadAgainMilliseconds`, besides the last one.
    private static let leaderLimit = 3

    /// Assigns a request to a flight: as leader, as follower, or alone.
    /// - Parameters:
    ///   - now: milliseconds of the loop's clock.
    ///   - user: number of the user; 0 if the request belongs to no particular user.
    ///   - follower: the request.
    ///   - mayWait: false if the request may lead but not follow.
    /// - Returns: `flight` is nil if the request is sent alone.
    public func join(
        _ key: FlightKey, now: Int64, by user: UInt64 = 0, as follower: any FlightFollower, mayWait: Bool = true
    ) -> (role: FlightRole, flight: Flight?) {
        let (span, client) = (follower.span, follower.clientNumber)
        let (role, flight, leader): (FlightRole, Flight?, SpanContext) = state.withLock { state in
            if state.unshareable.contains(key.hash, now: now) { return (.alone, nil, .none) }
            // A flight that began before the user's last write may return a response from before that write.
            guard let number = state.joined[key], let waiting = state.flights[number],
                max(state.lastWrites[user] ?? 0, state.lastForgotten) <= waiting.writes
            else { return (.leader, state.begin(key, leader: span, client: client, now: now), .none) }
            let flight = Flight(number: number)
            let isBehindOther = waiting.isClientLimited && waiting.client != client
            let wantsLeader = isBehindOther || waiting.isSlow && !waiting.hasManyLeaders(now: now)
            guard !wantsLeader || !waiting.mayLead(client, now: now) else {
                state.flights[number]?.isSlow = false
                state.flights[number]?.lead(client, now: now)
                if span.isRecorded { state.flights[number]?.leader = span }
                return (.leader, flight, .none)
            }
            guard mayWait else { return (.alone, nil, .none) }
            state.flights[number]?.followers[ObjectIdentifier(follower)] = follower
            return (.follower, flight, waiting.leader)
        }
        if leader.isRecorded, span.isRecorded { follower.noteLeader(span: leader) }
        return (role, flight)
    }

    /// Removes a follower that no longer waits.
    public func leave(_ flight: Flight, _ follower: ObjectIdentifier) {
        state.withLock { _ = $0.flights[flight.number]?.followers.removeValue(forKey: follower) }
    }

    /// Makes a follower a second leader after a long wait. The fetch that ends first wakes all other followers.
    /// - Parameter least: minimum milliseconds since the last leader began.
    /// - Returns: whether the follower became a leader. False if the last fetch began shortly before, if it waits for other requests of
    ///   the follower's client, or if that client may not lead.
    public func leadToo(_ flight: Flight, _ follower: any FlightFollower, after least: Int64, now: Int64) -> Bool {
        let client = follower.clientNumber
        return state.withLock { state in
            guard let waiting = state.flights[flight.number], !waiting.isClientLimited || waiting.client != client,
                waiting.mayLead(client, now: now), !waiting.hasManyLeaders(now: now),
                now - waiting.ledSince >= least, waiting.followers[ObjectIdentifier(follower)] != nil
            else { return false }
            state.flights[flight.number]?.followers[ObjectIdentifier(follower)] = nil
            state.flights[flight.number]?.lead(client, now: now)
            return true
        }
    }

    /// Begins a flight for a background fetch. Returns nil if a fetch for the key is active.
    /// - Parameters:
    ///   - span: span of the request that caused the fetch; `none` if it is not recorded.
    ///   - client: client of the request that caused the fetch.
    public func lead(_ key: FlightKey, span: SpanContext, client: UInt64, now: Int64) -> Flight? {
        state.withLock { $0.joined[key] == nil ? $0.begin(key, leader: span, client: client, now: now) : nil }
    }

    /// Records a user's write that may have changed data. From now on, this user's requests do not join flights that began earlier. The
    /// user's first request begins a new flight, which later requests of all users join. Followers that already wait keep waiting.
    public func noteWrite(by user: UInt64 = 0) {
        state.withLock { state in
            state.writes += 1
            if state.lastWrites.count >= Self.memoryLimit { (state.lastWrites, state.lastForgotten) = ([:], state.writes) }
            state.lastWrites[user] = state.writes
        }
    }

    /// Records a write in another process that may have changed data. Its user is unknown, so it applies to all users.
    public func noteWriteElsewhere() {
        state.withLock { state in
            state.writes += 1
            (state.lastWrites, state.lastForgotten) = ([:], state.writes)
        }
    }

    /// Whether a fetch is active that a request for the key would wait for.
    public func isUnderWay(_ key: FlightKey) -> Bool { state.withLock { $0.joined[key] != nil } }

    /// Whether a request waits for this flight, or another client leads or led it.
    public func isShared(_ flight: Flight, by client: UInt64) -> Bool {
        state.withLock { state in
            state.flights[flight.number].map { !$0.followers.isEmpty || $0.client != client || $0.hasOtherLeader(than: client) } ?? false
        }
    }

    /// Whether a request waits for this fetch.
    public func hasFollowers(_ flight: Flight) -> Bool { state.withLock { $0.flights[flight.number]?.followers.isEmpty == false } }

    /// Whether each request for the key is sent separately.
    public func isUnshareable(_ key: FlightKey, now: Int64) -> Bool { state.withLock { $0.unshareable.contains(key.hash, now: now) } }

    /// Number of requests that currently wait for the fetch of another request.
    public var waiting: Int { state.withLock { $0.flights.values.reduce(0) { $0 + $1.followers.count } } }

    /// Marks a flight as slow: the next request becomes a leader too instead of waiting, if its client may lead.
    public func noteSlow(_ flight: Flight) {
        state.withLock { $0.flights[flight.number]?.isSlow = true }
    }

    /// Records that the fetch waits for other requests of its client: the next request of another client becomes a leader too, if that client
    /// may lead.
    public func noteClientLimited(_ flight: Flight) {
        state.withLock { $0.flights[flight.number]?.isClientLimited = true }
    }

    /// Records the outcome of a fetch and ends its flight. The fetch has ended, or its response cannot be shared. A stored response allows
    /// collapsing for the key again.
    /// - Parameters:
    ///   - flight: nil if the request was sent alone.
    ///   - client: client of the request.
    ///   - began: time at which the request was sent, for one that was sent alone. Milliseconds of the loop's clock.
    ///   - order: order of the fetch.
    ///   - isRemembered: false if the next requests for the key may wait again.
    public func end(
        _ flight: Flight?, of key: FlightKey, _ outcome: FlightOutcome, by client: UInt64 = 0, began: Int64, order: SentOrder = .unknown,
        now: Int64, isRemembered: Bool = true
    ) {
        let followers = state.withLock { state in
            let ended = flight.flatMap { state.flights.removeValue(forKey: $0.number) }
            if outcome == .stored {
                state.unshareable.forget(key.hash)
            } else if isRemembered, outcome.isForLeaderAlone {
                let upstream = now - (flight == nil ? began : ended?.ledSince ?? now)
                state.unshareable.note(key.hash, for: UnshareableTargets.milliseconds(upstream: upstream), by: client, now: now)
            }
            if let flight, state.joined[key] == flight.number { state.joined[key] = nil }
            return ended?.followers ?? [:]
        }
        for follower in followers.values { follower.flightEnded(outcome, isOwn: follower.clientNumber == client, order: order) }
    }
}
