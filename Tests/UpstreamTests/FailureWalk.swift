// A simulation around the failure memory: clients, a failing upstream, stored responses and background checks. Events run in the order of
// their times; a seed reproduces a schedule.

import HTTPCore
import TestSupport

@testable import Upstream

/// How the upstream responds to a request.
enum Treatment: CaseIterable {
    case well, status, junk, login, cut, hang, refused

    static let failures = allCases.filter { $0 != .well && $0 != .refused }
}

/// A target that clients request.
struct WalkKey {
    var target: String
    var route: Int?
    var hasCopy = true
    /// Time at which the content of the stored response was made.
    var copyMadeAt: Int64 = 0
    /// Time from which the upstream responds well; nil while it does not.
    var wellSince: Int64? = 0
}

struct WalkClient {
    var address: UInt64
    var user: UInt64 = 0
}

final class FailureWalk {
    static let rescueAfter: Int64 = 1_500
    static let firstByte: Int64 = 5_000

    enum Event {
        case request(client: Int, key: Int)
        case ended(Attempt)
        case timer
        case change(() -> Void)
    }

    struct Attempt {
        let client: Int
        let key: Int
        let began: Int64
        let treatment: Treatment
        /// Whether a client still waits for it.
        var isWaitedFor: Bool
    }

    private struct Stopped: Hashable {
        let key: Int
        let client: Int
    }

    /// A client's response.
    struct Answer {
        let client: Int
        let key: Int
        let asked: Int64
        /// Age of the content; negative if it came from the upstream.
        let age: Int64
        /// The scope that made Cistern serve the stored response at once; nil if the client waited.
        let scope: FailureScopeKind?
        /// Time of the last failed attempt in that scope; nil if none failed.
        let evidence: Int64?

        var isImmediate: Bool { scope != nil }
    }

    /// Times of the last failed attempts.
    private struct Failed {
        var ofKeys: [Int: Int64] = [:]
        var ofRoutes: [Int: Int64] = [:]
        var last: Int64?
    }

    var memory: FailureMemory
    let settings: FailureSettings
    var random: SeededGenerator
    var keys: [WalkKey] = []
    var clients: [WalkClient] = []
    /// The upstream's current treatment of a request.
    var treat: (_ client: Int, _ key: Int) -> Treatment = { _, _ in .well }
    private(set) var answers: [Answer] = []
    /// Times and keys of checks.
    private(set) var checks: [(key: Int, at: Int64)] = []
    private(set) var sent: [(key: Int, at: Int64)] = []
    private(set) var now: Int64 = 0
    private var stopped: [Stopped: (askedAt: Int64, checkedAt: Int64)] = [:]
    private var queue: [(at: Int64, order: Int, event: Event)] = []
    private var order = 0
    private var watchesAddress = false
    private var failed = Failed()

    init(_ random: SeededGenerator, _ settings: FailureSettings = FailureSettings()) {
        self.settings = settings
        memory = FailureMemory(settings)
        self.random = random
    }

    // MARK: The queue, a heap

    func schedule(_ event: Event, at time: Int64) {
        order += 1
        queue.append((time, order, event))
        var child = queue.count - 1
        while child > 0, isBefore(child, (child - 1) / 2) {
            queue.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    private func isBefore(_ one: Int, _ other: Int) -> Bool { (queue[one].at, queue[one].order) < (queue[other].at, queue[other].order) }

    private func next() -> (at: Int64, order: Int, event: Event)? {
        guard !queue.isEmpty else { return nil }
        queue.swapAt(0, queue.count - 1)
        let first = queue.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < queue.count && isBefore(child, least) { least = child }
            guard least != parent else { return first }
            queue.swapAt(parent, least)
            parent = least
        }
    }

    func run(until end: Int64) {
        if now == 0 { schedule(.timer, at: 0) }
        while let first = queue.first, first.at <= end, let next = next() {
            now = next.at
            switch next.event {
            case .request(let client, let key): request(client, key)
            case .ended(let attempt): ended(attempt)
            case .change(let change): change()
            case .timer:
                lookAround()
                schedule(.timer, at: now + settings.recheck / 10)
            }
        }
        now = end
    }

    /// Schedules repeated requests of a client.
    func ask(_ key: Int, by client: Int, every interval: ClosedRange<Int64>, from start: Int64, until end: Int64) {
        var time = start
        while time < end {
            schedule(.request(client: client, key: key), at: time)
            time += Int64.random(in: interval, using: &random)
        }
    }

    // MARK: The shell

    func scopes(_ client: Int, _ key: Int) -> RequestScopes {
        Memory.scopes(keys[key].target, user: clients[client].user, route: keys[key].route, client: clients[client].address)
    }

    private func request(_ client: Int, _ key: Int) {
        let asking: FailureMemory.RequestKind = keys[key].hasCopy ? .withCopy(mayCheckInBackground: true) : .reading
        switch memory.admit(scopes(client, key), asking, now: now) {
        case .go: send(client, key, isWaitedFor: true)
        case .refuse: watchesAddress = true
        case .serveCopy(let stop, let checksInBackground):
            answer(client, key, asked: now, stop.scope)
            if stop.scope == .address { watchesAddress = true } else { keep(client, key) }
            guard checksInBackground else { return }
            checks.append((key, now))
            send(client, key, isWaitedFor: false)
        }
    }

    private func keep(_ client: Int, _ key: Int) {
        let place = Stopped(key: key, client: client)
        stopped[place] = (now, stopped[place]?.checkedAt ?? .min)
        if stopped.count > 64 { stopped.min { $0.value.askedAt < $1.value.askedAt }.map { stopped[$0.key] = nil } }
    }

    private func send(_ client: Int, _ key: Int, isWaitedFor: Bool) {
        sent.append((key, now))
        let treatment = treat(client, key)
        let took: Int64 =
            switch treatment {
            case .hang: Self.firstByte
            default: Int64.random(in: 1...200, using: &random)
            }
        schedule(
            .ended(Attempt(client: client, key: key, began: now, treatment: treatment, isWaitedFor: isWaitedFor)), at: now + took)
    }

    private func ended(_ attempt: Attempt) {
        let scopes = scopes(attempt.client, attempt.key)
        let asked = min(now, attempt.began + Self.rescueAfter)
        switch attempt.treatment {
        case .well:
            memory.succeed(scopes, took: now - attempt.began, limit: Self.rescueAfter, provesUser: true, now: now)
            keys[attempt.key].copyMadeAt = max(keys[attempt.key].copyMadeAt, now)
            if attempt.isWaitedFor {
                answers.append(
                    Answer(client: attempt.client, key: attempt.key, asked: attempt.began, age: -1, scope: nil, evidence: nil))
            }
            return
        case .status: memory.fail(scopes, .status(503), began: attempt.began, now: now)
        case .login: memory.fail(scopes, .status(302), began: attempt.began, now: now)
        case .junk: memory.fail(scopes, .junk, began: attempt.began, now: now)
        case .cut: memory.fail(scopes, .transfer(.responseIncomplete), began: attempt.began, now: now)
        case .hang: memory.fail(scopes, .transfer(.responseTimeout), began: attempt.began, now: now)
        case .refused: memory.failToReach(.connectionRefused, began: attempt.began, now: now)
        }
        failed.last = now
        failed.ofKeys[attempt.key] = now
        if let route = keys[attempt.key].route { failed.ofRoutes[route] = now }
        guard keys[attempt.key].hasCopy else { return }
        if attempt.isWaitedFor { answer(attempt.client, attempt.key, asked: asked, nil) }
        if memory.isFailing(scopes) { keep(attempt.client, attempt.key) }
    }

    private func answer(_ client: Int, _ key: Int, asked: Int64, _ scope: FailureScopeKind?) {
        let age = keys[key].wellSince.map { asked - max(keys[key].copyMadeAt, $0) } ?? 0
        let evidence: Int64? =
            switch scope {
            case .key: failed.ofKeys[key]
            case .route: keys[key].route.flatMap { failed.ofRoutes[$0] }
            case .upstream, .address, .pause, nil: failed.last
            }
        answers.append(Answer(client: client, key: key, asked: asked, age: age, scope: scope, evidence: evidence))
    }

    private func lookAround() {
        if watchesAddress {
            switch memory.attempt(now: now) {
            case .over: watchesAddress = false
            case .notYet: break
            case .due:
                // Only a connection attempt; no request is sent.
                let isRefused = treat(0, 0) == .refused
                if isRefused { memory.failToReach(.connectionRefused, began: now, now: now) } else { memory.reach(now: now) }
            }
        }
        let order = { (one: (key: Stopped, value: (askedAt: Int64, checkedAt: Int64))) in (one.value.checkedAt, one.key.key, one.key.client)
        }
        for (place, known) in stopped.sorted(by: { order($0) < order($1) }) {
            guard now - known.askedAt < settings.window else {
                stopped[place] = nil
                continue
            }
            switch memory.check(scopes(place.client, place.key), now: now) {
            case .over: stopped[place] = nil
            case .notYet: break
            case .due:
                stopped[place]?.checkedAt = now
                checks.append((place.key, now))
                send(place.client, place.key, isWaitedFor: false)
            }
        }
    }
}
