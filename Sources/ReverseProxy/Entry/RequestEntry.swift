// Receives the requests of one API on one shard. `RequestStage` lists the stages of a request. `RequestEntry+Hits` serves hits, and
// all other requests become an `Exchange`.

import CachePolicy
import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Sending

/// Dependencies of the stages and of the first decision on their API. A struct inside `RequestEntry`, so that a hit needs no reference
/// counting for it.
struct EntryContext {
    let loop: EventLoop
    let api: APIState
    /// nil if nothing is stored.
    let cache: ResponseCache?
    /// nil if nothing is stored.
    let memo: HitMemo?
    let messages: ShardMessages
    let coordination: Coordination
    let reporting: Reporting
    let background: BackgroundWork
}

/// Suspended requests reference it too. Used on its loop only. `@unchecked Sendable` because other threads only queue work on that loop.
public final class RequestEntry: RequestReceiver, @unchecked Sendable {
    let context: EntryContext
    let settings: ProxySettings
    let routes: Routes
    let admission: Admission
    let connections: ClientOwnedConnections
    let own: OwnSources
    /// Examines long content.
    let examiner: LoopWorker
    /// Also referenced by each exchange. A variable, for `isUnused`.
    private(set) var exchanges: ExchangeContext

    init(_ context: EntryContext, _ connections: ClientOwnedConnections, _ own: OwnSources, examiner: LoopWorker) {
        let api = context.api
        (self.context, settings, routes) = (context, api.settings, api.routes)
        (self.connections, self.own, self.examiner) = (connections, own, examiner)
        admission = Admission(settings, routes.access, certified: routes.certified, context.messages.requestFields)
        exchanges = ExchangeContext(ExchangeRules(settings, routes), context.messages, context.cache, context.background)
    }

    /// Whether no exchange is active.
    func isUnused() -> Bool { isKnownUniquelyReferenced(&exchanges) }

    public var loop: EventLoop { context.loop }
    public var reporting: Reporting { context.reporting }
    /// Current value of the Date field.
    public var date: [UInt8] { context.messages.date }

    var now: Timestamp { context.loop.now }

    public func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream) {
        loop.assertOnLoop()
        if let index = MetricNames.index(of: refusal) { reporting.records.figures.labelled.count(.refused, index) }
        context.api.process.logRefusal(refusal, client: stream.client)
    }
}
