// What all shards have in common of one API: each has a reference to it, and all of it guards itself.

import CachePolicy
import Coordination
import HTTPCore
import Identity
import Locking
import Logging
import ResponseCache
import Telemetry
import Upstream

package final class SharedFlowState: Sendable {
    package let process: ProcessState
    /// Among all APIs.
    package let place: UInt16
    package let settings: ProxySettings
    package let routes: Routes
    /// nil where nothing is stored.
    package let cache: SharedCacheState?
    package let health: UpstreamHealth
    let cacheSettings: ResponseCacheSettings
    let tokenKeys: TokenKeys
    let grants = OriginGrants()
    /// Changed by the administrator; each shard has a copy.
    private let modeTable: Mutex<ModeTable>

    /// - Parameters:
    ///   - place: among all APIs.
    ///   - other: an API whose store is this one's too; nil: it is opened.
    /// - Throws: `StoreError`, where the store cannot be opened.
    package init(_ settings: ProxySettings, at place: Int, of process: ProcessState, beside other: SharedFlowState? = nil) throws {
        let settings = settings.countingConnections()
        self.settings = settings
        self.process = process
        self.place = UInt16(clamping: place)
        let logger = process.logger
        routes = Routes(settings.routes, rest: settings.otherRoute, strictness: settings.policy.strictness)
        modeTable = Mutex(ModeTable(all: settings.mode, routes: routes.modes))
        health = UpstreamHealth(api: settings.apiName, routes: routes.all.map(\.name), settings: settings.upstream.failure, logger: logger)
        tokenKeys = TokenKeys(routes, beside: settings.store, logger: logger)
        cacheSettings = ResponseCacheSettings(settings, routes, tokenKeys)
        cache =
            if let other {
                other.cache.map { [cacheSettings] in SharedCacheState(beside: $0, settings: cacheSettings) }
            } else {
                try settings.store.map { [cacheSettings] place in
                    try SharedCacheState(opening: place, sent: process.sentRequests, settings: cacheSettings) {
                        Self.logWriting($0, $1, logger)
                    }
                }
            }
    }

    package var name: String { settings.apiName }

    /// Reads the keys of tokens that are at hand, and begins to fetch the others.
    package func startKeys(now: Int64) { tokenKeys.start(now: now) }

    /// Keys that are there, and how often they were read, or could not be.
    package var keyFigures: (keys: Int, read: Int, failed: Int) { tokenKeys.figures }

    /// How often the upstream was asked whom credentials belong to, by what that came to; and of how many that is remembered.
    package var lookUpFigures: (counts: [String: UInt64], remembered: Int) {
        cacheSettings.lookUps.map(\.figures).reduce(into: ([:], 0)) { sum, one in
            sum.0.merge(one.counts, uniquingKeysWith: +)
            sum.1 += one.remembered
        }
    }

    package var modes: ModeTable { modeTable.withLock { $0 } }

    /// Returns the modes as they are after `change`; nil where there was nothing to change.
    package func changeModes(_ change: (inout ModeTable) -> Bool) -> ModeTable? {
        modeTable.withLock { modes in change(&modes) ? modes : nil }
    }

    /// Each change is said once.
    private static func logWriting(_ isWritable: Bool, _ directory: String, _ logger: Logger) {
        if isWritable {
            logger.notice("the cache directory \(directory) takes responses again")
        } else {
            logger.error("the cache directory \(directory) takes no more (is its disk full?): new responses are passed on and not kept")
        }
    }
}
