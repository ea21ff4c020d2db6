// What all shards of one process have in common: each has a reference to it, and all of it guards itself.

import CachePolicy
import Coordination
import Downstream
import FaultInjection
import HTTPCore
import Identity
import Locking
import Logging
import ResponseCache
import Telemetry
import Upstream

package final class SharedFlowState: Sendable {
    package let settings: ProxySettings
    package let routes: Routes
    package let logger: Logger
    package let accessLog: AccessLog?
    /// nil where nothing is stored.
    package let cache: SharedCacheState?
    package let health: UpstreamHealth
    package let collapsed = CollapsedRequests()
    package let connections: ConnectionBudget
    /// nil where one address may have any number.
    let requestsPerAddress: AddressBudget?
    package let content: ContentBudget
    /// nil where nothing is recorded.
    package let recorder: (any ExchangeRecorder)?
    let cacheSettings: ResponseCacheSettings
    let tokenKeys: TokenKeys
    let sentRequests = SentRequests()
    let grants = OriginGrants()
    /// What Via and Forwarded tell this process by.
    let instance: String
    /// Changed by the administrator; each shard has a copy.
    private let modeTable: Mutex<ModeTable>
    private let faultTable = Mutex(FaultTable())

    /// - Throws: `StoreError`, where the store cannot be opened.
    package init(
        _ settings: ProxySettings, logger: Logger, accessLog: AccessLog?, recorder: (any ExchangeRecorder)? = nil
    ) throws {
        let settings = settings.countingConnections()
        self.settings = settings
        self.recorder = recorder
        self.logger = logger
        self.accessLog = accessLog
        connections = ConnectionBudget(settings.downstream)
        requestsPerAddress = AddressBudget(limit: settings.access.requestsPerAddress, trustedProxies: settings.downstream.trustedProxies)
        content = ContentBudget(settings.downstream)
        routes = Routes(settings.routes, rest: settings.otherRoute, strictness: settings.policy.strictness)
        modeTable = Mutex(ModeTable(all: settings.mode, routes: routes.modes))
        health = UpstreamHealth(routes: routes.all.map(\.name), settings: settings.upstream.failure, logger: logger)
        var generator = SystemRandomNumberGenerator()
        instance = String(generator.next() as UInt64, radix: 36)
        tokenKeys = TokenKeys(routes, beside: settings.store, logger: logger)
        cacheSettings = ResponseCacheSettings(settings, routes, tokenKeys)
        cache = try settings.store.map { [cacheSettings, sentRequests] place in
            try SharedCacheState(opening: place, sent: sentRequests, settings: cacheSettings) { Self.logWriting($0, $1, logger) }
        }
    }

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

    package var faults: FaultTable { faultTable.withLock { $0 } }

    /// Returns what `change` returns, and the faults before and after it.
    package func changeFaults<Result>(
        _ change: (inout FaultTable) -> Result
    ) -> (result: Result, before: FaultTable, after: FaultTable) {
        faultTable.withLock { faults in
            let before = faults
            let result = change(&faults)
            return (result, before, faults)
        }
    }

    /// Each change is said once.
    private static func logWriting(_ isWritable: Bool, _ directory: String, _ logger: Logger) {
        if isWritable {
            logger.notice("the cache directory \(directory) takes responses again")
        } else {
            logger.error("the cache directory \(directory) takes no more (is its disk full?): new responses are passed on and not kept")
        }
    }

    func logRefusal(_ refusal: RequestRejection.Kind, client: RequestClient) {
        logger.debug("refused a request of \(String(decoding: client.text, as: UTF8.self)): \(refusal.rawValue)")
    }
}
