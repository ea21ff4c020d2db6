// The cache: finds the stored response for a request, and never returns one that an unsafe request has invalidated. It looks up the key,
// then the variant, then the key under No-Vary-Search. Other operations are in separate files: storing, confirming, invalidating, purging,
// listing. It uses no sockets and no event loop; times are passed in.

import CachePolicy
import CacheStore
import Forwarding
import HTTPCore
import Identity

/// One instance for each thread that uses the cache: the shards' event loops and the administrator's queue. Shared state is in
/// `APICacheState`; the memory of an instance belongs to one thread and needs no lock. `@unchecked Sendable` because other threads only
/// pass the instance to its thread.
public final class ResponseCache: @unchecked Sendable {
    public let state: APICacheState
    public let keyMaker: RequestKeyMaker
    let settings: ResponseCacheSettings
    let store: ResponseStore
    let variances: SearchVarianceMemory?
    let gone: GoneMemory?
    private let doubts: DoubtfulWrites
    let policies: PathTable<RoutePolicy>
    /// Selecting fields with secret values: for a single user's cache and for paths with responses equal for all users, where keys have no
    /// partitions.
    let concealed: CredentialNames
    /// One for each secret of the fleet; empty if nothing is shared.
    let fleetKeyMakers: [RequestKeyMaker]
    /// nil if nothing is shared.
    let sharingRules: SharingRules?
    /// nil if nothing is shared.
    private let logLink: FleetLogLink?
    /// Set before the first request, on event loops only.
    public var level: any FleetStorage = NoFleetStorage.instance
    private let memo = SelectingMemo()
    let selections: SelectionMemo
    let references: LocationRewriting
    /// Key of the last lookup; its memory is reused.
    private var scratchKey: [UInt8] = []
    /// Additional capacity that is kept beyond the size of the last key, in bytes.
    private static let scratchBytes = 128
    var reading: Reading
    private let time: () -> CacheTime
    var now: Timestamp { time().wall }

    /// How records in the store are read.
    enum Reading {
        /// On an event loop: throws if a record must be loaded first.
        case inMemory
        case waiting
        /// May wait for the disk; not counted as a use.
        case inspecting
    }

    /// - Parameters:
    ///   - mayWait: whether the thread may wait for the disk.
    ///   - time: the thread's clock.
    public init(_ state: APICacheState, mayWait: Bool = false, time: @escaping () -> CacheTime) {
        self.state = state
        self.time = time
        reading = mayWait ? .waiting : .inMemory
        settings = state.settings
        selections = SelectionMemo(state.settings)
        let upstream = state.settings.upstream
        references = LocationRewriting(
            isOn: state.settings.rewritesLocation, origin: upstream.bytes, basePath: upstream.basePath, strippedPath: upstream.strippedPath,
            others: upstream.others.map { ($0.bytes, $0.basePath) })
        store = state.store
        variances = state.variances
        gone = state.gone
        doubts = state.storeMemory.doubts
        policies = settings.freshness.map { [policy = settings.policy] in RoutePolicy(policy, $0) }
        keyMaker = RequestKeyMaker(state.settings, hash: { [store] in store.credentialPartition($0) }, time: time)
        var fleetSettings = state.settings
        // The users that the upstream identifies refer to this node's partitions.
        fleetSettings.lookUps = []
        fleetKeyMakers =
            state.settings.fleet?.hashes.map { [fleetSettings] in RequestKeyMaker(fleetSettings, hash: $0, time: time) } ?? []
        sharingRules = settings.fleet == nil ? nil : SharingRules(settings)
        logLink = state.settings.fleet?.logLink
        let arePartitionsShared = settings.policy.isPrivate || settings.credentials.ignoresSome
        concealed = arePartitionsShared ? settings.policy.credentials.names : CredentialNames([])
    }

    /// The users that the upstream identified, indexed as in the credential rules.
    public var lookUps: [LookedUpIdentities] { settings.lookUps }

    public func lookUpIndex(for head: RequestHead) -> Int? { settings.credentials.specialRules(for: head)?.lookUp }

    /// Returns why a stored response counts as stale because of missed purges of other nodes; nil if it does not.
    public func doubt(of stored: StoredMetadata) -> FleetDoubt? { logLink?.doubt(ofStored: stored.responseTime) }

    var strictness: Strictness { settings.policy.strictness }

    /// Whether the store holds any response, of any API.
    public var hasStored: Bool { store.statistics.entries > 0 }

    /// Whether the store accepts new responses.
    public var isWritable: Bool { store.statistics.isWritable }

    /// Whether the cache directory was opened for writing. Purges are written even while the disk refuses new responses.
    public var canPurge: Bool { store.statistics.canOpen }

    // MARK: Finding

    /// Finds the stored response for a request, and returns the keys that were looked up.
    /// - Parameters:
    ///   - content: canonical content of the request, if the response depends on it; nil otherwise.
    ///   - client: number for the request's client.
    ///   - isFirst: whether this is the first lookup of the request.
    /// - Throws: what must be loaded before the lookup can complete.
    public func find(
        _ head: RequestHead, content: [UInt8]? = nil, by client: @autoclosure () -> UInt64 = 0, isFirst: Bool = false
    ) throws(NotInMemory) -> Finding {
        var basis = FindingBasis()
        let unknown = unknownFields(of: head, by: client(), notes: isFirst)
        var content = content
        // Writes do not invalidate preflights.
        if content != nil, head.method != .options { content! += try invalidationPart(of: head, &basis) }
        let target = head.pathAndQuery
        // If the last key is still referenced, this allocates memory of its size, rounded up. The limit keeps the capacity from growing
        // with each request.
        if scratchKey.capacity > 4 * scratchKey.count + Self.scratchBytes { scratchKey = [] }
        scratchKey.removeAll(keepingCapacity: true)
        let (keys, identity) = keyMaker.keys(
            for: head, target: target.span, rules: settings.arguments.specialRules(for: target), content: content, unknown: unknown,
            in: &scratchKey)
        basis.identity = identity
        let exact = try findExact(head, at: keys, &basis)
        let (foundKeys, result) = try findVaried(exact, head, unknown: keys.unknownFields, &basis) ?? (keys, exact)
        return Finding(keys: foundKeys, result: result, basis: basis)
    }

    /// Repeats the lookup of a request. The result may be under another key now: a new response may be the first one with No-Vary-Search.
    public func find(_ head: RequestHead, from keys: TargetKeys) throws(NotInMemory) -> Finding {
        var basis = FindingBasis()
        let exact = try findExact(head, at: keys, &basis)
        let (keys, result) = try findVaried(exact, head, unknown: keys.unknownFields, &basis) ?? (keys, exact)
        return Finding(keys: keys, result: result, basis: basis)
    }

    /// Looks up exactly these keys without regard to No-Vary-Search, and the variant if there is one.
    public func findExact(_ head: RequestHead, at keys: TargetKeys) throws(NotInMemory) -> LookUpResult {
        var basis = FindingBasis()
        return try findExact(head, at: keys, &basis)
    }

    func findExact(_ head: RequestHead, at keys: TargetKeys, _ basis: inout FindingBasis) throws(NotInMemory) -> LookUpResult {
        try keys.unknownFields == nil ? findInPartitions(head, at: keys, &basis) : findByUnknownFields(head, at: keys, &basis)
    }

    private func findInPartitions(
        _ head: RequestHead, at keys: TargetKeys, _ basis: inout FindingBasis
    ) throws(NotInMemory) -> LookUpResult {
        let own = try findOwn(head, at: keys, &basis)
        guard keys.common != nil else { return own }
        return try Self.preferred(own, findOwn(head, at: keys.inCommon, &basis), now: time().wall)
    }

    /// Selects the more recent response (RFC 9111 §4). A response shared only while it is validated does not hide the user's own response,
    /// which may be served stale.
    private static func preferred(_ own: LookUpResult, _ common: LookUpResult, now: Timestamp) -> LookUpResult {
        guard let commonMetadata = common.found?.metadata else {
            if case .nothing = own { return common }
            return own
        }
        guard let known = own.found?.metadata else { return common }
        let isLater = (known.date, known.responseTime) < (commonMetadata.date, commonMetadata.responseTime)
        return isLater && (commonMetadata.flags.contains(.isPublic) || Reuse.isFresh(commonMetadata, now: now)) ? common : own
    }

    private func findOwn(_ head: RequestHead, at keys: TargetKeys, _ basis: inout FindingBasis) throws(NotInMemory) -> LookUpResult {
        guard let item = try item(keys.own, &basis) else { return .nothing }
        switch StoredMetadata.kind(of: item.metadata.span) {
        case .response: return try accept(item, keys.own, keys, head, &basis)
        case .varyMarker:
            guard let variant = variant(of: item, keys.own, head.fields) else { return .nothing }
            basis.selecting += variant.names
            guard let item = try self.item(variant.key, &basis) else { return .otherVariant(variant.key) }
            return try accept(item, variant.key, keys, head, &basis)
        case .invalidation, .searchVariance, .cookieOrigins, .gone, nil: return .nothing
        }
    }

    /// Returns the item stored under exactly this key, and adds it to the basis of a finding; nil if there is none.
    func item(_ key: [UInt8], _ basis: inout FindingBasis) throws(NotInMemory) -> StoredItem? {
        switch reading {
        case .inMemory, .waiting:
            let mayWait = reading == .waiting
            do throws(OnDisk) { return try store.find(key.span, &basis.lookUps, mayWait: mayWait) } catch { throw .onDisk(error) }
        case .inspecting:
            basis.lookUps.noteUnknown()
            return store.see(key.span).item
        }
    }

    /// Looks up keys after their records were loaded. Waits for a record that is nevertheless not in memory.
    func findWaiting(_ head: RequestHead, at keys: TargetKeys) -> LookUpResult {
        (try? waiting { () throws(NotInMemory) in try findExact(head, at: keys) }) ?? .nothing
    }

    /// Time of the target's last invalidation, as part of keys that contain a request's content. Such keys cannot be enumerated for removal
    /// (RFC 9111 §4.4).
    private func invalidationPart(of head: RequestHead, _ basis: inout FindingBasis) throws(NotInMemory) -> [UInt8] {
        let targetKey = credentialFreeKey(of: head.pathAndQuery, for: head)
        guard let time = Self.time(of: try item(Self.invalidationKey(targetKey), &basis)) else { return [] }
        return Self.invalidationPart(time)
    }

    /// Returns the key of a variant, made of the marker's generation and the values of the selecting fields, and the names of these fields.
    func variant(of marker: StoredItem, _ key: [UInt8], _ request: Fields) -> (key: [UInt8], names: [ArraySlice<UInt8>])? {
        guard let generation = StoredMetadata.number(in: marker.metadata.span) else { return nil }
        var variant = key
        let (names, values) = memo.values(for: marker.head.span, in: request) { selecting($0, in: request) }
        CacheKey.appendVariant(to: &variant, generation: generation, selecting: values)
        return (variant, names)
    }

    func selecting(_ names: [ArraySlice<UInt8>], in request: Fields) -> [UInt8] {
        guard !concealed.isEmpty else { return SelectingFields.values(of: names, in: request) }
        return SelectingFields.values(of: names, in: request) { name, value in
            concealed.contains(name) ? store.credentialPartition(value) : nil
        }
    }

    /// - Parameter key: key of the item.
    func accept(
        _ item: StoredItem, _ key: [UInt8], _ keys: TargetKeys, _ head: RequestHead, _ basis: inout FindingBasis
    ) throws(NotInMemory) -> LookUpResult {
        guard var metadata = Self.metadata(of: item) else { return .nothing }
        guard try !isInvalid(metadata, item.head.span, keys, head, &basis) else {
            // A use could keep the item in the store for longer than the mark that invalidates it.
            store.remove(key.span, ifStill: item)
            return .nothing
        }
        // An error may be due to the request's Accept fields, or to its ignored credentials.
        if metadata.isNegative, !isAlike(metadata, head, keys) { return .nothing }
        if metadata.flags.contains(.coded), !mayRead(item, metadata, head, keys) { return .otherVariant(key) }
        if item.isMarkedStale { metadata.flags.insert(.markedStale) }
        if try isDoubted(metadata, keys, head, &basis) { metadata.flags.insert(.markedStale) }
        let found = FoundResponse(item: item, metadata: metadata, key: key)
        guard let logLink else { return .found(found) }
        basis.confirmed = metadata.responseTime
        return Self.result(found, logLink, now: time().wall)
    }

    private func isInvalid(
        _ metadata: StoredMetadata, _ stored: Span<UInt8>, _ keys: TargetKeys, _ head: RequestHead, _ basis: inout FindingBasis
    ) throws(NotInMemory) -> Bool {
        if head.method == .options,
            try isPurged(preflight: metadata, credentialFreeKey: credentialFreeKey(of: head.pathAndQuery, for: head), &basis)
        {
            return true
        }
        // A write immediately removes only the response under the credential-free key; others are checked against its mark.
        let isElsewhere = keys.isPartitioned || keys.unknownFields != nil
        let (credentialFreeKey, collection) = (isElsewhere ? keys.credentialFree : nil, collectionKey(of: head))
        return try isInvalid(metadata, stored, credentialFreeKey: credentialFreeKey, collection: collection, &basis)
    }

    private func isDoubted(
        _ metadata: StoredMetadata, _ keys: TargetKeys, _ head: RequestHead, _ basis: inout FindingBasis
    ) throws(NotInMemory) -> Bool {
        guard doubts.mayConcern(metadata.requestTime), head.method != .options else { return false }
        let target = credentialFreeKey(of: head.pathAndQuery, for: head)
        let credentialFreeKeys = keys.credentialFree == target ? [target] : [target, keys.credentialFree]
        return try isDoubted(metadata, credentialFreeKeys: credentialFreeKeys, collection: collectionKey(of: head), &basis)
    }

    /// Applies the freshness limit while this node does not receive purges of other nodes.
    private static func result(_ found: FoundResponse, _ logLink: FleetLogLink, now: Timestamp) -> LookUpResult {
        switch logLink.judge(found.metadata.responseTime, now: now) {
        case .counts: .found(found)
        case .isStale: .found(found.unconfirmed)
        case .isGone: .nothing
        }
    }

    /// nil if the item is not a response, or is damaged.
    static func metadata(of item: StoredItem, as kind: StoredKind = .response) -> StoredMetadata? {
        guard let metadata = StoredMetadata(item.metadata.span, as: kind), item.form.coding <= ContentCoding.lastNumber,
            metadata.etag.upperBound <= item.head.count,
            metadata.lastModified.upperBound <= item.head.count
        else { return nil }
        return metadata
    }

    /// Returns whether the client may receive the content in its stored coding. The request must accept the coding, or have the Accept
    /// fields of the request that fetched the response.
    private func mayRead(_ item: StoredItem, _ stored: StoredMetadata, _ request: RequestHead, _ keys: TargetKeys) -> Bool {
        guard let head = StoredHead.parse(item.head.span) else { return false }
        return ContentCoding.allows(head.fields, request.fields) || isAlike(stored, request, keys)
    }

    private func isAlike(_ stored: StoredMetadata, _ request: RequestHead, _ keys: TargetKeys) -> Bool {
        stored.likeness == likeness(of: request, keys, isForAll: stored.flags.contains(.forAllFields))
    }
}

// Requests with unknown fields, by which the upstream may select without listing them in Vary (`UnknownFields`). Their responses have
// separate keys, unless the upstream's fields say that they serve all requests.
extension ResponseCache {
    /// Returns the request's unknown fields; nil if it has none, or if they are ignored.
    /// - Parameter notes: whether this is the first lookup of the request, so that its values are recorded.
    func unknownFields(of head: RequestHead, by client: @autoclosure () -> UInt64, notes: Bool = false) -> UnknownFields? {
        keyMaker.unknownFields(of: head, besides: policy(for: head).settings.freshness.unforwarded) {
            state.unknownFields.judge($0, by: client(), notes: notes)
        }
    }

    /// Chooses between the request's own response and the one for all requests. Prefers a good fresh response for all requests. Otherwise
    /// the more recent response is used, because the upstream may now select by the fields. A response for all requests that is worse than
    /// the own response is not used, because another request's fields may have caused it. For another spelling of the path, only a fresh
    /// response for all requests is used, because a response to the request says nothing about it.
    func findByUnknownFields(_ head: RequestHead, at keys: TargetKeys, _ basis: inout FindingBasis) throws(NotInMemory) -> LookUpResult {
        let plain = try findInPartitions(head, at: keys.forAllFields, &basis)
        let isForAll = plain.found?.metadata.flags.contains(.forAllFields) ?? false
        if isForAll, let found = plain.found, found.metadata.flags.contains(.isJSON), found.metadata.status.isSuccessful,
            Reuse.isFresh(found.metadata, now: now)
        {
            return plain
        }
        let own = try findInPartitions(head, at: keys, &basis)
        guard isForAll, keys.unknownFields?.isOtherSpelling != true else {
            basis.isStoredForPlainOnly = plain.found != nil
            return own
        }
        guard let ownResponse = own.found, let forAll = plain.found else { return plain }
        let worth = LastGood.Worth(forAll.metadata, head: forAll.head.span)
        let isWorse = worth < LastGood.Worth(ownResponse.metadata, head: ownResponse.head.span)
        return !isWorse && forAll.metadata.recency.isLater(than: ownResponse.metadata.recency) ? plain : own
    }

    // MARK: Recording

    /// Returns false if a response would be stored for all values of a changing field, and too few of them got an equal one.
    func mayStore(_ response: WholeResponse, at location: StorageLocation) -> Bool {
        guard let unknown = location.unknownFields, !unknown.changing.isEmpty, !response.recency.isImported else { return true }
        var head = response.head
        head.fields = Fields()
        head.fields.append(contentsOf: response.head.fields) { !Self.times.holds($0) }
        ResponseCredentials.remove(from: &head.fields)
        let data = response.ownTag ?? response.content
        let number = ContentHash.number(of: data.span, seed: RepeatedHead.number(of: head, seed: 0) ?? 0)
        return state.unknownFields.noteResponse(number, to: unknown, under: location.key)
    }

    /// Fields that do not show whether two responses are equal.
    private static let times: KnownFieldSet = [.age, .expires]

    /// Records a stored response, and removes another variant if there are too many.
    /// - Parameters:
    ///   - unknown: nil if the response serves requests without unknown fields, or all requests.
    ///   - key: key of the stored response.
    func noteStored(_ unknown: UnknownFields?, at key: [UInt8], by client: UInt64) {
        guard let unknown else { return }
        let plain = Array(key.dropLast(UnknownFields.suffixBytes))
        guard let removed = state.unknownFields.noteStored(unknown, under: plain, by: client) else { return }
        store.remove(UnknownFields.key(plain, hash: removed).span)
    }
}
