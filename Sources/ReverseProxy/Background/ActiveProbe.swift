// Requests one path at an interval, so that the state of the upstream is known without client requests.

import CachePolicy
import Forwarding
import HTTPCore
import Reactor
import Upstream

public struct ActiveProbeSettings: Sendable {
    /// Path at the upstream; empty disables the probe.
    public var path = ""
    public var interval = Duration.seconds(10)
    public var status: Status = 200

    public init() {}
}

/// Used on one shard's loop only.
final class ActiveProbe: TransferReceiver {
    private unowned let shard: ProxyShard
    private let settings: ActiveProbeSettings
    private let scopes: RequestScopes
    private var began: Int64 = 0
    private var timer: LoopTimer?
    /// Whether health checks repeat at an interval; otherwise only `look` sends one.
    private var isRepeated = false
    private var isUnderWay = false
    private var isEnded = false
    /// Status of the response; nil until its head has arrived.
    private var status: Status?

    init(shard: ProxyShard) {
        self.shard = shard
        settings = shard.settings.background.probe
        // The setting is a path at the upstream; routes and scopes use the paths of clients.
        let target = (shard.settings.strippedPath + Array(settings.path.utf8))[...]
        let place = shard.routes.place(of: target)
        let route = place == shard.routes.all.count - 1 ? nil : place
        scopes = RequestScopes(pathAndQuery: target, route: route, user: 0, client: RequestScopes.probe)
    }

    func start() {
        isRepeated = true
        ask()
    }

    /// Sends one health check now, unless one is active.
    func look() {
        guard !isUnderWay else { return }
        timer?.cancel()
        ask()
    }

    func end() {
        timer?.cancel()
        isEnded = true
    }

    private func ask() {
        guard shard.modes.all != .offline else { return again() }
        status = nil
        began = now
        let head = RequestHead(method: .get, target: Array(settings.path.utf8)[...], version: .http11, fields: Fields())
        let client = UpstreamRequestFields.Client(address: [], isIPv6: false, host: shard.messages.requestFields.authority[...])
        let fields = shard.messages.requestFields.make(from: head, client: client)
        let request = UpstreamRequest(method: .get, target: Array(settings.path.utf8)[...], fields: fields)
        isUnderWay = shard.upstream.start(request, receiver: self) != nil
        if !isUnderWay { again() }
    }

    private var now: Int64 { shard.loop.time.monotonicMilliseconds }

    private func again() {
        isUnderWay = false
        guard !isEnded, isRepeated else { return }
        timer = shard.loop.schedule(after: settings.interval) { self.ask() }
    }

    func transfer(_ transfer: Transfer, received head: consuming ResponseHead) {
        shard.countResponse(head, transfer.times)
        status = head.status
    }

    func transferEnded(_ transfer: Transfer, isDelimited: Bool) {
        if let status, status == settings.status {
            shard.shared.health.succeed(scopes, took: now - began, limit: 0, now: now)
        } else {
            shard.shared.health.fail(scopes, .status(status ?? 0), began: began, now: now)
        }
        again()
    }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        // Failures to connect are recorded by the connection attempt.
        if !error.isOwn, !error.isFailureToReach { shard.shared.health.fail(scopes, .transfer(error), began: began, now: now) }
        again()
    }

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {}
    func transfer(_ transfer: Transfer, content: Span<UInt8>) {}
    func transferDrained(_ transfer: Transfer) {}
}
