// What all shards know together of the upstream's state: one failure memory for reaching it at all, and for each route one for its answers
// and one for its slowness. Says each change once, in the log.

import HTTPCore
import Locking
import Logging
import Upstream

/// Asked and told by all shards, off the path of a fresh hit; what changes is behind its mutex.
final class UpstreamHealth: Sendable {
    /// The routes' names, the last for all other paths.
    private let routes: [String]
    private let logger: Logger
    private let state: Mutex<State>

    private struct State {
        /// Whether it can be reached.
        var reach: FailureMemory
        /// Whether a route's answers are good. By the place of the route.
        var answers: [FailureMemory]
        /// Whether a route answers within its soft deadline: only those who have a copy are kept away by this one.
        var pace: [FailureMemory]
        var isUp = true
    }

    /// One line of the metrics: the state of the upstream (route is empty) or of one route.
    struct StateLine: Sendable {
        let route: String
        let state: UpstreamState
    }

    init(routes: [String], settings: FailureSettings, logger: Logger) {
        self.routes = routes
        self.logger = logger
        let memories = routes.map { _ in FailureMemory(settings) }
        state = Mutex(State(reach: FailureMemory(settings), answers: memories, pace: memories))
    }

    /// Whether a request may be sent.
    /// - Parameters:
    ///   - route: its place.
    ///   - hasCopy: whether a stored copy may go out instead.
    ///   - now: milliseconds of the loop's clock.
    func admit(route: Int, hasCopy: Bool, now: Int64) -> FailureMemory.Admission {
        state.withLock { state in
            var isProbe = false
            func ask(_ memory: inout FailureMemory) -> Int64? {
                switch memory.admit(now: now) {
                case .go: return nil
                case .probe:
                    isProbe = true
                    return nil
                case .wait(let time): return time
                }
            }
            if let time = ask(&state.reach) ?? ask(&state.answers[route]) { return .wait(time) }
            if hasCopy, let time = ask(&state.pace[route]) { return .wait(time) }
            return isProbe ? .probe : .go
        }
    }

    /// A good answer is there. `isQuick`: whole, and within the soft deadline.
    func answered(route: Int, isQuick: Bool, now: Int64) {
        let (changes, wasDown) = state.withLock { state in
            var changes: [Change] = []
            if state.reach.succeeded(now: now) { changes.append(Change(route: nil, state: .closed)) }
            if state.answers[route].succeeded(now: now) { changes.append(Change(route: route, state: .closed)) }
            if isQuick { state.pace[route].succeeded(now: now) }
            defer { state.isUp = true }
            return (changes, !state.isUp)
        }
        if wasDown { logger.notice("the upstream answers again") }
        say(changes)
    }

    /// It was reached, and answered in a way that tells that it, or the route, is in trouble.
    /// - Parameter retryAfter: milliseconds that it asked to be left alone for.
    func failed(route: Int, status: Status, retryAfter: Int64?, now: Int64) {
        let chance = Double.random(in: 0...1)
        let (changes, wasUp) = state.withLock { state in
            var changes: [Change] = []
            if state.reach.succeeded(now: now) { changes.append(Change(route: nil, state: .closed)) }
            // A 500 is an application's mistake: it says nothing of the other targets, and is not remembered.
            if status != 500, state.answers[route].failed(now: now, retryAfter: retryAfter, chance: chance) {
                changes.append(Change(route: route, state: .open))
            }
            defer { state.isUp = false }
            return (changes, state.isUp)
        }
        if wasUp { logger.warning("the upstream fails: status \(status.rawValue)") }
        say(changes)
    }

    /// No whole answer came.
    func failed(route: Int, error: UpstreamError, now: Int64) {
        let chance = Double.random(in: 0...1)
        let (changes, wasUp) = state.withLock { state in
            var changes: [Change] = []
            if state.reach.failed(now: now, chance: chance) { changes.append(Change(route: nil, state: .open)) }
            state.pace[route].failed(now: now, chance: chance)
            defer { state.isUp = false }
            return (changes, state.isUp)
        }
        if wasUp { logger.warning("the upstream fails: \(error.text)") }
        say(changes)
    }

    /// The soft deadline passed without an answer.
    func isSlow(route: Int, now: Int64) {
        let chance = Double.random(in: 0...1)
        let hasChanged = state.withLock { $0.pace[route].failed(now: now, chance: chance) }
        if hasChanged { logger.warning("the upstream is slow\(place(route)): stored copies go out at once") }
    }

    /// Whether the last exchange succeeded.
    var isUp: Bool { state.withLock { $0.isUp } }

    var lines: [StateLine] {
        state.withLock { state in
            [StateLine(route: "", state: state.reach.state)]
                + zip(routes, state.answers).map { StateLine(route: $0, state: $1.state) }
        }
    }

    private struct Change {
        let route: Int?
        let state: UpstreamState
    }

    private func say(_ changes: [Change]) {
        for change in changes {
            let place = change.route.map(place) ?? ""
            if change.state == .open {
                logger.warning("the upstream counts as down\(place): one request is let through from time to time")
            } else {
                logger.notice("the upstream counts as up\(place)")
            }
        }
    }

    private func place(_ route: Int) -> String { routes[route].isEmpty ? "" : " on route \(routes[route])" }
}
