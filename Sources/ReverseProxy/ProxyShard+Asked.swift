// What a client may ask of the proxy itself, where the operator allows it: an explanation (Cistern-Why), its key (Cistern-Key),
// and a mode (Cistern-Mode).

import CachePolicy
import Downstream
import Explanation
import HTTPCore
import Reactor
import ResponseCache
import Telemetry

extension ProxyShard {
    /// Whether this response is to carry its explanation.
    @inline(__always)
    func explains(_ head: RequestHead) -> Bool { head.contains(.cisternWhy) && settings.ownFields.allowsWhy }

    /// Whether this response may have to say more than others.
    @inline(__always)
    func asksForWords(_ head: RequestHead) -> Bool { head.contains(.cisternWhy) || head.contains(.cisternKey) }

    /// The field's line.
    func whyField(_ record: ExchangeRecord, _ trace: ExchangeTrace, _ head: RequestHead) -> [UInt8] {
        let target = Array(head.pathAndQuery)
        var trace = trace
        trace.complete(by: record, wall: loop.batchWallMilliseconds)
        let isNobodys = trace.api == ExchangeTrace.noAPI
        return WhyExplanation(
            WhyRecord(trace: trace, shard: shard.number, target: target),
            route: isNobodys ? ExplainedRoute.none : routes.explained(target), api: isNobodys ? "" : shared.name,
            unknownField: isNobodys ? nil : shared.cache?.unknownFields.name(ofField: trace.found.unknownField)
        ).field
    }

    /// The key for Cache-Status, without secrets; nil where it is not asked for, not allowed, or there is none.
    @inline(__always)
    func shownKey(_ key: @autoclosure () -> [UInt8]?, _ head: RequestHead) -> String? {
        guard head.contains(.cisternKey), settings.ownFields.allowsKey else { return nil }
        return key().flatMap { StoredKey($0)?.readableTarget }
    }

    /// Whether it takes more than a look to know that the mode is `live`.
    @inline(__always)
    func isModal(_ head: RequestHead) -> Bool { !areModesLive || head.contains(.cisternMode) }

    /// The request's own choice where that is allowed, else what is set for its path or its route.
    func mode(of head: RequestHead) -> ServingMode {
        guard isModal(head) else { return .live }
        if settings.ownFields.allowsMode, let value = head.fields.first(.cisternMode),
            let mode = ServingMode(rawValue: String(decoding: value.trimmed, as: UTF8.self).lowercased())
        {
            return mode
        }
        return modes.mode(of: head.pathAndQuery, route: routes.place)
    }
}
