// Arguments that make no difference because the upstream says so (No-Vary-Search, draft-ietf-httpbis-no-vary-search-10 §§ 5, 6): where such
// answers are stored and found. Their keys leave those arguments out and take in what was said, so only answers that said it are found.

import CachePolicy
import CacheStore
import HTTPCore

/// The key of one target in the partition of its request, and in that of those without credentials.
struct TargetKeys {
    var own: [UInt8]
    var shared: [UInt8]
}

extension ProxyShard {
    /// What is stored for a request under its path's variance.
    /// - Parameter exact: what was found for its exact target.
    /// - Returns: nil where `exact` stands: nothing is stored under the variance, or nothing that is more recent (RFC 9111 §4).
    func findVaried(_ exact: LookUpResult, _ head: RequestHead) throws(OnDisk) -> (keys: TargetKeys, result: LookUpResult)? {
        let target = Array(head.pathAndQuery)
        guard let lookUp, let variances, !variances.isEmpty,
            let variance = try variances.knownVariance(of: pathKey(of: target, for: head))
        else { return nil }
        let keys = keys(for: head, target: target, variance)
        let shared = keys.own == keys.shared ? nil : keys.shared
        let varied = try lookUp.find(keys.own, sharedKey: shared, collection: collectionKey(of: head), request: head)
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
    /// - Parameter old: where the request was looked up.
    func storingPlace(_ fields: Fields, of head: RequestHead, lookedUpAt old: TargetKeys, _ recency: Recency) -> StoringPlace? {
        let place = StoringPlace(key: old.own, sharedKeys: [old.shared], collection: collectionKey(of: head))
        guard head.method == .get, let variances, let lookUp else { return place }
        let variance = SearchVariance(fields)
        guard variance != nil || !variances.isEmpty else { return place }
        let target = Array(head.pathAndQuery)
        let path = pathKey(of: target, for: head)
        let current = variances.variance(of: path)
        var candidates = [old, keys(for: head, target: target, nil)]
        if let current { candidates.append(keys(for: head, target: target, current)) }
        // What is said now may leave behind what lies under what was said before: so first it is seen whether it may.
        let expected = variance == current?.variance ? current : nil
        let own = variance == nil || expected != nil ? keys(for: head, target: target, expected).own : nil
        guard !lookUp.isOutdated(recency, at: candidates.map(\.own).filter { $0 != own }) else { return nil }
        guard let variance else { return place.moved(to: keys(for: head, target: target, nil), from: candidates) }
        guard let remembered = variances.remember(variance, of: path, at: now, recency) else { return nil }
        return place.moved(to: keys(for: head, target: target, remembered), from: candidates)
    }

    /// Drops what is stored for a target, in every partition, and under what the upstream said of its path.
    func invalidate(target: [UInt8], for head: RequestHead) {
        lookUp?.invalidate(sharedKey(of: target, for: head), at: now)
        guard let variances, !variances.isEmpty, let variance = variances.variance(of: pathKey(of: target, for: head)) else { return }
        lookUp?.invalidate(keys(for: head, target: target, variance).shared, at: now)
    }

    /// What a write to this target will look at: brought in while the upstream works, so that nobody waits for it when its response comes.
    func readAheadForInvalidation(_ head: RequestHead) {
        let target = Array(head.pathAndQuery)
        var keys = [StoreLookUp.invalidationKey(sharedKey(of: target, for: head))]
        if variances?.isEmpty == false { keys.append(SearchVarianceMemory.key(pathKey(of: target, for: head))) }
        lookUp?.store.readAhead(keys)
    }

    /// What storing a response would have to read from the disk first; nil where nothing.
    /// - Parameters:
    ///   - keys: where the request was looked up.
    ///   - found: what was found there.
    ///   - isUpdate: whether it brings up to date what is stored, which is looked up for that.
    func firstOnDisk(
        storing response: Fields, of head: RequestHead, at keys: TargetKeys, found: FoundResponse? = nil, isUpdate: Bool = false
    ) -> OnDisk? {
        guard let lookUp else { return nil }
        var others = cookieKeys(setBy: response, to: head) + (found.map { [$0.key] } ?? [])
        var places = [keys]
        if head.method == .get, let variances, !variances.isEmpty {
            let target = Array(head.pathAndQuery)
            let path = pathKey(of: target, for: head)
            others.append(SearchVarianceMemory.key(path))
            if let wanted = lookUp.store.firstOnDisk(of: others) { return wanted }
            places.append(self.keys(for: head, target: target, nil))
            if let variance = variances.variance(of: path) { places.append(self.keys(for: head, target: target, variance)) }
        }
        let collection = collectionKey(of: head)
        if let wanted = lookUp.firstOnDisk(storing: response, at: places, collection: collection, others, request: head.fields) {
            return wanted
        }
        return isUpdate ? onDisk(lookingUp: head, keys) : nil
    }

    private func onDisk(lookingUp head: RequestHead, _ keys: TargetKeys) -> OnDisk? {
        do throws(OnDisk) {
            _ = try lookUp?.find(keys.own, sharedKey: keys.own == keys.shared ? nil : keys.shared, request: head)
            return nil
        } catch {
            return error
        }
    }

    /// Beside it stands when a write to a member made what the request names invalid; nil where no route's writes do.
    func collectionKey(of head: RequestHead) -> [UInt8]? { checksCollections ? pathKey(of: Array(head.pathAndQuery), for: head) : nil }

    private func pathKey(of target: [UInt8], for head: RequestHead) -> [UInt8] {
        sharedKey(of: Array(target[...].withoutQuery), for: head)
    }

    private func keys(for head: RequestHead, target: [UInt8], _ remembered: RememberedVariance?) -> TargetKeys {
        var keys = TargetKeys(own: [], shared: [])
        guard let lookUp else { return keys }
        let said = routes.all[routes.place(of: target[...])].arguments
        let rules = remembered.map { said.with($0.variance) } ?? said
        // It stands where a request's content would: neither begins as the other does.
        let encoded = remembered?.encoded
        _ = keyMaker.append(to: &keys.own, head: head, target: target.span, rules: rules, content: encoded, store: lookUp.store)
        keyMaker.appendShared(to: &keys.shared, head: head, target: target.span, rules: rules, content: encoded)
        return keys
    }
}

extension StoringPlace {
    fileprivate func moved(to keys: TargetKeys, from candidates: [TargetKeys]) -> StoringPlace {
        var place = self
        place.key = keys.own
        place.others = candidates.map(\.own).filter { $0 != keys.own }
        if !place.sharedKeys.contains(keys.shared) { place.sharedKeys.append(keys.shared) }
        return place
    }
}
