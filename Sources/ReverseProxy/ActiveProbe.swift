// Asks for one path from time to time, so that the upstream's state is known without clients.

import CachePolicy
import Coordination
import Forwarding
import HTTPCore
import Reactor
import Upstream

public struct ActiveProbeSettings: Sendable {
    /// Empty: no probe.
    public var path = ""
    public var interval = Duration.seconds(10)
    public var status: Status = 200

    public init() {}
}

/// Lives on one shard's loop.
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
    /// Of the response, once its head is there.
    private var status: Status?

    init(shard: ProxyShard) {
        self.shard = shard
        settings = shard.settings.background.probe
        // It is the upstream's path; routes and scopes have those of clients.
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
        // What keeps a connection from coming about is told of the attempt itself.
        if !error.isOwn, !error.isFailureToReach { shard.shared.health.fail(scopes, .transfer(error), began: began, now: now) }
        again()
    }

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {}
    func transfer(_ transfer: Transfer, content: Span<UInt8>) {}
    func transferDrained(_ transfer: Transfer) {}
}
