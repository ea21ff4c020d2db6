// Checks failing scopes without a client: connects to an unreachable address, and repeats requests that the failure memory stopped or that
// failed recently. The failure memory decides which check is sent, and when.

import CachePolicy
import Forwarding
import HTTPCore
import Reactor
import Upstream

/// Used on its shard's loop only.
final class Rechecks {
    private let context: BackgroundContext
    private let fetches: BackgroundFetches
    private var stopped: [Scope: Stopped] = [:]
    private var timer: LoopTimer?
    private var wakesAt: Int64 = 0
    private var isEnded = false
    /// True after the address was unreachable, until a connection succeeds.
    private var watchesAddress = false
    /// Number of active connection attempts, and of all attempts.
    private var attempts = 0
    private(set) var attempted = 0

    /// Maximum number of requests that are repeated. At the limit, a request of the client with the most requests is removed.
    private static let stoppedLimit = 64
    /// Maximum number of concurrent connection attempts. An attempt may take much longer than the interval between two.
    private static let attemptLimit = 32

    private struct Scope: Hashable {
        let key: UInt64
        let client: UInt64
    }

    private struct Stopped {
        var request: DecidedRequest
        let client: UpstreamRequestFields.Client
        let number: UInt64
        /// When a client last sent this request.
        var askedAt: Int64
        var checkedAt = Int64.min
        var isUnnamed = false

        var unnamed: Stopped {
            var stopped = self
            (stopped.request, stopped.isUnnamed) = (DecidedRequest(unnamed: request), true)
            return stopped
        }
    }

    init(_ context: BackgroundContext, _ fetches: BackgroundFetches) { (self.context, self.fetches) = (context, fetches) }

    /// Sends no more checks.
    func end() {
        timer?.cancel()
        isEnded = true
    }

    private var now: Int64 { context.loop.time.monotonicMilliseconds }

    /// Remembers a request that was stopped or failed, and that received a stored response.
    func keep(_ request: DecidedRequest, client: @autoclosure () -> UpstreamRequestFields.Client, behind number: UInt64) {
        context.loop.assertOnLoop()
        let scope = Scope(key: request.scopes.key, client: request.scopes.client)
        guard stopped[scope] == nil else {
            stopped[scope]?.askedAt = now
            return
        }
        if stopped.count >= Self.stoppedLimit { makeSpace() }
        stopped[scope] = Stopped(request: request, client: client(), number: number, askedAt: now)
        wake(after: context.coordination.health.recheck / 16)
    }

    private func makeSpace() {
        var counts: [UInt64: Int] = [:]
        for scope in stopped.keys { counts[scope.client, default: 0] += 1 }
        let most = counts.max { $0.value < $1.value }?.key
        stopped.filter { $0.key.client == most }.min { $0.value.askedAt < $1.value.askedAt }.map { stopped[$0.key] = nil }
    }

    func watchAddress() {
        context.loop.assertOnLoop()
        guard !watchesAddress else { return }
        watchesAddress = true
        wake(after: context.coordination.health.recheck)
    }

    private func wake(after milliseconds: Int64) {
        guard !isEnded else { return }
        let time = now + milliseconds
        if timer != nil, wakesAt <= time { return }
        timer?.cancel()
        wakesAt = time
        timer = context.loop.schedule(after: .milliseconds(milliseconds)) { [weak self] in
            guard let self else { return }
            timer = nil
            if let wait = checkAll() { wake(after: wait) }
        }
    }

    /// Sends the checks that are due. Returns the time until the next one in milliseconds; nil if there is nothing to check.
    private func checkAll() -> Int64? {
        guard !context.coordination.modes.isOffline else { return context.coordination.health.recheck }
        var next: Int64?
        func note(_ wait: Int64) { next = min(next ?? wait, wait) }
        if watchesAddress {
            switch context.coordination.health.attempt(now: now) {
            case .over: watchesAddress = false
            case .notYet(let wait): note(wait)
            case .due:
                tryToConnect()
                note(context.coordination.health.recheck)
            }
        }
        for (scope, known) in stopped.sorted(by: { $0.value.checkedAt < $1.value.checkedAt }) {
            guard now - known.askedAt < context.coordination.health.window else {
                stopped[scope] = nil
                continue
            }
            switch context.coordination.health.check(known.request.scopes, now: now) {
            case .over: stopped[scope] = nil
            case .notYet(let wait): note(wait)
            case .due:
                fetches.sendCheck(known.request, client: known.client, behind: known.number)
                // Explanations name the client of the first check. Later checks have no client, because several clients may have sent the
                // request since.
                if !known.isUnnamed { stopped[scope] = known.unnamed }
                stopped[scope]?.checkedAt = now
                note(context.coordination.health.recheck)
            }
        }
        return next
    }

    /// Starts a connection attempt. Its outcome is reported like that of other attempts.
    private func tryToConnect() {
        guard attempts < Self.attemptLimit else { return }
        attempts += 1
        attempted += 1
        context.upstream.attemptConnection { [weak self] _ in self?.attempts -= 1 }
    }
}
