// Determines keys of responses: the exact target or, under No-Vary-Search (draft-ietf-httpbis-no-vary-search-10 §§ 5, 6), a reduced one. A
// reduced key omits the ignored arguments and contains the value of that field, so only responses with that value are found there.

import CachePolicy
import CacheStore
import HTTPCore
import Identity

/// The keys under which a response is stored.
struct StorageLocation {
    var key: [UInt8]
    /// Other keys under which a response for this request may be stored (No-Vary-Search). Only one of them is used.
    var others: [[UInt8]] = []
    /// The credential-free keys next to which a mark for all partitions of the target is stored.
    var credentialFreeKeys: [[UInt8]]
    /// Credential-free key of the collection; nil if no route's writes invalidate collections.
    var collection: [UInt8]?
    /// Credential-free key of the target, if the response's key may contain the request's content. A write stores its mark next to it.
    var target: [UInt8]?
    /// Whether the key belongs to the common partition (`TargetKeys.common`).
    var isCommon = false
    /// The request's unknown fields, if the response serves only requests with these fields; nil otherwise.
    var unknownFields: UnknownFields?
    /// The request, if the response may be shared with other nodes; nil otherwise.
    var request: RequestHead?
    /// Identity of the request's user at the time of the lookup.
    var identity: RequestIdentity?

    func moved(to keys: TargetKeys, from candidates: [TargetKeys]) -> StorageLocation {
        var location = self
        location.key = keys.own
        location.others = candidates.map(\.own).filter { $0 != keys.own }
        if !location.credentialFreeKeys.contains(keys.credentialFree) { location.credentialFreeKeys.append(keys.credentialFree) }
        return location
    }
}

extension ResponseCache {
    /// Returns the keys of a GET for this target with these credentials.
    /// - Parameter client: number for the request's client.
    public func keysOfGet(for head: RequestHead, by client: UInt64 = 0) -> TargetKeys {
        keys(for: head, target: Array(head.pathAndQuery), nil, unknown: unknownFields(of: head, by: client))
    }

    /// Finds the response stored under the path's No-Vary-Search.
    /// - Parameter exact: result for the exact target.
    /// - Returns: nil if `exact` remains the result: no response is stored under No-Vary-Search, or no more recent one (RFC 9111 §4).
    func findVaried(
        _ exact: LookUpResult, _ head: RequestHead, unknown: UnknownFields?, _ basis: inout FindingBasis
    ) throws(NotInMemory) -> (keys: TargetKeys, result: LookUpResult)? {
        guard let variances, !variances.isEmpty, head.method.isRead,
            let variance = SearchVarianceMemory.remembered(
                try item(SearchVarianceMemory.key(pathKey(of: head.pathAndQuery, for: head)), &basis))
        else { return nil }
        let keys = keys(for: head, target: Array(head.pathAndQuery), variance, unknown: unknown)
        let varied = try findExact(head, at: keys, &basis)
        if let known = exact.found?.metadata {
            // Compared by Date, as §4 requires. Of two with equal times, the one for the exact target is used.
            guard let other = varied.found?.metadata, (known.date, known.responseTime) < (other.date, other.responseTime) else {
                return nil
            }
        }
        return (keys, varied)
    }

    // MARK: Keys

    /// Returns the key of a target in the partition without credentials.
    func credentialFreeKey(of target: ArraySlice<UInt8>, for head: RequestHead) -> [UInt8] {
        var key: [UInt8] = []
        keyMaker.appendCredentialFreeKey(to: &key, head: head, target: target.span, rules: settings.arguments.specialRules(for: target))
        return key
    }

    /// Returns the key next to which a write to a member stores the mark of the request's collection; nil if no route's writes invalidate
    /// collections.
    func collectionKey(of head: RequestHead) -> [UInt8]? {
        settings.checksCollections && head.method != .options ? pathKey(of: head.pathAndQuery, for: head) : nil
    }

    func pathKey(of target: ArraySlice<UInt8>, for head: RequestHead) -> [UInt8] { credentialFreeKey(of: target.withoutQuery, for: head) }

    func keys(for head: RequestHead, target: [UInt8], _ remembered: RememberedVariance?, unknown: UnknownFields?) -> TargetKeys {
        var own: [UInt8] = []
        let said = settings.arguments.rules(for: target[...])
        let rules = remembered.map { said.with($0.variance) } ?? said
        // It replaces the request's content in the key. The encodings of the two begin differently.
        return keyMaker.keys(for: head, target: target.span, rules: rules, content: remembered?.encoded, unknown: unknown, in: &own).keys
    }
}
