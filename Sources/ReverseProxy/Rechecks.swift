// Looks whether what fails is well again, without waiting for a client: tries to connect where the address cannot be reached, and repeats
// the last plain GET that was stopped by a scope, for as long as clients have asked there lately. How often is the failure memory's matter.

import CachePolicy
import Coordination
import Forwarding
import HTTPCore
import Reactor
import Upstream

/// Touched on its shard's loop only.
final class Rechecks {
    private unowned let shard: ProxyShard
    private var stopped: [Place: Stopped] = [:]
    private var timer: LoopTimer?
    private var wakesAt: Int64 = 0
    private var isEnded = false
    /// Whether the address could not be reached, and nothing is known to have reached it since.
    private var watchesAddress = false
    /// Attempts to connect that have not ended, and all there were.
    private var attempts = 0
    private(set) var attempted = 0

    /// Scopes whose looks do not wait for a client. Of others a look goes behind a client's request, and what nobody has looked at lately is
    /// asked as if it had not failed.
    private static let stoppedLimit = 16
    /// Attempts under way at once, where each takes much longer than the time between two.
    private static let attemptLimit = 32

    private struct Place: Hashable {
        let kind: FailureScopeKind
        let key: UInt64
    }

    private struct Stopped {
        var request: DecidedRequest
        let client: UpstreamRequestFields.Client
        let number: UInt64
        var askedAt: Int64
        var isUnnamed = false

        var unnamed: Stopped {
            var stopped = self
            (stopped.request, stopped.isUnnamed) = (DecidedRequest(unnamed: request), true)
            return stopped
        }
    }

    init(shard: ProxyShard) { self.shard = shard }

    /// No more looks.
    func end() {
        timer?.cancel()
        isEnded = true
    }

    private var now: Int64 { shard.loop.time.monotonicMilliseconds }

    /// A request was stopped, and its copy goes out.
    func keep(
        _ stop: FailureStop, _ request: DecidedRequest, client: @autoclosure () -> UpstreamRequestFields.Client, behind number: UInt64
    ) {
        shard.loop.assertOnLoop()
        let key: UInt64
        switch stop.scope {
        case .address: return watchAddress()
        case .pause: return
        case .upstream: key = 0
        case .family: key = request.scopes.family
        case .target: key = request.scopes.target
        }
        let place = Place(kind: stop.scope, key: key)
        if stopped[place] != nil {
            stopped[place]?.askedAt = now
        } else if stopped.count < Self.stoppedLimit {
            stopped[place] = Stopped(request: request, client: client(), number: number, askedAt: now)
            wake(after: stop.wait)
        }
    }

    func watchAddress() {
        shard.loop.assertOnLoop()
        guard !watchesAddress else { return }
        watchesAddress = true
        wake(after: shard.shared.health.recheck)
    }

    private func wake(after milliseconds: Int64) {
        guard !isEnded else { return }
        let time = now + milliseconds
        if timer != nil, wakesAt <= time { return }
        timer?.cancel()
        wakesAt = time
        timer = shard.loop.schedule(after: .milliseconds(milliseconds)) { [weak self] in
            guard let self else { return }
            timer = nil
            if let wait = lookAround() { wake(after: wait) }
        }
    }

    /// Returns how many milliseconds it is until the next look; nil where there is nothing to look at.
    private func lookAround() -> Int64? {
        guard shard.modes.all != .offline else { return shard.shared.health.recheck }
        var next: Int64?
        func note(_ wait: Int64) { next = min(next ?? wait, wait) }
        if watchesAddress {
            switch shard.shared.health.attempt(now: now) {
            case .over: watchesAddress = false
            case .notYet(let wait): note(wait)
            case .due:
                tryToConnect()
                note(shard.shared.health.recheck)
            }
        }
        for (place, known) in stopped {
            guard now - known.askedAt < shard.shared.health.window else {
                stopped[place] = nil
                continue
            }
            switch shard.shared.health.look(place.kind, known.request.scopes, now: now) {
            case .over: stopped[place] = nil
            case .notYet(let wait): note(wait)
            case .due:
                shard.background.fetches.look(known.request, client: known.client, behind: known.number)
                // The first is told as that client's; the others are brought about by whoever has asked since.
                if !known.isUnnamed { stopped[place] = known.unnamed }
                note(shard.shared.health.recheck)
            }
        }
        return next
    }

    /// What comes of it is told like what comes of any attempt.
    private func tryToConnect() {
        guard attempts < Self.attemptLimit else { return }
        attempts += 1
        attempted += 1
        shard.upstream.attemptConnection { [weak self] _ in self?.attempts -= 1 }
    }
}
