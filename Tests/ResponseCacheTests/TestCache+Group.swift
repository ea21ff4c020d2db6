// Administration of a single cache, and other APIs in its store.

import CachePolicy
import HTTPCore

@testable import ResponseCache

extension TestCache {
    /// A cache of another API in this store.
    func other(named name: String) -> ResponseCache {
        var settings = ResponseCacheSettings(upstream: cache.state.settings.upstream, name: StoredKey.name(ofAPI: name))
        (settings.policy, settings.fleet) = (cache.state.settings.policy, cache.state.settings.fleet)
        return Self.other(APICacheState(beside: cache.state, settings: settings))
    }

    /// Stores a response in `other`, as requested and received now.
    func store(_ target: String, _ lines: Lines, in other: ResponseCache) throws -> StorageDecision {
        let head = Self.request(target)
        let request = StorableExchange(head, RequestCacheControl(head.fields), keys: try other.find(head, content: nil).keys, found: nil)
        let response = Self.response(200, lines)
        let recency = Recency(order: other.state.sent.next(), isImported: false, requestTime: time.wall, responseTime: time.wall)
        let whole = WholeResponse(response, other.control(response), Array("{}".utf8), isDecoded: false, recency)
        return other.store(whole, for: request, at: time).result.decision
    }
}

extension ResponseCache {
    private var group: CacheGroup { CacheGroup([self], meaning: [0]) }

    func list(_ selection: EntrySelection, after: EntryCursor? = nil, limit: Int) -> (entries: [StoredEntry], next: EntryCursor?) {
        let page = group.list([selection], after: after, limit: limit)
        return (page.entries.map(\.entry), page.next)
    }

    func purge(_ wanted: PurgeSelection, isSoft: Bool) -> Int {
        if case .all = wanted { return group.purgeStore(isSoft: isSoft) }
        return group.purge([wanted], isSoft: isSoft)
    }
}
