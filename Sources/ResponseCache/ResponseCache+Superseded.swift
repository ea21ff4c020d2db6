// Keeps stored responses that a marker for another list of selecting fields supersedes. Many frameworks send Vary to some requests only:
// Rails sends `Vary: Accept` unless the request has the Accept field of a browser. A response for some clients must not remove the last
// good response of the others. Superseded responses are used only if the upstream fails, because it may select by the new list now.

import CachePolicy
import CacheStore
import HTTPCore

extension ResponseCache {
    /// Maximum number of superseded records that are examined for a request.
    private static let supersededLimit = 8

    /// Keeps a stored response, or the marker of its variants, before a marker with another list replaces it. The copy is reachable only
    /// through the new marker, and is lost if a purge happens meanwhile.
    /// - Parameter generation: generation of the new marker.
    func keepSuperseded(_ stored: StoredItem?, at key: [UInt8], _ generation: UInt64) {
        guard let stored else { return }
        if let metadata = StoredMetadata(stored.metadata.span), !Reuse.mayRescue(metadata, strictness: strictness) { return }
        keep(stored, under: Self.supersededKey(key, generation), .mayRescue)
    }

    /// Copies a stored item to another key.
    func keep(_ stored: StoredItem, under key: [UInt8], _ retention: Retention) {
        let item = NewItem(
            key: key, metadata: Array(stored.metadata), head: Array(stored.head),
            body: .stored(stored.body, stored.form, owner: stored.owner), retention: retention)
        guard store.insert(item, ifStill: store.see(key.span)) == .accepted, stored.isMarkedStale else { return }
        _ = store.markStale(store.id(of: key))
    }

    /// Finds a response that matches the request by its own Vary (RFC 9111 §4.1), although its key has a marker with another list now.
    public func findSuperseded(_ head: RequestHead, at keys: TargetKeys) throws(NotInMemory) -> FoundResponse? {
        if let found = try findSuperseded(head, atOwn: keys) { return found }
        guard keys.unknownFields?.isOtherSpelling == false, let found = try findSuperseded(head, atOwn: keys.forAllFields),
            found.metadata.flags.contains(.forAllFields)
        else { return nil }
        return found
    }

    private func findSuperseded(_ head: RequestHead, atOwn keys: TargetKeys) throws(NotInMemory) -> FoundResponse? {
        var basis = FindingBasis()
        guard var marker = try item(keys.own, &basis), StoredMetadata.replacedRecency(in: marker.metadata.span) != nil else { return nil }
        for _ in 0..<Self.supersededLimit {
            guard let generation = StoredMetadata.number(in: marker.metadata.span) else { return nil }
            let key = Self.supersededKey(keys.own, generation)
            guard let superseded = try item(key, &basis) else { return nil }
            switch StoredMetadata.kind(of: superseded.metadata.span) {
            case .response: return try accept(superseded, key, keys, head, &basis).found
            case .varyMarker:
                if let variant = variant(of: superseded, keys.own, head.fields), let stored = try item(variant.key, &basis),
                    let found = try accept(stored, variant.key, keys, head, &basis).found
                {
                    return found
                }
                marker = superseded
            default: return nil
            }
        }
        return nil
    }

    /// Key of the item that the marker of this generation supersedes.
    private static func supersededKey(_ key: [UInt8], _ generation: UInt64) -> [UInt8] {
        var superseded = key
        CacheKey.appendVariant(to: &superseded, generation: generation, selecting: supersededSelecting)
        return superseded
    }

    private static let supersededSelecting = SelectingFields.values(of: [Array(StoredKey.Variant.superseded.utf8)[...]], in: Fields())
}
