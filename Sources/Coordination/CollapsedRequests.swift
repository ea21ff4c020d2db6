// Requests for one key share one fetch (RFC 9111 §4). Who comes first leads and asks the upstream; who comes later follows, on whatever
// shard, and is woken when the leader's fetch has ended. Nobody polls. A key whose response could not be shared, or for which the upstream failed, is
// remembered for ten times the upstream's time: each request for it is sent.

import Decisions
import HTTPCore
import Locking

/// Who may wait for another's fetch.
public protocol FlightFollower: AnyObject, Sendable {
    /// Called from the leader's thread.
    /// - Parameter isOwn: whether leader and follower are requests of one client.
    func flightEnded(_ outcome: FlightOutcome, isOwn: Bool)
    /// Number that stands for the client's address.
    var clientNumber: UInt64 { get }
    /// Its own span; `none` where it is not recorded.
    var span: SpanPlace { get }
    /// It waits for the fetch of the request with this span. Called from its own thread, before anything is told of that fetch's end there.
    func follow(_ leader: SpanPlace)
}

extension FlightFollower {
    public var span: SpanPlace { .none }
    public func follow(_ leader: SpanPlace) {}
}

/// One fetch that others may wait for, or several of which the first to end is waited for.
public struct Flight: Sendable, Equatable {
    let key: FlightKey
    /// Of those under one key the one with the highest number is joined.
    let number: UInt64
}

/// All shards' fetches that others may wait for; behind one mutex, off the path of a fresh hit.
public final class CollapsedRequests: Sendable {
    private struct State {
        /// All that are under way, by their numbers; and of each key the one that is joined.
        var flights: [UInt64: Waiting] = [:]
        var joined: [FlightKey: UInt64] = [:]
        var lastNumber: UInt64 = 0
        /// Keys for which each request is sent.
        var unshareable = UnshareableTargets()
        /// Writes that have succeeded; of each user the last, by its number; and the last one of those that are forgotten.
        var writes: UInt64 = 0
        var lastWrites: [UInt64: UInt64] = [:]
        var lastForgotten: UInt64 = 0

        /// A new one, in the place of any other.
        mutating func begin(_ key: FlightKey, leader span: SpanPlace, client: UInt64, now: Int64) -> Flight {
            lastNumber += 1
            flights[lastNumber] = Waiting(leader: span, client: client, ledSince: now, writes: writes)
            joined[key] = lastNumber
            return Flight(key: key, number: lastNumber)
        }

        /// A response that could be shared lets requests wait for each other again.
        mutating func note(_ outcome: FlightOutcome, of key: FlightKey, upstream: Int64, by client: UInt64, now: Int64, isRemembered: Bool)
        {
            if outcome == .stored {
                unshareable.forget(key.hash)
            } else if isRemembered, outcome.isForLeaderAlone {
                unshareable.note(key.hash, for: UnshareableTargets.milliseconds(upstream: upstream), by: client, now: now)
            }
        }
    }

    /// What is known of a flight.
    private struct Waiting {
        /// Those to be woken. Who leaves is taken out: what a client that is gone would hold must not wait for a slow upstream.
        var followers: [ObjectIdentifier: any FlightFollower] = [:]
        /// It has taken too long already: who comes now leads anew, and whichever fetch ends first wakes all.
        var isSlow = false
        /// That of the request that leads, where it is recorded.
        var leader = SpanPlace.none
        /// Client of the current or last leader.
        var client: UInt64
        /// Start of the last leader's fetch.
        var ledSince: Int64
        /// How many writes there had been when it began.
        let writes: UInt64

        mutating func lead(_ client: UInt64, now: Int64) { (self.client, ledSince) = (client, now) }
    }

    private let state = Mutex(State())

    public init() {}

    /// Maximum number of users whose last write is known by user.
    private static let memoryLimit = 4_096

    /// - Parameters:
    ///   - now: milliseconds of the loop's clock.
    ///   - user: a number for whose request it is; 0 for nobody in particular.
    ///   - follower: who comes.
    ///   - mayWait: false if it may lead, and not follow.
    /// - Returns: nil for a flight where it is in none.
    public func join(
        _ key: FlightKey, now: Int64, by user: UInt64 = 0, as follower: any FlightFollower, mayWait: Bool = true
    ) -> (place: FlightPlace, flight: Flight?) {
        let (span, client) = (follower.span, follower.clientNumber)
        let (place, flight, leader): (FlightPlace, Flight?, SpanPlace) = state.withLock { state in
            if state.unshareable.contains(key.hash, now: now) { return (.alone, nil, .none) }
            // One that began before may bring what was so before the write that this client knows of.
            guard let number = state.joined[key], let waiting = state.flights[number],
                max(state.lastWrites[user] ?? 0, state.lastForgotten) <= waiting.writes
            else { return (.leader, state.begin(key, leader: span, client: client, now: now), .none) }
            let flight = Flight(key: key, number: number)
            guard !waiting.isSlow else {
                state.flights[number]?.isSlow = false
                state.flights[number]?.lead(client, now: now)
                if span.isRecorded { state.flights[number]?.leader = span }
                return (.leader, flight, .none)
            }
            guard mayWait else { return (.alone, nil, .none) }
            state.flights[number]?.followers[ObjectIdentifier(follower)] = follower
            return (.follower, flight, waiting.leader)
        }
        if leader.isRecorded, span.isRecorded { follower.follow(leader) }
        return (place, flight)
    }

    /// A follower waits no more.
    public func leave(_ flight: Flight, _ follower: ObjectIdentifier) {
        state.withLock { _ = $0.flights[flight.number]?.followers.removeValue(forKey: follower) }
    }

    /// Makes a follower a second leader after a long wait for another client's fetch. The fetch that ends first wakes all other followers.
    /// - Parameter least: minimum milliseconds since the last leader began.
    /// - Returns: whether the follower became a leader. False if leader and follower are requests of one client.
    public func leadToo(_ flight: Flight, _ follower: any FlightFollower, after least: Int64, now: Int64) -> Bool {
        let client = follower.clientNumber
        return state.withLock { state in
            guard let waiting = state.flights[flight.number], waiting.client != client, now - waiting.ledSince >= least,
                waiting.followers[ObjectIdentifier(follower)] != nil
            else { return false }
            state.flights[flight.number]?.followers[ObjectIdentifier(follower)] = nil
            state.flights[flight.number]?.lead(client, now: now)
            return true
        }
    }

    /// For a fetch that no client waits for. Returns nil where one is under way already.
    /// - Parameters:
    ///   - span: span of the request that caused the fetch; `none` if it is not recorded.
    ///   - client: client of the request that caused the fetch.
    public func lead(_ key: FlightKey, span: SpanPlace = .none, client: UInt64 = 0, now: Int64 = 0) -> Flight? {
        state.withLock { $0.joined[key] == nil ? $0.begin(key, leader: span, client: client, now: now) : nil }
    }

    /// A user's write has succeeded: from now on that user waits for no response that was asked for before. The first to come begins a new flight, and all
    /// who come later join that one, whoever they are; those who wait already go on waiting for theirs.
    public func noteWrite(by user: UInt64 = 0) {
        state.withLock { state in
            state.writes += 1
            if state.lastWrites.count >= Self.memoryLimit { (state.lastWrites, state.lastForgotten) = ([:], state.writes) }
            state.lastWrites[user] = state.writes
        }
    }

    /// A write of an unknown user has succeeded in another process: it counts as every user's.
    public func noteWriteElsewhere() {
        state.withLock { state in
            state.writes += 1
            (state.lastWrites, state.lastForgotten) = ([:], state.writes)
        }
    }

    /// Whether a fetch is under way that a request for the key would wait for.
    public func isUnderWay(_ key: FlightKey) -> Bool { state.withLock { $0.joined[key] != nil } }

    /// Whether anybody waits for the fetch that is under way.
    public func hasFollowers(_ flight: Flight) -> Bool { state.withLock { $0.flights[flight.number]?.followers.isEmpty == false } }

    /// Called when the fetch of a request that was sent alone has ended.
    /// - Parameter upstream: milliseconds since it was sent.
    public func note(_ outcome: FlightOutcome, of key: FlightKey, upstream: Int64, by client: UInt64, now: Int64, isRemembered: Bool) {
        state.withLock { $0.note(outcome, of: key, upstream: upstream, by: client, now: now, isRemembered: isRemembered) }
    }

    /// Whether each request for the key is sent.
    public func isUnshareable(_ key: FlightKey, now: Int64) -> Bool { state.withLock { $0.unshareable.contains(key.hash, now: now) } }

    /// Requests that wait for another's fetch now.
    public var waiting: Int { state.withLock { $0.flights.values.reduce(0) { $0 + $1.followers.count } } }

    /// Nobody is to wait for the fetch that is under way any more.
    public func noteSlow(_ flight: Flight) {
        state.withLock { $0.flights[flight.number]?.isSlow = true }
    }

    /// Called when a leader's fetch has ended, or its response turns out not to be shareable.
    /// - Parameters:
    ///   - client: client of the leader's request.
    ///   - isRemembered: false if the next requests for the key may wait again.
    public func end(_ flight: Flight, _ outcome: FlightOutcome, by client: UInt64 = 0, now: Int64, isRemembered: Bool = true) {
        let followers = state.withLock { state in
            let upstream = now - (state.flights[flight.number]?.ledSince ?? now)
            state.note(outcome, of: flight.key, upstream: upstream, by: client, now: now, isRemembered: isRemembered)
            if state.joined[flight.key] == flight.number { state.joined[flight.key] = nil }
            return state.flights.removeValue(forKey: flight.number)?.followers ?? [:]
        }
        for follower in followers.values { follower.flightEnded(outcome, isOwn: follower.clientNumber == client) }
    }
}
