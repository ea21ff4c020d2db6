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
    /// Whether `find` waits for the disk instead of throwing.
    private var mayWait = false

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
    /// - Throws: what has to be read from the disk before it can be said.
    func find(
        _ key: [UInt8], sharedKey: [UInt8]?, collection: [UInt8]? = nil, request: RequestHead
    ) throws(OnDisk) -> LookUpResult {
        let result = try find(key, sharedKey, request)
        guard let collection, case .found(let found) = result,
            try isMarked(Self.collectionKey(collection), since: found.metadata.requestTime)
        else { return result }
        let stored = found.key
        store.remove(stored.span, ifStill: found.written)
        return .nothing
    }

    /// The same for one who has brought in what is looked at: what is not in memory all the same is waited for.
    func findWaiting(_ key: [UInt8], sharedKey: [UInt8]?, request: RequestHead) -> LookUpResult {
        (try? waiting { () throws(OnDisk) in try find(key, sharedKey: sharedKey, request: request) }) ?? .nothing
    }

    /// What lies under exactly this key.
    func item(_ key: [UInt8]) throws(OnDisk) -> StoredItem? {
        if mayWait { return store.lookUp(key.span) }
        return try store.lookUpInMemory(key.span)
    }

    /// Looks, for a while, as one who may wait for the disk.
    func waiting<Result>(_ may: Bool = true, _ look: () throws(OnDisk) -> Result) throws(OnDisk) -> Result {
        let before = mayWait
        mayWait = may
        defer { mayWait = before }
        return try look()
    }

    private func find(_ key: [UInt8], _ sharedKey: [UInt8]?, _ request: RequestHead) throws(OnDisk) -> LookUpResult {
        guard let item = try item(key) else { return .nothing }
        switch StoredMetadata.kind(of: item.metadata) {
        case .response: return try accept(item, key, sharedKey, request.fields)
        case .varyMarker: return try findVariant(of: item, key, sharedKey, request.fields)
        case .invalidation, .searchVariance, .cookieOrigins, .gone, nil: return .nothing
        }
    }

    private func findVariant(of marker: StoredItem, _ key: [UInt8], _ sharedKey: [UInt8]?, _ request: Fields) throws(OnDisk) -> LookUpResult
    {
        guard let variant = variantKey(of: marker, key, request) else { return .nothing }
        guard let item = try item(variant) else { return .otherVariant(variant) }
        return try accept(item, variant, sharedKey, request)
    }

    private func variantKey(of marker: StoredItem, _ key: [UInt8], _ request: Fields) -> [UInt8]? {
        guard let generation = StoredMetadata.number(in: marker.metadata) else { return nil }
        var variant = key
        let values = memo.values(for: marker.head, in: request) { selecting($0, in: request) }
        CacheKey.appendVariant(to: &variant, generation: generation, selecting: values)
        return variant
    }

    private func accept(
        _ item: StoredItem, _ key: [UInt8], _ sharedKey: [UInt8]?, _ request: Fields
    ) throws(OnDisk) -> LookUpResult {
        guard var metadata = StoredMetadata(item.metadata), metadata.etag.upperBound <= item.head.count,
            metadata.lastModified.upperBound <= item.head.count
        else { return .nothing }
        var isInvalid = false
        if let sharedKey { isInvalid = try isMarked(Self.invalidationKey(sharedKey), since: metadata.requestTime) }
        if !isInvalid, metadata.flags.contains(.hasGroups) { isInvalid = try isGroupOvertaken(item.head, metadata.requestTime) }
        guard !isInvalid else {
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
    func invalidationTime(_ sharedKey: [UInt8]) throws(OnDisk) -> Timestamp? {
        Self.time(of: try item(Self.invalidationKey(sharedKey)))
    }

    /// Whether an unsafe request has changed a group that a stored answer belongs to (RFC 9875 §3) since it was asked for.
    private func isGroupOvertaken(_ head: UnsafeRawBufferPointer, _ requestTime: Timestamp) throws(OnDisk) -> Bool {
        guard let groups = Self.groups(of: head) else { return true }
        for group in groups { if try isMarked(Self.groupKey(group), since: requestTime) { return true } }
        return false
    }

    /// nil where nobody knows which they are.
    private static func groups(of head: UnsafeRawBufferPointer) -> [String]? {
        guard let head = StoredHead.parse(head) else { return [] }
        return CacheTags.groups(of: head.fields, named: "cache-groups")
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

    private static func time(of item: StoredItem?) -> Timestamp? {
        guard let item, StoredMetadata.kind(of: item.metadata) == .invalidation else { return nil }
        return StoredMetadata.number(in: item.metadata).map { Timestamp(milliseconds: Int64(bitPattern: $0)) }
    }

    /// Within one millisecond it counts as so.
    private func isMarked(_ key: [UInt8], since requestTime: Timestamp) throws(OnDisk) -> Bool {
        Self.time(of: try item(key)).map { requestTime <= $0 } ?? false
    }

    // MARK: For what is stored

    /// Whether an unsafe request has changed this target since. For one who has brought the mark in, like what follows.
    func isInvalid(_ requestTime: Timestamp, _ sharedKey: [UInt8]) -> Bool {
        isMarkedNow(Self.invalidationKey(sharedKey), since: requestTime)
    }

    private func isMarkedNow(_ key: [UInt8], since requestTime: Timestamp) -> Bool {
        Self.time(of: store.lookUp(key.span)).map { requestTime <= $0 } ?? false
    }

    /// Whether what comes for this place may have been made invalid since it was asked for: its target, its collection, or a group of it.
    func mayBeInvalid(_ new: NewResponse, at place: StoringPlace) -> Bool {
        guard let groups = new.metadata.flags.contains(.hasGroups) ? new.head.withUnsafeBytes(Self.groups) : [] else { return true }
        let keys = Self.marks(place.sharedKeys, place.collection, groups)
        let time = new.metadata.requestTime
        // What was archived was not under way: only what the store remembers counts. What HEAD has told of keeps an earlier time.
        let sentAt = new.metadata.flags.contains(.imported) ? nil : max(time, new.sentAt)
        return keys.contains { key in isMarkedNow(key, since: time) || (sentAt.map { marks.mayHaveOvertaken(key, $0) } ?? false) }
    }

    /// The keys of the marks that make something of these targets, of this collection or of these groups invalid.
    private static func marks(_ sharedKeys: [[UInt8]], _ collection: [UInt8]?, _ groups: [String]) -> [[UInt8]] {
        sharedKeys.map(invalidationKey) + (collection.map { [collectionKey($0)] } ?? []) + groups.map(groupKey)
    }

    /// What storing a response in one of these places looks at and would have to read from the disk first; nil where nothing.
    /// - Parameter others: more keys that are looked at.
    func firstOnDisk(
        storing response: Fields, at places: [TargetKeys], collection: [UInt8]?, _ others: [[UInt8]] = [], request: Fields
    ) -> OnDisk? {
        let groups = CacheTags.groups(of: response, named: "cache-groups") ?? []
        let keys = places.map(\.own) + others + Self.marks(places.map(\.shared), collection, groups)
        if let wanted = store.firstOnDisk(of: keys) { return wanted }
        let variants = places.compactMap { place -> [UInt8]? in
            guard let marker = store.see(place.own.span).item, StoredMetadata.kind(of: marker.metadata) == .varyMarker else { return nil }
            return variantKey(of: marker, place.own, request)
        }
        return store.firstOnDisk(of: variants)
    }

    /// Beside the target's key, not in its place: what is stored there later must not bring other partitions' old answers back.
    static func invalidationKey(_ sharedKey: [UInt8]) -> [UInt8] { sharedKey + [UInt8(ascii: "I")] }

    private static func collectionKey(_ sharedKey: [UInt8]) -> [UInt8] { sharedKey + [UInt8(ascii: "C")] }

    /// Drops what is stored for a target, in every partition and for every variant and content (RFC 9111 §4.4). The mark comes first: who stores
    /// at the same moment finds it, or is found.
    func invalidate(_ sharedKey: [UInt8], at now: Timestamp) {
        // Another than that of the last write, since it is part of keys: many may come in one millisecond.
        var time = now
        if let last = Self.time(of: store.lookUp(Self.invalidationKey(sharedKey).span)), 0..<1000 ~= last.milliseconds - now.milliseconds {
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
