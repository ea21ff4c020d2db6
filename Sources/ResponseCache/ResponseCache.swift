// The cache: finds the stored response for a request, and never one that an unsafe request has made invalid since. By the request's key; then,
// where responses vary, by the selecting fields; then under what the upstream said of its arguments. The other verbs stand in files of their
// own: `store` and `confirm`, `invalidate`, `purge`, `list`. It knows no sockets and no loops; times are passed in.

import CachePolicy
import CacheStore
import HTTPCore
import Identity

/// Each thread that uses the cache has one: a shard's loop, and the administrator's queue. What they share is in `SharedCacheState`; what is
/// remembered here is for one thread, so nothing is guarded. `@unchecked Sendable` because others do no more than carry it to that thread.
public final class ResponseCache: @unchecked Sendable {
    public let shared: SharedCacheState
    public let keyMaker: RequestKeyMaker
    let settings: ResponseCacheSettings
    let store: ResponseStore
    let variances: SearchVarianceMemory?
    let gone: GoneMemory?
    private let doubts: DoubtfulWrites
    private let policies: PathTable<RoutePolicy>
    /// Selecting fields whose values are secrets: those of one user's own cache and of paths that are the same for all, where keys have no
    /// partitions.
    let concealed: CredentialNames
    /// One for each of the fleet's secrets; empty where nothing is shared.
    let fleetKeyMakers: [RequestKeyMaker]
    /// nil where nothing is shared.
    let sharingRules: SharingRules?
    /// nil where nothing is shared.
    private let sight: FleetSight?
    /// Set before the first request; nil where nothing is shared, and on the administrator's queue.
    public var level: (any SharedLevel)?
    private let memo = SelectingMemo()
    /// The key of the request that was looked up last: its memory is used again.
    private var scratchKey: [UInt8] = []
    /// Room for so much more than the last key took is kept for the next one.
    private static let scratchBytes = 128
    var reading: Reading
    private let time: () -> CacheTime
    var now: Timestamp { time().wall }

    /// How what lies in the store is read.
    enum Reading {
        /// As an event loop does: what has to be brought in first is thrown.
        case atHand
        case waiting
        /// Waiting, and not counted as a use.
        case looking
    }

    /// - Parameters:
    ///   - mayWait: whether its thread may wait for the disk.
    ///   - time: as its thread has it.
    public init(_ shared: SharedCacheState, mayWait: Bool = false, time: @escaping () -> CacheTime) {
        self.shared = shared
        self.time = time
        reading = mayWait ? .waiting : .atHand
        settings = shared.settings
        store = shared.store
        variances = shared.variances
        gone = shared.gone
        doubts = shared.storeMemory.doubts
        policies = settings.freshness.map { [policy = settings.policy] in RoutePolicy(policy, $0) }
        keyMaker = RequestKeyMaker(shared.settings, hash: { [store] in store.credentialPartition($0) }, time: time)
        var fleetSettings = shared.settings
        // What the upstream says of credentials names the partitions of this node.
        fleetSettings.lookUps = []
        fleetKeyMakers =
            shared.settings.fleet?.hashing.hashes.map { [fleetSettings] in RequestKeyMaker(fleetSettings, hash: $0, time: time) } ?? []
        sharingRules = settings.fleet == nil ? nil : SharingRules(settings)
        sight = shared.settings.fleet?.sight
        let areShared = settings.policy.isPrivate || settings.credentials.ignoresSome
        concealed = areShared ? settings.policy.credentials.names : CredentialNames([])
    }

    /// What the upstream has said of credentials, in the places that the rules name.
    public var lookUps: [ToldIdentities] { settings.lookUps }

    public func lookUpPlace(for head: RequestHead) -> Int? { settings.credentials.specialRules(for: head)?.lookUp }

    /// Why a copy that was marked as stale is so, where that is for what other nodes may have purged.
    public func doubt(of stored: StoredMetadata) -> FleetDoubt? { sight?.doubt(ofStored: stored.responseTime) }

    var strictness: Strictness { settings.policy.strictness }

    /// Whether a request that was looked up would be given the same now, as far as that depends on what is stored.
    public func holds(_ basis: FindingBasis) -> Bool { shared.holds(basis, now: time().wall) }

    /// The rules of keeping for what a request asks for.
    func policy(for head: RequestHead) -> RoutePolicy { policies.rules(for: head.pathAndQuery) }

    /// Whether the store has anything, of any API.
    public var hasStored: Bool { store.statistics.entries > 0 }

    /// Whether the store accepts new responses.
    public var isWritable: Bool { store.statistics.isWritable }

    /// Whether the cache directory was opened for writing. Purges are written even while the disk refuses new responses.
    public var canPurge: Bool { store.statistics.canOpen }

    // MARK: Finding

    /// What is stored for a request, and where it was looked for.
    /// - Parameters:
    ///   - content: what the request's content says, where its response depends on it.
    ///   - client: a number for its client.
    ///   - isFirst: the request has not been looked up before.
    /// - Throws: what has to be brought in before it can be said.
    public func find(
        _ head: RequestHead, content: [UInt8]? = nil, by client: @autoclosure () -> UInt64 = 0, isFirst: Bool = false
    ) throws(NotAtHand) -> Finding {
        var basis = FindingBasis()
        let keys = try keys(for: head, content: content, unknown: unknownFields(of: head, by: client(), notes: isFirst), &basis)
        return try find(head, from: keys, &basis)
    }

    /// The same for a request that was looked up before. It may be found in another place now: the response that has just come may be the first
    /// to say which arguments make no difference.
    public func find(_ head: RequestHead, from keys: TargetKeys) throws(NotAtHand) -> Finding {
        var basis = FindingBasis()
        return try find(head, from: keys, &basis)
    }

    private func find(_ head: RequestHead, from keys: TargetKeys, _ basis: inout FindingBasis) throws(NotAtHand) -> Finding {
        let exact = try find(head, at: keys, &basis)
        let (keys, result) = try findVaried(exact, head, unknown: keys.unknownFields, &basis) ?? (keys, exact)
        return Finding(keys: keys, result: result, basis: basis)
    }

    /// What lies in exactly this place, or in that of its variant.
    public func find(_ head: RequestHead, at keys: TargetKeys) throws(NotAtHand) -> LookUpResult {
        var basis = FindingBasis()
        return try find(head, at: keys, &basis)
    }

    func find(_ head: RequestHead, at keys: TargetKeys, _ basis: inout FindingBasis) throws(NotAtHand) -> LookUpResult {
        try keys.unknownFields == nil ? findInPartitions(head, at: keys, &basis) : findByUnknownFields(head, at: keys, &basis)
    }

    func findInPartitions(_ head: RequestHead, at keys: TargetKeys, _ basis: inout FindingBasis) throws(NotAtHand) -> LookUpResult {
        let own = try findOwn(head, at: keys, &basis)
        guard keys.common != nil else { return own }
        return try Self.preferred(own, findOwn(head, at: keys.inCommon, &basis), now: time().wall)
    }

    /// The more recent one (RFC 9111 §4). What others may have only as long as it is validated does not keep its own user from a copy that may go out stale.
    private static func preferred(_ own: LookUpResult, _ common: LookUpResult, now: Timestamp) -> LookUpResult {
        guard let shared = common.found?.metadata else {
            if case .nothing = own { return common }
            return own
        }
        guard let known = own.found?.metadata else { return common }
        let isLater = (known.date, known.responseTime) < (shared.date, shared.responseTime)
        return isLater && (shared.flags.contains(.isPublic) || Reuse.isFresh(shared, now: now)) ? common : own
    }

    private func findOwn(_ head: RequestHead, at keys: TargetKeys, _ basis: inout FindingBasis) throws(NotAtHand) -> LookUpResult {
        guard let item = try item(keys.own, &basis) else { return .nothing }
        switch StoredMetadata.kind(of: item.metadata) {
        case .response: return try accept(item, keys.own, keys, head, &basis)
        case .varyMarker:
            guard let variant = variant(of: item, keys.own, head.fields) else { return .nothing }
            basis.selecting += variant.names
            guard let item = try self.item(variant.key, &basis) else { return .otherVariant(variant.key) }
            return try accept(item, variant.key, keys, head, &basis)
        case .invalidation, .searchVariance, .cookieOrigins, .gone, nil: return .nothing
        }
    }

    /// The same for one who has brought in what is looked at: what is not at hand all the same is waited for.
    func findWaiting(_ head: RequestHead, at keys: TargetKeys) -> LookUpResult {
        (try? waiting { () throws(NotAtHand) in try find(head, at: keys) }) ?? .nothing
    }

    private func keys(
        for head: RequestHead, content: [UInt8]?, unknown: UnknownFields?, _ basis: inout FindingBasis
    ) throws(NotAtHand) -> TargetKeys {
        var content = content
        // A write changes nothing of what preflights ask for.
        if content != nil, head.method != .options { content! += try invalidationPart(of: head, &basis) }
        let target = head.pathAndQuery
        let rules = settings.arguments.specialRules(for: target)
        // Where somebody keeps the last key, this is new memory of the same size, rounded up: so that it does not grow with each.
        if scratchKey.capacity > 4 * scratchKey.count + Self.scratchBytes { scratchKey = [] }
        scratchKey.removeAll(keepingCapacity: true)
        let (keys, identity) = keyMaker.keys(
            for: head, target: target.span, rules: rules, content: content, unknown: unknown, in: &scratchKey)
        basis.identity = identity
        return keys
    }

    /// When an unsafe request last made the target invalid: part of the keys of what is kept by a request's content, since what lies under all
    /// contents cannot be searched for (RFC 9111 §4.4).
    private func invalidationPart(of head: RequestHead, _ basis: inout FindingBasis) throws(NotAtHand) -> [UInt8] {
        let shared = sharedKey(of: head.pathAndQuery, for: head)
        guard let time = Self.time(of: try item(Self.invalidationKey(shared), &basis)) else { return [] }
        return Self.invalidationPart(time)
    }

    /// Of a variant: the generation of its marker, and the values of the selecting fields.
    func variant(of marker: StoredItem, _ key: [UInt8], _ request: Fields) -> (key: [UInt8], names: [ArraySlice<UInt8>])? {
        guard let generation = StoredMetadata.number(in: marker.metadata) else { return nil }
        var variant = key
        let (names, values) = memo.values(for: marker.head, in: request) { selecting($0, in: request) }
        CacheKey.appendVariant(to: &variant, generation: generation, selecting: values)
        return (variant, names)
    }

    func selecting(_ names: [ArraySlice<UInt8>], in request: Fields) -> [UInt8] {
        guard !concealed.isEmpty else { return SelectingFields.values(of: names, in: request) }
        return SelectingFields.values(of: names, in: request) { name, value in
            concealed.contains(name) ? store.credentialPartition(value) : nil
        }
    }

    /// - Parameter key: the item's.
    private func accept(
        _ item: StoredItem, _ key: [UInt8], _ keys: TargetKeys, _ head: RequestHead, _ basis: inout FindingBasis
    ) throws(NotAtHand) -> LookUpResult {
        guard var metadata = Self.metadata(of: item) else { return .nothing }
        guard try !isInvalid(metadata, item.head, keys, head, &basis) else {
            // Else it could be kept for its use, and outlive the mark that says so.
            store.remove(key.span, ifStill: item)
            return .nothing
        }
        if metadata.flags.contains(.coded), !Self.mayRead(item, metadata, head.fields, keys) { return .otherVariant(key) }
        if item.isMarkedStale { metadata.flags.insert(.markedStale) }
        if try isDoubted(metadata, keys, head, &basis) { metadata.flags.insert(.markedStale) }
        let found = FoundResponse(item: item, metadata: metadata, key: key)
        guard let sight else { return .found(found) }
        basis.confirmed = metadata.responseTime
        return Self.result(found, sight, now: time().wall)
    }

    private func isInvalid(
        _ metadata: StoredMetadata, _ stored: UnsafeRawBufferPointer, _ keys: TargetKeys, _ head: RequestHead, _ basis: inout FindingBasis
    ) throws(NotAtHand) -> Bool {
        if head.method == .options, try isPurged(preflight: metadata, sharedKey: sharedKey(of: head.pathAndQuery, for: head), &basis) {
            return true
        }
        // A write takes out at once only what lies under the shared key itself.
        let isElsewhere = keys.isPartitioned || keys.unknownFields != nil
        let (sharedKey, collection) = (isElsewhere ? keys.shared : nil, collectionKey(of: head))
        return try isInvalid(metadata, stored, sharedKey: sharedKey, collection: collection, &basis)
    }

    private func isDoubted(
        _ metadata: StoredMetadata, _ keys: TargetKeys, _ head: RequestHead, _ basis: inout FindingBasis
    ) throws(NotAtHand) -> Bool {
        guard doubts.mayConcern(metadata.requestTime), head.method != .options else { return false }
        let target = sharedKey(of: head.pathAndQuery, for: head)
        let sharedKeys = keys.shared == target ? [target] : [target, keys.shared]
        return try isDoubted(metadata, sharedKeys: sharedKeys, collection: collectionKey(of: head), &basis)
    }

    /// What it counts for as long as nobody knows what others have purged.
    private static func result(_ found: FoundResponse, _ sight: FleetSight, now: Timestamp) -> LookUpResult {
        switch sight.judge(found.metadata.responseTime, now: now) {
        case .counts: .found(found)
        case .isStale: .found(found.unconfirmed)
        case .isGone: .nothing
        }
    }

    /// nil where the item is no response, or damaged.
    static func metadata(of item: StoredItem, as kind: StoredKind = .response) -> StoredMetadata? {
        guard let metadata = StoredMetadata(item.metadata, as: kind), item.form.coding <= ContentCoding.lastNumber,
            metadata.etag.upperBound <= item.head.count,
            metadata.lastModified.upperBound <= item.head.count
        else { return nil }
        return metadata
    }

    /// Whether the client may get the content in its stored coding. Its request must allow that coding, or have the Accept fields of the request
    /// that the upstream answered with it.
    private static func mayRead(_ item: StoredItem, _ stored: StoredMetadata, _ request: Fields, _ keys: TargetKeys) -> Bool {
        guard let head = StoredHead.parse(item.head) else { return false }
        if ContentCoding.allows(head.fields, request) { return true }
        return stored.likeness == likeness(of: request, keys, isForAll: stored.flags.contains(.forAllFields))
    }
}
