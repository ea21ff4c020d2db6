// Stores responses with and without Origin as separate variants. Many upstreams send `Vary: Origin`, or echo the origin, only to requests
// with an Origin field. Neither kind of response replaces the other.

import CachePolicy
import CacheStore
import HTTPCore

extension ResponseCache {
    private static let byOrigin: [[UInt8]] = [Array("origin".utf8)]
    private static let markedByOrigin = SelectingFields.encode(byOrigin)

    /// Returns whether a response without Vary belongs to stored variants by Origin, and is not readable by scripts of all origins.
    func belongsToVariantsByOrigin(_ new: NewResponse, _ stored: StoredItem) -> Bool {
        new.names.isEmpty && new.metadata.flags.contains(.boundToOrigin) && StoredMetadata.kind(of: stored.metadata.span) == .varyMarker
            && stored.head.elementsEqual(Self.markedByOrigin)
    }

    /// Returns the response as a variant by Origin, if it belongs to such variants; nil otherwise.
    func variantByOrigin(_ new: NewResponse, at key: [UInt8]) -> NewResponse? {
        guard !new.metadata.isNegative, let stored = store.see(key.span).item, belongsToVariantsByOrigin(new, stored) else { return nil }
        var new = new
        new.names = Self.byOrigin
        return new
    }

    /// Keeps a stored response, before a marker for variants by Origin replaces it, as the variant for requests without Origin. It is
    /// reachable only through that marker, and is lost if a purge happens meanwhile.
    /// - Parameter generation: generation of the variants.
    /// - Returns: whether the response was kept.
    func keepForNoOrigin(_ stored: StoredItem?, at key: [UInt8], _ generation: UInt64, named names: [[UInt8]]) -> Bool {
        guard names == Self.byOrigin, let stored, StoredMetadata.kind(of: stored.metadata.span) == .response,
            let metadata = StoredMetadata(stored.metadata.span), metadata.flags.contains(.boundToOrigin), !metadata.isNegative,
            StoredHead.parse(stored.head.span)?.fields.contains(.accessControlAllowOrigin) == false
        else { return false }
        var variant = key
        CacheKey.appendVariant(to: &variant, generation: generation, selecting: selecting(names.map { $0[...] }, in: Fields()))
        keep(stored, under: variant, Reuse.mayRescue(metadata, strictness: strictness) ? .mayRescue : .whenUsed)
        return true
    }
}
