// Parts of a shard besides its loop and connections: serializers, workers for long content, and records.

import CachePolicy
import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Sending
import Upstream

/// Worker threads for work that would block the loop.
struct ShardWorkers {
    /// Examines long content.
    let content: LoopWorker
    /// Compresses and decodes long stored responses. A separate worker, so that hits do not wait for the examination of received content.
    let gzip: LoopWorker
    /// Recoded contents of all APIs.
    let recoded: RecodedContents
    let examined = ExaminedContents()

    init(_ loop: EventLoop, recodedBytes: Int) {
        (content, gzip) = (LoopWorker(loop: loop), LoopWorker(loop: loop))
        recoded = RecodedContents(limitBytes: recodedBytes)
    }
}

/// Makes heads and field lines, for clients and for the upstream. A class, because a copy of a struct would count twelve references.
final class ShardMessages {
    let requestFields: UpstreamRequestFields
    let clientHead: ClientResponseHead
    let cacheStatus: CacheStatus
    let hitLines: HitLines
    let storedResponses: StoredResponseSender
    let passedCodings = PassedCodings()
    let grants: OriginGrants
    let records: ShardRecords
    private let hasStaleField: Bool
    private let loop: EventLoop
    private let dateText = DateText()

    init(_ api: APIState, on shard: Shard) {
        let settings = api.settings
        (grants, records, loop) = (api.grants, shard.records, shard.loop)
        var (forwarding, upstream) = (settings.forwarding, settings.upstream)
        forwarding.trustsProxies = settings.downstream.hasTrustedProxies
        requestFields = UpstreamRequestFields(
            settings: forwarding, authority: Array(upstream.authority.utf8), instance: api.process.instance)
        storedResponses = StoredResponseSender(
            settings.policy, compressFromBytes: settings.content.compressFromBytes, shard.workers.recoded, shard.workers.gzip)
        let origin = settings.upstreamOrigin
        let location = LocationRewriting(
            isOn: forwarding.rewriteLocation, origin: origin.bytes, basePath: origin.basePath, strippedPath: origin.strippedPath,
            others: origin.others.map { ($0.bytes, $0.basePath) })
        clientHead = ClientResponseHead(settings: forwarding, location: location, hiddenFields: storedResponses.hiddenFields)
        hasStaleField = forwarding.staleField
        cacheStatus = CacheStatus(name: Array(forwarding.name.utf8))
        hitLines = HitLines(cacheStatus)
    }

    /// Appends Cistern-Stale.
    /// - Parameter reason: see `StaleField.append`.
    func appendStale(age: Int64, _ reason: String, to head: RequestHead, _ lines: inout [UInt8]) {
        guard hasStaleField else { return }
        StaleField.append(age: age, reason: reason, isExposed: head.contains(.origin), to: &lines)
    }

    /// Appends the value of Cistern-Stale that the upstream has sent.
    func appendStale(_ value: ArraySlice<UInt8>?, to head: RequestHead, _ lines: inout [UInt8]) {
        guard hasStaleField, let value else { return }
        StaleField.append(value, isExposed: head.contains(.origin), to: &lines)
    }

    /// Current value of the Date field.
    var date: [UInt8] { dateText.at(loop.batchWallMilliseconds) }
}

/// The key maker, and the layout of its keys.
struct ShardKeys {
    let maker: RequestKeyMaker
    /// Offset of the partition in a key.
    let partitionOffset: Int

    init(_ maker: RequestKeyMaker) { (self.maker, partitionOffset) = (maker, maker.partitionOffset) }
}

/// Records and counters of exchanges.
final class ShardRecords {
    var figures = Figures()
    var oldestAges = OldestAges()
    /// Counters of each API, by its number.
    var apis: [APICounts] = []
    /// Counters of all routes since the start.
    private(set) var routes: [RouteFigures] = []
    private var routeIndices: [String: Int] = [:]
    let why: WhyRing
    var targets = TargetTally()
    private(set) var accessLog: AccessLog?
    private(set) var requestLines: RequestLines?
    /// Whether request IDs are used.
    private(set) var namesRequests = false
    /// nil if no spans are recorded.
    private(set) var tracer: ShardTracer?
    /// Whether requests get an ID or a span.
    private(set) var marksRequests = false
    var ids = RequestIDs()
    /// Counters of APIs that this shard no longer serves.
    var past = PastCounts()

    init(why: WhyRing) { self.why = why }

    func use(_ process: ProcessState) {
        (accessLog, requestLines) = (process.accessLog, process.requestLines)
        namesRequests = process.settings.forwarding.requestID != .off || process.accessLog?.namesRequests == true
        if tracer?.exporter !== process.spans { tracer = process.spans.map(ShardTracer.init) }
        marksRequests = namesRequests || tracer != nil
    }

    /// Adds counters up to the API with this index.
    func count(ofAPI index: Int) {
        while apis.count <= index { apis.append(APICounts()) }
    }

    /// Returns the counters of the route with this name. They continue after a reload.
    func figures(ofRoute name: String) -> RouteFigures {
        if let index = routeIndices[name] { return routes[index] }
        routeIndices[name] = routes.count
        routes.append(RouteFigures(name: name))
        return routes[routes.count - 1]
    }
}

/// Counters of APIs that were removed from a shard or replaced.
struct PastCounts {
    var figures = Figures()
    /// Number of tokens in requests, by the result of their examination.
    var tokenLookUps: [String: UInt64] = [:]
}

/// The current IMF-fixdate, formatted once a second.
final class DateText {
    private var second: Int64 = -1
    private var text: [UInt8] = []

    func at(_ wallMilliseconds: Int64) -> [UInt8] {
        let now = wallMilliseconds / 1000
        if now != second { (second, text) = (now, HTTPDate.format(now)) }
        return text
    }
}
