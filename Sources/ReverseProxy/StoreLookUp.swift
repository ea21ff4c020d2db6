// Finding the stored response for a request: by its key, then, where answers vary, by the selecting fields; and never one that an unsafe
// request has made invalid since.

import CachePolicy
import CacheStore
import HTTPCore

enum LookUpResult {
    case found(FoundResponse)
    case nothing
    /// Something is stored for this key, but for other values of the selecting fields; with the key that theirs would have.
    case otherVariant([UInt8])

    var found: FoundResponse? {
        if case .found(let found) = self { found } else { nil }
    }

    /// The key under which requests that can have one answer meet.
    func flightKey(_ key: [UInt8]) -> [UInt8] {
        switch self {
        case .found(let found): found.key
        case .otherVariant(let variant): variant
        case .nothing: key
        }
    }

    /// RFC 9211 §2.2.
    var forwardToken: StaticString {
        if case .otherVariant = self { "vary-miss" } else { "uri-miss" }
    }
}

/// A class, since its parts are many to count references of at every request.
final class StoreLookUp {
    let store: ResponseStore
    let purges: PurgeClock
    private let marks: RecentMarks
    let gone: GoneMemory?
    /// Selecting fields whose values are secrets: those of one user's own cache, where keys have no partitions.
    let concealed: [String]
    let strictness: Strictness
    private let memo = SelectingMemo()

    init(store: ResponseStore, purges: PurgeClock, marks: RecentMarks, gone: GoneMemory?, policy: CachePolicySettings) {
        self.store = store
        self.purges = purges
        self.marks = marks
        self.gone = gone
        strictness = policy.strictness
        concealed = policy.isPrivate ? policy.credentialFields : []
    }

    func selecting(_ names: [ArraySlice<UInt8>], in request: Fields) -> [UInt8] {
        guard !concealed.isEmpty else { return SelectingFields.values(of: names, in: request) }
        return SelectingFields.values(of: names, in: request) { name, value in
            concealed.contains { $0.utf8.elementsEqual(name) } ? store.credentialPartition(value) : nil
        }
    }

    /// - Parameters:
    ///   - sharedKey: where `key` has a partition, the same target's key without: beside it stands when all partitions became invalid.
    ///   - collection: the shared key of the target without arguments, where a write to a member makes collections invalid.
    func find(_ key: [UInt8], sharedKey: [UInt8]?, collection: [UInt8]? = nil, request: RequestHead) -> LookUpResult {
        let result = find(key, sharedKey, request)
        guard let collection, case .found(let found) = result, isInvalidCollection(found.metadata.requestTime, collection) else {
            return result
        }
        let stored = found.key
        store.remove(stored.span, ifStill: found.written)
        return .nothing
    }

    private func find(_ key: [UInt8], _ sharedKey: [UInt8]?, _ request: RequestHead) -> LookUpResult {
        guard let item = store.lookUp(key.span) else { return .nothing }
        switch StoredMetadata.kind(of: item.metadata) {
        case .response: return accept(item, key, sharedKey, request.fields)
        case .varyMarker: return findVariant(of: item, key, sharedKey, request.fields)
        case .invalidation, .searchVariance, .cookieOrigins, .gone, nil: return .nothing
        }
    }

    private func findVariant(of marker: StoredItem, _ key: [UInt8], _ sharedKey: [UInt8]?, _ request: Fields) -> LookUpResult {
        guard let generation = StoredMetadata.number(in: marker.metadata) else { return .nothing }
        var variant = key
        let values = memo.values(for: marker.head, in: request) { selecting($0, in: request) }
        CacheKey.appendVariant(to: &variant, generation: generation, selecting: values)
        guard let item = store.lookUp(variant.span) else { return .otherVariant(variant) }
        return accept(item, variant, sharedKey, request)
    }

    private func accept(_ item: StoredItem, _ key: [UInt8], _ sharedKey: [UInt8]?, _ request: Fields) -> LookUpResult {
        guard var metadata = StoredMetadata(item.metadata), metadata.etag.upperBound <= item.head.count,
            metadata.lastModified.upperBound <= item.head.count
        else { return .nothing }
        let isInvalid = sharedKey.map { self.isInvalid(metadata.requestTime, $0) } ?? false
        guard !isInvalid, !metadata.flags.contains(.hasGroups) || !isGroupOvertaken(item.head, metadata.requestTime) else {
            // Else it could be kept for its use, and outlive the mark that says so.
            store.remove(key.span, ifStill: item)
            return .nothing
        }
        if metadata.flags.contains(.coded), !Self.mayRead(item, request) { return .otherVariant(key) }
        if item.isMarkedStale { metadata.flags.insert(.markedStale) }
        return .found(FoundResponse(item: item, metadata: metadata, key: key))
    }

    /// Whether the client can have the content in the coding in which it is stored.
    private static func mayRead(_ item: StoredItem, _ request: Fields) -> Bool {
        StoredHead.parse(item.head).map { ContentCoding.allows($0.fields, request) } ?? false
    }

    /// When an unsafe request last changed this target.
    func invalidationTime(_ sharedKey: [UInt8]) -> Timestamp? {
        time(at: Self.invalidationKey(sharedKey))
    }

    /// Whether an unsafe request has changed a group that a stored answer belongs to (RFC 9875 §3) since it was asked for.
    func isGroupOvertaken(_ head: UnsafeRawBufferPointer, _ requestTime: Timestamp) -> Bool {
        Self.groups(of: head).contains { isMarked(Self.groupKey($0), since: requestTime) }
    }

    private static func groups(of head: UnsafeRawBufferPointer) -> [String] {
        StoredHead.parse(head).map { CacheTags.groups(of: $0.fields, named: "cache-groups") } ?? []
    }

    private static func groupKey(_ group: String) -> [UInt8] { Array("T".utf8) + Array(group.utf8) }

    /// Drops every answer of these groups.
    func invalidate(groups: [String], at now: Timestamp) {
        for group in groups { mark(Self.groupKey(group), at: now) }
    }

    /// What belongs to this key and was asked for until then counts no more.
    private func mark(_ key: [UInt8], at time: Timestamp) {
        marks.note(key, at: time)
        store.insert(NewItem(key: key, metadata: StoredMetadata.invalidation(at: time), head: [], body: [], retention: .outlives))
    }

    private func time(at key: [UInt8]) -> Timestamp? {
        guard let item = store.lookUp(key.span), StoredMetadata.kind(of: item.metadata) == .invalidation else { return nil }
        return StoredMetadata.number(in: item.metadata).map { Timestamp(milliseconds: Int64(bitPattern: $0)) }
    }

    /// Whether an unsafe request has changed this target since. Within one millisecond it counts as so.
    func isInvalid(_ requestTime: Timestamp, _ sharedKey: [UInt8]) -> Bool {
        isMarked(Self.invalidationKey(sharedKey), since: requestTime)
    }

    /// The same for a collection.
    /// - Parameter sharedKey: of the collection without arguments.
    func isInvalidCollection(_ requestTime: Timestamp, _ sharedKey: [UInt8]) -> Bool {
        isMarked(Self.collectionKey(sharedKey), since: requestTime)
    }

    private func isMarked(_ key: [UInt8], since requestTime: Timestamp) -> Bool { time(at: key).map { requestTime <= $0 } ?? false }

    /// Whether what comes for this place may have been made invalid since it was asked for: its target, its collection, or a group of it.
    func mayBeInvalid(_ new: NewResponse, at place: StoringPlace) -> Bool {
        let groups = new.metadata.flags.contains(.hasGroups) ? new.head.withUnsafeBytes(Self.groups) : []
        let keys =
            place.sharedKeys.map(Self.invalidationKey) + (place.collection.map { [Self.collectionKey($0)] } ?? [])
            + groups.map(Self.groupKey)
        let time = new.metadata.requestTime
        // What was archived was not under way: only what the store remembers counts. What HEAD has told of keeps an earlier time.
        let sentAt = new.metadata.flags.contains(.imported) ? nil : max(time, new.sentAt)
        return keys.contains { key in isMarked(key, since: time) || (sentAt.map { marks.mayHaveOvertaken(key, $0) } ?? false) }
    }

    /// Beside the target's key, not in its place: what is stored there later must not bring other partitions' old answers back.
    static func invalidationKey(_ sharedKey: [UInt8]) -> [UInt8] { sharedKey + [UInt8(ascii: "I")] }

    private static func collectionKey(_ sharedKey: [UInt8]) -> [UInt8] { sharedKey + [UInt8(ascii: "C")] }

    /// Drops what is stored for a target, in every partition and for every variant and content (RFC 9111 §4.4). The mark comes first: who stores
    /// at the same moment finds it, or is found.
    func invalidate(_ sharedKey: [UInt8], at now: Timestamp) {
        // Another than that of the last write, since it is part of keys: many may come in one millisecond.
        var time = now
        if let last = invalidationTime(sharedKey), 0..<1000 ~= last.milliseconds - now.milliseconds {
            time = Timestamp(milliseconds: last.milliseconds + 1)
        }
        mark(Self.invalidationKey(sharedKey), at: time)
        store.remove(sharedKey.span)
    }

    /// The same for a collection, whatever the arguments.
    /// - Parameter sharedKey: of the collection without arguments.
    func invalidateCollection(_ sharedKey: [UInt8], at now: Timestamp) {
        mark(Self.collectionKey(sharedKey), at: now)
    }
}
