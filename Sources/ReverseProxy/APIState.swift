// Thread-safe state of one API that all shards share.

import Addresses
import CachePolicy
import Downstream
import Figures
import Forwarding
import HTTPCore
import Identity
import Logging
import Reactor
import ResponseCache
import Upstream

public final class APIState: Sendable {
    public let process: ProcessState
    /// Number of the API in records and counters.
    public let index: UInt16
    public let settings: ProxySettings
    public let routes: Routes
    /// nil if nothing is stored.
    public let cache: APICacheState?
    public let health: UpstreamHealth
    /// Requests that share a fetch. Belongs to this API under these settings, because under other settings an equal request may return
    /// another user's data.
    public let collapsed = CollapsedRequests()
    /// Fetches that continue although their client has disconnected. Further ones of the client are cancelled, so that clients that cancel
    /// many requests, such as a search while the user types, do not occupy the upstream.
    let abandoned: AddressBudget
    /// nil if traffic is not observed.
    public let traffic: ObservedTraffic?
    let connectionUsers: ConnectionUserLog
    let cacheSettings: ResponseCacheSettings
    /// Scheme, host, port and base path of the upstream.
    public var upstreamName: String {
        String(decoding: cacheSettings.upstream.bytes + cacheSettings.upstream.basePath, as: UTF8.self)
    }
    let tokenKeys: TokenKeys
    let grants: OriginGrants
    /// The current modes, which an administrator changes. Each shard has a copy.
    private let modeTable: Mutex<ModeTable>

    /// - Parameters:
    ///   - other: an API whose store is used; nil opens a store.
    ///   - former: earlier state of this API. Its learned data is kept as far as it is still valid.
    ///   - inherited: store that another process has handed over; nil if there is none.
    /// - Throws: `StoreError` if the store cannot be opened.
    public init(
        _ settings: ProxySettings, of process: ProcessState, beside other: APIState? = nil, after former: APIState? = nil,
        inherited: HandedCache? = nil
    ) throws {
        let settings = settings.countingConnections()
        self.settings = settings
        self.process = process
        index = process.apiIndices.index(of: settings.apiName)
        abandoned = AddressBudget(of: 2, trustedProxies: settings.downstream.trustedProxies)
        let logger = process.logger
        routes = Routes(settings.routes, rest: settings.otherRoute, strictness: settings.policy.strictness)
        modeTable = Mutex(ModeTable(all: settings.mode, routes: routes.modes))
        let isKeyedByHost = settings.forwarding.sendsClientHost
        grants = former.map(\.grants).flatMap { $0.isKeyedByHost == isKeyedByHost ? $0 : nil } ?? OriginGrants(isKeyedByHost: isKeyedByHost)
        connectionUsers = former?.connectionUsers ?? ConnectionUserLog()
        let routeNames = routes.all.map(\.name)
        // Failures of another upstream, or of other routes, do not apply to this one.
        health =
            if let former, former.settings.upstream == settings.upstream, former.routes.all.map(\.name) == routeNames {
                former.health
            } else {
                UpstreamHealth(api: settings.apiName, routes: routeNames, settings: settings.upstream.failure, logger: logger)
            }
        if let former, former.health !== health, former.settings.upstream.isSameOrigin(as: settings.upstream) {
            health.inherit(former.health)
        }
        // Data of another upstream changes at other times.
        let isSame = former?.settings.upstream.isSameOrigin(as: settings.upstream) ?? false
        traffic = ObservedTraffic(limit: settings.observedPaths, routes: routes, after: isSame ? former?.traffic : nil)
        tokenKeys = TokenKeys(routes, beside: settings.store, after: former?.tokenKeys, logger: logger)
        let lookUps = routes.lookUps(after: Self.lookUps(of: former, settings), fleet: process.fleet)
        process.identityTables.add(lookUps)
        var cacheSettings = ResponseCacheSettings(settings, routes, tokenKeys, lookUps: lookUps)
        cacheSettings.fleet = process.fleet
        self.cacheSettings = cacheSettings
        cache =
            if let other {
                other.cache.map { [cacheSettings] in APICacheState(beside: $0, settings: cacheSettings, after: former?.cache) }
            } else {
                try settings.store.map { [cacheSettings] location in
                    try APICacheState(opening: location, inherited: inherited, sent: process.sentRequests, settings: cacheSettings) {
                        Self.log($0, logger)
                    }
                }
            }
    }

    public var name: String { settings.apiName }

    /// The identity lookups of the earlier state with their results; empty if the credentials or the upstream have changed.
    private static func lookUps(of former: APIState?, _ settings: ProxySettings) -> [LookedUpIdentities] {
        guard let former, former.settings.policy.credentials == settings.policy.credentials,
            former.settings.upstream.isSameOrigin(as: settings.upstream)
        else { return [] }
        return former.cacheSettings.lookUps
    }

    /// Reads the token keys that are stored locally, and begins to fetch the others.
    public func startKeys(now: Int64) { tokenKeys.start(now: now) }

    /// Number of token keys, and of successful and failed attempts to read them.
    /// - Parameter other: sources that `other` also uses are not counted; nil counts all.
    public func keyFigures(besides other: APIState? = nil) -> (keys: Int, read: Int, failed: Int) {
        tokenKeys.figures(besides: other?.tokenKeys)
    }

    /// Number of identity lookups by result, and of remembered identities.
    /// - Parameter other: lookups that `other` also uses are not counted; nil counts all.
    public func lookUpFigures(besides other: APIState? = nil) -> (counts: [String: UInt64], remembered: Int) {
        let others = other?.cacheSettings.lookUps ?? []
        return cacheSettings.lookUps.filter { one in !others.contains { $0 === one } }.map(\.figures).reduce(into: ([:], 0)) { sum, one in
            sum.0.merge(one.counts, uniquingKeysWith: +)
            sum.1 += one.remembered
        }
    }

    public var modes: ModeTable { modeTable.withLock { $0 } }

    /// Applies `change`, and returns the resulting modes; nil if nothing was changed.
    public func changeModes(_ change: (inout ModeTable) -> Bool) -> ModeTable? {
        modeTable.withLock { modes in change(&modes) ? modes : nil }
    }

    private static func log(_ report: WritingReport, _ logger: Logger) {
        switch report.level {
        case .notice: logger.notice("\(report.text)")
        case .warning: logger.warning("\(report.text)")
        case .error: logger.error("\(report.text)")
        }
    }
}
