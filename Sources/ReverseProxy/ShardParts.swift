// What a shard is made of beside its loop and its connections: what it makes heads with, its threads for long content, its records.

import CachePolicy
import Downstream
import Explanation
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Sending
import Telemetry
import Upstream

/// Threads beside the loop.
struct ShardWorkers {
    /// Goes through long content.
    let content: LoopWorker
    /// Puts gzip on long stored responses, and takes codings off: apart, so that hits do not wait for what somebody sends.
    let gzip: LoopWorker
    /// What it has made: of all APIs together.
    let recoded: RecodedContents

    init(_ loop: EventLoop, recodedBytes: Int) {
        (content, gzip) = (LoopWorker(loop: loop), LoopWorker(loop: loop))
        recoded = RecodedContents(limitBytes: recodedBytes)
    }
}

/// Makes heads and lines, for both sides.
struct ShardMessages {
    let requestFields: UpstreamRequestFields
    let clientHead: ClientResponseHead
    let cacheStatus: CacheStatus
    let hitLines: HitLines
    let storedResponses: StoredResponseSender
    let passedCodings = PassedCodings()

    init(_ settings: ProxySettings, instance: String, _ workers: ShardWorkers) {
        var (forwarding, upstream) = (settings.forwarding, settings.upstream)
        forwarding.trustsProxies = settings.downstream.hasTrustedProxies
        requestFields = UpstreamRequestFields(settings: forwarding, authority: Array(upstream.authority.utf8), instance: instance)
        storedResponses = StoredResponseSender(
            settings.policy, compressFromBytes: settings.content.compressFromBytes, workers.recoded, workers.gzip)
        let origin = settings.upstreamOrigin
        let location = LocationRewriting(
            isOn: forwarding.rewriteLocation, origin: origin.bytes, basePath: origin.basePath, strippedPath: origin.strippedPath,
            others: origin.others.map { ($0.bytes, $0.basePath) })
        clientHead = ClientResponseHead(settings: forwarding, location: location, hiddenFields: storedResponses.hiddenFields)
        cacheStatus = CacheStatus(name: Array(forwarding.name.utf8))
        hitLines = HitLines(cacheStatus)
    }
}

/// What is known of the keys that are made here.
struct ShardKeys {
    let maker: RequestKeyMaker
    /// Where the partition lies in them.
    let partitionOffset: Int

    init(_ maker: RequestKeyMaker) { (self.maker, partitionOffset) = (maker, maker.partitionOffset) }
}

/// What is remembered of exchanges.
final class ShardRecords {
    var metrics = ShardMetrics(labels: MetricNames.labels)
    /// What is counted of each API, at its place.
    var apis: [APICounts] = []
    /// And of each route that there has been.
    private(set) var routes: [RouteFigures] = []
    private var routePlaces: [String: Int] = [:]
    let why: WhyRing
    var targets = TargetTally()
    private(set) var accessLog: AccessLog?
    /// Whether a request's name is wanted anywhere.
    private(set) var namesRequests = false
    /// nil where no spans are recorded.
    private(set) var tracer: ShardTracer?
    /// Whether a request that comes gets anything: a name, or a span.
    private(set) var marksRequests = false
    private var ids = RequestIDs()
    /// Counted by what is on the shard no more.
    var past = PastCounts()

    init(why: WhyRing) { self.why = why }

    func use(_ process: ProcessState) {
        accessLog = process.accessLog
        namesRequests = process.settings.forwarding.requestID != .off || process.accessLog?.namesRequests == true
        if tracer?.exporter !== process.spans { tracer = process.spans.map(ShardTracer.init) }
        marksRequests = namesRequests || tracer != nil
    }

    func number(_ head: RequestHead) -> RequestHead { ids.number(head) }

    /// nil where it has none: nobody wants to know it.
    func name(of head: RequestHead) -> [UInt8]? { ids.name(of: head) }

    func name(_ head: RequestHead) -> (head: RequestHead, line: [UInt8]) { ids.name(head) }

    func nameLine(of head: RequestHead) -> [UInt8] { ids.line(of: head) }

    /// Adds counters up to the API with this index.
    func count(ofAPI place: Int) {
        while apis.count <= place { apis.append(APICounts()) }
    }

    /// Those by that name: what was counted before a reload is counted further.
    func figures(ofRoute name: String) -> RouteFigures {
        if let place = routePlaces[name] { return routes[place] }
        routePlaces[name] = routes.count
        routes.append(RouteFigures(name: name, labels: MetricNames.labels))
        return routes[routes.count - 1]
    }
}

/// What APIs have counted on a shard before they were taken off it, or made anew.
struct PastCounts {
    var upstream = UpstreamCounters()
    /// Tokens of requests, by what looking at them came to.
    var tokensLooked: [String: UInt64] = [:]
}

/// The current IMF-fixdate, made once a second.
struct DateText {
    private var second: Int64 = -1
    private var text: [UInt8] = []

    mutating func at(_ wallMilliseconds: Int64) -> [UInt8] {
        let now = wallMilliseconds / 1000
        if now != second { (second, text) = (now, HTTPDate.format(now)) }
        return text
    }
}
