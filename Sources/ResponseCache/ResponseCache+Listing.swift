// A single stored response for the administrator (`CacheGroup` lists all). Only responses that clients can receive are shown. Responses
// that no lookup finds are left out: their marker was renewed, a write invalidated them, or No-Vary-Search changed. They are evicted when
// their space is needed. Nothing here counts as a use.

import CachePolicy
import CacheStore
import HTTPCore

/// Position of an entry in the order of all entries: by the beginning of the target, then by ID.
public struct EntryCursor: Comparable, Sendable {
    /// Beginning of the target. Its length is limited, because the position is part of the target of the request for the next page.
    let target: String
    let id: EntryID

    /// Maximum number of characters of `target`.
    private static let targetLimit = 128

    init(target: String, id: EntryID) {
        self.target = target.utf8.count > Self.targetLimit ? String(target.unicodeScalars.prefix(Self.targetLimit)) : target
        self.id = id
    }

    public init?(_ text: String) {
        guard let id = EntryID(text.prefix(32)), text.dropFirst(32).first == "~" else { return nil }
        self.init(target: String(text.dropFirst(33)), id: id)
    }

    public var text: String { "\(id)~\(target)" }

    public static func < (left: EntryCursor, right: EntryCursor) -> Bool { (left.target, left.id) < (right.target, right.id) }
}

extension ResponseCache {
    /// Returns a stored response that clients can receive, or the record which states that such a resource is gone. nil if there is none.
    public func entry(_ id: EntryID) -> StoredEntry? {
        guard let listed = store.item(id.item) else { return nil }
        guard StoredMetadata.kind(of: listed.item.metadata.span) == .gone else { return entry(listed) }
        let copy = Array(listed.key.dropLast())
        guard let key = StoredKey(copy), let gone = StoredEntry(listed, copy, key, as: .gone),
            let found = store.item(store.id(of: copy)).flatMap({ entry($0) }), !found.metadata.recency.isLater(than: gone.metadata.recency)
        else { return nil }
        return gone
    }

    /// Returns the record which states that this resource is gone, and which is served instead while the upstream fails. nil if there is
    /// none.
    public func gone(beside entry: StoredEntry) -> StoredEntry? { self.entry(EntryID(store.id(of: GoneMemory.key(entry.keyBytes)))) }

    func entry(_ listed: ListedItem) -> StoredEntry? {
        let bytes = Array(listed.key)
        return StoredKey(bytes).flatMap { entry(listed, bytes, $0) }
    }

    func entry(_ listed: ListedItem, _ bytes: [UInt8], _ key: StoredKey) -> StoredEntry? {
        guard var entry = StoredEntry(listed, bytes, key), isServed(entry, bytes, listed.item.head.span) else { return nil }
        if isDoubted(entry, bytes) { entry.markStale() }
        return entry
    }

    /// Returns whether the entry is stale because of a write with an unclear outcome.
    private func isDoubted(_ entry: StoredEntry, _ bytes: [UInt8]) -> Bool {
        let key = entry.key
        guard state.storeMemory.doubts.mayConcern(entry.metadata.requestTime), let extra = KeyExtra(key.extra, keyMaker.extraShape),
            extra.content.map(Preflight.isIdentity) != true
        else { return false }
        let credentialFreeKeys = [key.credentialFreeKey(of: bytes), Self.targetKey(key, extra, bytes)]
        let collection = settings.checksCollections ? Self.pathKey(key, extra) : nil
        return inspecting {
            var basis = FindingBasis()
            return (try? isDoubted(entry.metadata, credentialFreeKeys: credentialFreeKeys, collection: collection, &basis)) == true
        }
    }

    // MARK: Reachability

    /// Returns whether a lookup for some request would return this entry. Performs the checks of `find` in reverse.
    private func isServed(_ entry: StoredEntry, _ bytes: [UInt8], _ head: Span<UInt8>) -> Bool {
        let key = entry.key
        guard key.authority == keyMaker.authority, let extra = KeyExtra(key.extra, keyMaker.extraShape), isLed(to: key, bytes),
            isSaid(extra, key, bytes)
        else { return false }
        let isPreflight = extra.content.map(Preflight.isIdentity) ?? false
        let collection = settings.checksCollections && !isPreflight ? Self.pathKey(key, extra) : nil
        let credentialFreeKey = key.partition.isEmpty && key.unknownFieldsHash == nil ? nil : key.credentialFreeKey(of: bytes)
        return inspecting {
            var basis = FindingBasis()
            let isInvalid = try? isInvalid(entry.metadata, head, credentialFreeKey: credentialFreeKey, collection: collection, &basis)
            guard isPreflight, isInvalid == false else { return isInvalid == false }
            return (try? isPurged(preflight: entry.metadata, credentialFreeKey: Self.targetKey(key, extra, bytes), &basis)) == false
        }
    }

    /// Returns whether a variant belongs to its marker's generation. Superseded items are found only while the upstream fails.
    private func isLed(to key: StoredKey, _ bytes: [UInt8]) -> Bool {
        guard let variant = key.variant else { return true }
        guard !variant.isSuperseded else { return false }
        let base = Array(bytes[..<key.markerCount])
        guard let marker = store.see(base.span).item, StoredMetadata.kind(of: marker.metadata.span) == .varyMarker else { return false }
        return StoredMetadata.number(in: marker.metadata.span) == variant.generation
    }

    /// Returns whether the part of a key for the request's content or for No-Vary-Search is still current.
    private func isSaid(_ extra: KeyExtra, _ key: StoredKey, _ bytes: [UInt8]) -> Bool {
        guard let content = extra.content, !Preflight.isIdentity(content) else { return true }
        guard !RememberedVariance.isEncoded(content) else {
            let path = Self.pathKey(key, extra)
            return variances?.remembered(ofPath: path)?.encoded == content
        }
        // The part ends with the time of the target's last invalidation.
        let mark = Self.invalidationKey(Self.targetKey(key, extra, bytes))
        guard let time = Self.time(of: store.see(mark.span).item) else { return true }
        return content.suffix(8).elementsEqual(Self.invalidationPart(time))
    }

    /// Returns the credential-free key of the target without the request's content.
    private static func targetKey(_ key: StoredKey, _ extra: KeyExtra, _ bytes: [UInt8]) -> [UInt8] {
        CacheKey.prefix(authority: key.authority, extra: extra.ofTarget) + bytes[key.targetOffset..<key.baseCount]
    }

    /// Returns the credential-free key of the target without arguments.
    private static func pathKey(_ key: StoredKey, _ extra: KeyExtra) -> [UInt8] {
        var path = CacheKey.prefix(authority: key.authority, extra: extra.ofTarget)
        CacheKey.appendPart(Array(key.target[...].withoutQuery), to: &path)
        return path
    }
}

extension KeyExtra {
    /// Encoded form in the key of this target without content.
    fileprivate var ofTarget: [UInt8] { KeyExtra(host: host, fields: fields, isSecure: isSecure).encoded }
}
