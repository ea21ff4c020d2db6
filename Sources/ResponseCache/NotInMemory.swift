// Records that are not in memory: on disk, or in the fleet's shared store. A lookup on the event loop throws `NotInMemory` instead of
// waiting. The caller loads the record and looks up again, because the stored responses may have changed meanwhile.

import CachePolicy
import CacheStore
import HTTPCore

public enum NotInMemory: Error, Sendable {
    case onDisk(OnDisk)
    /// No stored response can be served without validation, so a lookup in the shared level is needed first.
    case fleet(FleetLookUp)
}

extension ResponseCache {
    /// Maximum number of loads for one lookup: a record for the target, one for its variant, and a few marks. Beyond it, loaded records
    /// are evicted before they can be used; the lookup then waits for the disk.
    public static let readLimit = 8

    /// Loads a record into memory.
    /// - Parameter then: called once, on a thread of the store.
    public func load(_ wanted: NotInMemory, then: @escaping @Sendable () -> Void) {
        switch wanted {
        case .onDisk(let wanted): store.load(wanted, then: then)
        case .fleet: then()
        }
    }

    /// Returns whether the content can be read without waiting. It may have been evicted from memory since the lookup.
    public func isInMemory(_ found: FoundResponse) -> Bool { store.isInMemory(found.content, of: found.owner, since: found.foundAt) }

    /// Loads the content into memory.
    /// - Parameter then: called once, on a thread of the store.
    public func load(contentOf found: FoundResponse, then: @escaping @Sendable () -> Void) {
        store.load(found.content, of: found.owner, then: then)
    }

    /// Runs a lookup that may wait for the disk.
    public func waiting<Result>(_ may: Bool = true, _ lookUp: () throws(NotInMemory) -> Result) throws(NotInMemory) -> Result {
        guard may else { return try lookUp() }
        let before = reading
        reading = .waiting
        defer { reading = before }
        return try lookUp()
    }

    /// Runs a lookup that does not count as a use of the records.
    func inspecting<Result>(_ lookUp: () -> Result) -> Result {
        let before = reading
        reading = .inspecting
        defer { reading = before }
        return lookUp()
    }

    /// Returns what must be loaded before the item under this key can be read; nil if it is in memory.
    func notInMemory(_ key: [UInt8]) -> NotInMemory? { store.onDisk(key).map { .onDisk($0) } }

    func firstNotInMemory(of keys: [[UInt8]]) -> NotInMemory? {
        for key in keys { if let wanted = notInMemory(key) { return wanted } }
        return nil
    }

    /// Returns the first record that storing a response needs and that must be loaded; nil if all are in memory.
    /// - Parameter isUpdate: whether an existing response is updated, which requires a lookup.
    public func firstNotInMemory(
        storing response: Fields, for request: StorableExchange, isUpdate: Bool = false, now: Timestamp
    ) -> NotInMemory? {
        let (head, keys) = (request.head, request.keys)
        var others = request.found.map { [$0.key] } ?? []
        if response.contains(.setCookie) { others += cookieKeys(setBy: response, to: head, now: now) }
        var locations = keys.common == nil ? [keys] : [keys, keys.inCommon]
        if head.method == .get, let variances, !variances.isEmpty {
            let target = Array(head.pathAndQuery)
            let path = pathKey(of: target[...], for: head)
            others.append(SearchVarianceMemory.key(path))
            if let wanted = firstNotInMemory(of: others) { return wanted }
            let unknown = keys.unknownFields
            locations.append(self.keys(for: head, target: target, nil, unknown: unknown))
            if let variance = variances.variance(of: path) {
                locations.append(self.keys(for: head, target: target, variance, unknown: unknown))
            }
        }
        if keys.unknownFields != nil { locations += locations.map(\.forAllFields) }
        if let wanted = firstNotInMemory(of: others) { return wanted }
        for location in locations {
            if let wanted = notInMemory(location.own) ?? notInMemory(Self.invalidationKey(location.credentialFree)) { return wanted }
        }
        if let collection = collectionKey(of: head), let wanted = notInMemory(Self.collectionKey(collection)) { return wanted }
        for group in CacheTags.groups(of: response, named: "cache-groups") ?? [] {
            if let wanted = notInMemory(groupKey(group)) { return wanted }
        }
        for location in locations {
            guard let marker = store.see(location.own.span).item, StoredMetadata.kind(of: marker.metadata.span) == .varyMarker,
                let variant = variant(of: marker, location.own, head.fields)
            else { continue }
            if let wanted = notInMemory(variant.key) { return wanted }
        }
        guard isUpdate else { return nil }
        do throws(NotInMemory) {
            _ = try find(head, at: keys)
            return nil
        } catch {
            return error
        }
    }
}
