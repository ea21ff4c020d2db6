// Requests one path at an interval, to detect the state of the upstream without client requests.

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
}

/// Used on one shard's loop only.
final class ActiveProbe: TransferReceiver {
    private let context: BackgroundContext
    private let settings: ActiveProbeSettings
    private let scopes: RequestScopes
    private let fieldRules: UpstreamFieldRules
    private var began: Int64 = 0
    private var timer: LoopTimer?
    /// Whether health checks repeat at an interval; otherwise only `sendCheck` sends one.
    private var isRepeated = false
    private var isUnderWay = false
    private var isEnded = false
    /// Status of the response; nil until its head has arrived.
    private var status: Status?

    init(_ context: BackgroundContext, _ settings: ProxySettings, _ routes: Routes) {
        (self.context, self.settings) = (context, settings.background.probe)
        // The setting is a path at the upstream; routes and scopes use client paths.
        let target = (settings.strippedPath + Array(self.settings.path.utf8))[...]
        fieldRules = routes.upstreamFields.rules(for: target)
        let routeIndex = routes.index(of: target)
        let route = routeIndex == routes.all.count - 1 ? nil : routeIndex
        scopes = RequestScopes(pathAndQuery: target, route: route, user: 0, client: RequestScopes.probe)
    }

    func start() {
        isRepeated = true
        requestPath()
    }

    /// Sends one health check now, unless one is active.
    func sendCheck() {
        guard !isUnderWay else { return }
        timer?.cancel()
        requestPath()
    }

    func end() {
        timer?.cancel()
        isEnded = true
    }

    private func requestPath() {
        guard !context.coordination.modes.isOffline else { return again() }
        status = nil
        began = now
        let head = RequestHead(method: .get, target: Array(settings.path.utf8)[...], version: .http11, fields: Fields())
        let client = UpstreamRequestFields.Client(address: [], isIPv6: false, host: context.requests.fields.authority[...])
        let fields = context.requests.fields.make(from: head, client: client, fieldRules)
        let request = UpstreamRequest(method: .get, target: Array(settings.path.utf8)[...], fields: fields)
        isUnderWay = context.upstream.start(request, receiver: self) != nil
        if !isUnderWay { again() }
    }

    private var now: Int64 { context.loop.time.monotonicMilliseconds }

    private func again() {
        isUnderWay = false
        guard !isEnded, isRepeated else { return }
        timer = context.loop.schedule(after: settings.interval) { self.requestPath() }
    }

    func transfer(_ transfer: Transfer, received head: consuming ResponseHead) {
        context.reporting.countResponse(head, transfer.times)
        status = head.status
    }

    func transferEnded(_ transfer: Transfer, isDelimited: Bool) {
        if let status, status == settings.status {
            context.coordination.health.succeed(scopes, took: now - began, limit: 0, provesUser: false, now: now)
        } else {
            context.coordination.health.fail(scopes, .status(status ?? 0), began: began, now: now)
        }
        again()
    }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        // Failures to connect are recorded by the connection attempt.
        if !error.isOwn, !error.isFailureToReach { context.coordination.health.fail(scopes, .transfer(error), began: began, now: now) }
        again()
    }

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {}
    func transfer(_ transfer: Transfer, content: Span<UInt8>) {}
    func transferDrained(_ transfer: Transfer) {}
}
