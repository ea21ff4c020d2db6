// Where responses lie: under the key of their exact target, or, where the upstream has said that some arguments make no difference
// (No-Vary-Search, draft-ietf-httpbis-no-vary-search-10 §§ 5, 6), under one that leaves those out and takes in what was said. So only responses
// that said it are found there.

import CachePolicy
import CacheStore
import HTTPCore
import Identity

/// Where a response belongs.
struct StoringPlace {
    var key: [UInt8]
    /// Where else one for the same request may lie (No-Vary-Search). It is only in one place.
    var others: [[UInt8]] = []
    /// The keys beside which it stands when the target became invalid for everyone.
    var sharedKeys: [[UInt8]]
    /// The same for its collection; nil where no route's writes make one invalid.
    var collection: [UInt8]?
    /// The shared key of the target, where its own key may hold the request's content: beside it a write leaves its mark.
    var target: [UInt8]?
    /// Whether it is in the common partition (`TargetKeys.common`).
    var isCommon = false
    /// The request's unknown fields, where the response is for requests with these only.
    var unknownFields: UnknownFields?
    /// What asked for it, where it may go to the shared level.
    var request: RequestHead?
    /// Whose its request was when it was looked up.
    var identity: RequestIdentity?

    fileprivate func moved(to keys: TargetKeys, from candidates: [TargetKeys]) -> StoringPlace {
        var place = self
        place.key = keys.own
        place.others = candidates.map(\.own).filter { $0 != keys.own }
        if !place.sharedKeys.contains(keys.shared) { place.sharedKeys.append(keys.shared) }
        return place
    }
}

extension ResponseCache {
    /// The keys under which a GET of the same target, with the same credentials, is stored.
    /// - Parameter client: a number for the request's client.
    public func keysOfGet(for head: RequestHead, by client: UInt64 = 0) -> TargetKeys {
        keys(for: head, target: Array(head.pathAndQuery), nil, unknown: unknownFields(of: head, by: client))
    }

    /// What is stored for a request under its path's variance.
    /// - Parameter exact: what was found for its exact target.
    /// - Returns: nil where `exact` stands: nothing is stored under the variance, or nothing that is more recent (RFC 9111 §4).
    func findVaried(
        _ exact: LookUpResult, _ head: RequestHead, unknown: UnknownFields?, _ basis: inout FindingBasis
    ) throws(NotAtHand) -> (keys: TargetKeys, result: LookUpResult)? {
        guard let variances, !variances.isEmpty, head.method.isRead,
            let variance = SearchVarianceMemory.remembered(
                try item(SearchVarianceMemory.key(pathKey(of: head.pathAndQuery, for: head)), &basis))
        else { return nil }
        let keys = keys(for: head, target: Array(head.pathAndQuery), variance, unknown: unknown)
        let varied = try find(head, at: keys, &basis)
        if let known = exact.found?.metadata {
            // By Date, as §4 has it; of two that came at one time the one for this very target.
            guard let other = varied.found?.metadata, (known.date, known.responseTime) < (other.date, other.responseTime) else {
                return nil
            }
        }
        return (keys, varied)
    }

    /// Where a response with these fields belongs; what the upstream said is remembered. nil where a later response lies in another place, or
    /// said something else of the path's arguments.
    /// - Parameters:
    ///   - old: where the request was looked up.
    ///   - isForAll: whether it is for all requests, whatever unknown fields they have.
    ///   - isCommon: whether it belongs in the common partition (`TargetKeys.common`).
    func place(
        _ fields: Fields, of head: RequestHead, lookedUpAt old: TargetKeys, isForAll: Bool, isCommon: Bool = false, _ recency: Recency,
        now: Timestamp
    ) -> StoringPlace? {
        let unknown = isForAll ? nil : old.unknownFields
        func keys(_ remembered: RememberedVariance?) -> TargetKeys {
            let keys = self.keys(for: head, target: Array(head.pathAndQuery), remembered, unknown: unknown)
            return isCommon ? keys.inCommon : keys
        }
        let fitting = isForAll ? old.forAllFields : old
        let old = isCommon ? fitting.inCommon : fitting
        var place = StoringPlace(key: old.own, sharedKeys: [old.shared], collection: collectionKey(of: head), isCommon: isCommon)
        place.unknownFields = unknown
        if head.method != .get, head.method != .head, head.method != .options {
            place.target = sharedKey(of: head.pathAndQuery, for: head)
        }
        if level != nil, head.method == .get { place.request = head }
        guard head.method == .get, let variances else { return place }
        let variance = SearchVariance(fields)
        guard variance != nil || !variances.isEmpty else { return place }
        let path = pathKey(of: head.pathAndQuery, for: head)
        let current = variances.variance(of: path)
        var candidates = [old, keys(nil)]
        if let current { candidates.append(keys(current)) }
        // What is said now may leave behind what lies under what was said before: so first it is seen whether it may.
        let expected = variance == current?.variance ? current : nil
        let own = variance == nil || expected != nil ? keys(expected).own : nil
        // Whose the credentials are may have become known, or unknown, since.
        guard candidates.allSatisfy({ keyMaker.haveOnePartition($0.own, old.own) }) else { return nil }
        guard !isOutdated(recency, at: candidates.map(\.own).filter { $0 != own }) else { return nil }
        guard let variance else { return place.moved(to: keys(nil), from: candidates) }
        guard let remembered = variances.remember(variance, of: path, at: now, recency) else { return nil }
        return place.moved(to: keys(remembered), from: candidates)
    }

    // MARK: Keys

    /// The key under which those without credentials find a target.
    func sharedKey(of target: ArraySlice<UInt8>, for head: RequestHead) -> [UInt8] {
        var key: [UInt8] = []
        keyMaker.appendShared(to: &key, head: head, target: target.span, rules: settings.arguments.specialRules(for: target))
        return key
    }

    /// Beside it stands when a write to a member made what the request names invalid; nil where no route's writes do.
    func collectionKey(of head: RequestHead) -> [UInt8]? {
        settings.checksCollections && head.method != .options ? pathKey(of: head.pathAndQuery, for: head) : nil
    }

    func pathKey(of target: ArraySlice<UInt8>, for head: RequestHead) -> [UInt8] { sharedKey(of: target.withoutQuery, for: head) }

    func keys(for head: RequestHead, target: [UInt8], _ remembered: RememberedVariance?, unknown: UnknownFields?) -> TargetKeys {
        var own: [UInt8] = []
        let said = settings.arguments.rules(for: target[...])
        let rules = remembered.map { said.with($0.variance) } ?? said
        // It stands where a request's content would: neither begins as the other does.
        return keyMaker.keys(for: head, target: target.span, rules: rules, content: remembered?.encoded, unknown: unknown, in: &own).keys
    }
}
