// Fields with which a client addresses the proxy itself, if the operator permits it: Cistern-Why (explanation), Cistern-Key (cache key) and
// Cistern-Mode (serving mode).

import CachePolicy
import Downstream
import Explanation
import Figures
import HTTPCore
import Reactor
import ResponseCache

extension ProxyShard {
    /// Whether the response must carry its explanation.
    @inline(__always)
    func explains(_ head: RequestHead) -> Bool { head.contains(.cisternWhy) && settings.ownFields.allowsWhy }

    /// Whether the response may need lines that other responses do not have.
    @inline(__always)
    func asksForWords(_ head: RequestHead) -> Bool { head.contains(.cisternWhy) || head.contains(.cisternKey) }

    /// The line of the Cistern-Why field.
    func whyField(_ record: ExchangeRecord, _ head: RequestHead) -> [UInt8] {
        let target = Array(head.pathAndQuery)
        let isNobodys = record.api == ExchangeRecord.noAPI
        return WhyExplanation(
            WhyRecord(exchange: record, shard: shard.number, target: target),
            route: isNobodys ? ExplainedRoute.none : routes.explained(target), api: isNobodys ? "" : shared.name,
            unknownField: isNobodys ? nil : shared.cache?.unknownFields.name(ofField: record.found.unknownField)
        ).field
    }

    /// The cache key for Cache-Status, without secrets. nil if it was not requested, is not permitted, or does not exist.
    @inline(__always)
    func shownKey(_ key: @autoclosure () -> [UInt8]?, _ head: RequestHead) -> String? {
        guard head.contains(.cisternKey), settings.ownFields.allowsKey else { return nil }
        return key().flatMap { StoredKey($0)?.readableTarget }
    }

    /// Whether the mode may be other than `live`, so that it must be determined.
    @inline(__always)
    func isModal(_ head: RequestHead) -> Bool { !areModesLive || head.contains(.cisternMode) }

    /// The mode that the request selects, if permitted; otherwise the mode of its path or route.
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
