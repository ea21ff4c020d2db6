// Copies for scripts and for those that send no Origin, beside each other. Many an upstream says `Vary: Origin`, or echoes the origin, to requests that
// have one, and says nothing of it to the others: neither kind of response takes the other's place.

import CachePolicy
import CacheStore
import HTTPCore

extension ResponseCache {
    private static let byOrigin: [[UInt8]] = [Array("origin".utf8)]
    private static let markedByOrigin = SelectingFields.encode(byOrigin)

    /// Whether a response is for one of those that what is stored varies by: by Origin, and it is not for scripts of all origins.
    func belongsBeside(_ new: NewResponse, _ stored: StoredItem) -> Bool {
        new.names.isEmpty && new.metadata.flags.contains(.boundToOrigin) && StoredMetadata.kind(of: stored.metadata) == .varyMarker
            && stored.head.elementsEqual(Self.markedByOrigin)
    }

    /// The response as one that varies by Origin, where it belongs beside such.
    func variantByOrigin(_ new: NewResponse, at key: [UInt8]) -> NewResponse? {
        guard !new.metadata.isNegative, let stored = store.see(key.span).item, belongsBeside(new, stored) else { return nil }
        var new = new
        new.names = Self.byOrigin
        return new
    }

    /// Keeps what lies where the marker of variants by Origin is to come: as the variant of those that send none. Only that marker leads to it, and goes
    /// where a purge has come meanwhile.
    /// - Parameter generation: of the variants.
    func keepForNoOrigin(_ stored: StoredItem?, at key: [UInt8], _ generation: UInt64, named names: [[UInt8]]) {
        guard names == Self.byOrigin, let stored, StoredMetadata.kind(of: stored.metadata) == .response,
            let metadata = StoredMetadata(stored.metadata), metadata.flags.contains(.boundToOrigin), !metadata.isNegative,
            StoredHead.parse(stored.head)?.fields.contains(.accessControlAllowOrigin) == false
        else { return }
        var variant = key
        CacheKey.appendVariant(to: &variant, generation: generation, selecting: selecting(names.map { $0[...] }, in: Fields()))
        let retention = Reuse.mayRescue(metadata, strictness: strictness) ? Retention.mayRescue : .whenUsed
        let item = NewItem(
            key: variant, metadata: Array(stored.metadata), head: Array(stored.head),
            body: .stored(stored.body, stored.form, owner: stored.owner), retention: retention)
        guard store.insert(item, ifStill: store.see(variant.span)) == .accepted, stored.isMarkedStale else { return }
        _ = store.markStale(store.id(of: variant))
    }
}
