// What all shards have in common of one API: each has a reference to it, and all of it guards itself.

import CachePolicy
import Coordination
import Forwarding
import HTTPCore
import Identity
import Locking
import Logging
import ResponseCache
import Sharing
import Telemetry
import Upstream

public final class SharedFlowState: Sendable {
    public let process: ProcessState
    /// By which records and counts call it.
    public let place: UInt16
    public let settings: ProxySettings
    public let routes: Routes
    /// nil where nothing is stored.
    public let cache: SharedCacheState?
    public let health: UpstreamHealth
    /// Of this API under these settings: under others the same request may mean another's data.
    public let collapsed = CollapsedRequests()
    let connectionUsers: ConnectionUserLog
    let cacheSettings: ResponseCacheSettings
    /// Scheme, host, port and base path of the upstream.
    public var upstreamName: String {
        String(decoding: cacheSettings.upstream.bytes + cacheSettings.upstream.basePath, as: UTF8.self)
    }
    let tokenKeys: TokenKeys
    let grants: OriginGrants
    /// Changed by the administrator; each shard has a copy.
    private let modeTable: Mutex<ModeTable>

    /// - Parameters:
    ///   - other: an API whose store is this one's too; nil: it is opened.
    ///   - former: the same API under other settings: what it has learnt is known here too, as far as it still holds.
    ///   - handed: what another process has handed over of the store.
    /// - Throws: `StoreError`, where the store cannot be opened.
    public init(
        _ settings: ProxySettings, of process: ProcessState, beside other: SharedFlowState? = nil, after former: SharedFlowState? = nil,
        handed: HandedCache? = nil
    ) throws {
        let settings = settings.countingConnections()
        self.settings = settings
        self.process = process
        place = process.places.place(of: settings.apiName)
        let logger = process.logger
        routes = Routes(settings.routes, rest: settings.otherRoute, strictness: settings.policy.strictness)
        modeTable = Mutex(ModeTable(all: settings.mode, routes: routes.modes))
        let isKeyedByHost = settings.forwarding.sendsClientHost
        grants = former.map(\.grants).flatMap { $0.isKeyedByHost == isKeyedByHost ? $0 : nil } ?? OriginGrants(isKeyedByHost: isKeyedByHost)
        connectionUsers = former?.connectionUsers ?? ConnectionUserLog()
        let routeNames = routes.all.map(\.name)
        // What fails there says nothing of another upstream, nor by other rules.
        health =
            if let former, former.settings.upstream == settings.upstream, former.routes.all.map(\.name) == routeNames {
                former.health
            } else {
                UpstreamHealth(api: settings.apiName, routes: routeNames, settings: settings.upstream.failure, logger: logger)
            }
        if let former, former.health !== health, former.settings.upstream.isSameOrigin(as: settings.upstream) {
            health.inherit(former.health)
        }
        tokenKeys = TokenKeys(routes, beside: settings.store, after: former?.tokenKeys, logger: logger)
        let lookUps = routes.lookUps(after: Self.lookUps(of: former, settings))
        process.identityTables.add(lookUps)
        var cacheSettings = ResponseCacheSettings(settings, routes, tokenKeys, lookUps: lookUps)
        cacheSettings.fleet = process.fleet?.membership
        self.cacheSettings = cacheSettings
        cache =
            if let other {
                other.cache.map { [cacheSettings] in SharedCacheState(beside: $0, settings: cacheSettings, after: former?.cache) }
            } else {
                try settings.store.map { [cacheSettings] place in
                    try SharedCacheState(opening: place, handed: handed, sent: process.sentRequests, settings: cacheSettings) {
                        Self.log($0, logger)
                    }
                }
            }
    }

    public var name: String { settings.apiName }

    /// What the upstream has said of credentials, where they are the same and so is the upstream.
    private static func lookUps(of former: SharedFlowState?, _ settings: ProxySettings) -> [ToldIdentities] {
        guard let former, former.settings.policy.credentials == settings.policy.credentials,
            former.settings.upstream.isSameOrigin(as: settings.upstream)
        else { return [] }
        return former.cacheSettings.lookUps
    }

    /// Reads the keys of tokens that are at hand, and begins to fetch the others.
    public func startKeys(now: Int64) { tokenKeys.start(now: now) }

    /// Keys that are there, and how often they were read, or could not be.
    /// - Parameter other: leaves out what is this one's too.
    public func keyFigures(besides other: SharedFlowState? = nil) -> (keys: Int, read: Int, failed: Int) {
        tokenKeys.figures(besides: other?.tokenKeys)
    }

    /// How often the upstream was asked whom credentials belong to, by what that came to; and of how many that is remembered.
    /// - Parameter other: leaves out what is this one's too.
    public func lookUpFigures(besides other: SharedFlowState? = nil) -> (counts: [String: UInt64], remembered: Int) {
        let others = other?.cacheSettings.lookUps ?? []
        return cacheSettings.lookUps.filter { one in !others.contains { $0 === one } }.map(\.figures).reduce(into: ([:], 0)) { sum, one in
            sum.0.merge(one.counts, uniquingKeysWith: +)
            sum.1 += one.remembered
        }
    }

    public var modes: ModeTable { modeTable.withLock { $0 } }

    /// What the administrator has set since the start goes on. The file's word holds where nothing else was said, and where it has changed.
    public func keepModes(of former: SharedFlowState) { keep(former.passedModes) }

    /// Returns the modes as they are after `change`; nil where there was nothing to change.
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
