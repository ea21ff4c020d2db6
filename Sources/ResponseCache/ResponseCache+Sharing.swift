// Exchanges responses with the shared level. Shared keys contain credentials hashed with the fleet's secret, so all nodes compute equal
// keys; local keys are unchanged. Responses from other nodes are stored through `put`, like archived ones: times and marks apply, and newer
// local responses are kept.

import CachePolicy
import CacheStore
import ContentCodings
import HTTPCore
import TakeOver

extension ResponseCache {
    // MARK: Shared keys

    /// Returns what to look up in the shared level; nil if the request does not use it. Responses keyed by request content are not shared.
    /// Keys under No-Vary-Search are not shared, because other nodes use the exact target. Responses to credentials with identity lookups
    /// are not shared either, because the credentials may later belong to another user, and other nodes do not know when.
    /// - Parameters:
    ///   - good: `good` of the request's route.
    ///   - kept: `keep_if` of the request's route.
    public func fleetLookUp(
        for head: RequestHead, at keys: TargetKeys, good: GoodResponse = GoodResponse(), kept: GoodResponse = GoodResponse()
    ) -> FleetLookUp? {
        guard level.isShared, head.method == .get || head.method == .head, isExact(keys, for: head),
            keyMaker.isWithoutLookUp(head)
        else { return nil }
        guard let rules = sharingRules else { return nil }
        var locations = fleetLocations(for: head, at: keys, rules)
        // If a marker is known locally, the variant is looked up at the same time.
        for location in locations {
            guard let marker = marker(at: location.localKey) else { continue }
            fleetVariant(of: location, named: Array(marker.head), head).map { locations.append($0) }
        }
        return FleetLookUp(head: head, keys: keys, locations: locations, good: good, kept: kept)
    }

    private func isExact(_ keys: TargetKeys, for head: RequestHead) -> Bool {
        // Fast path: most results are known without building a key.
        keyMaker.isPlain(keys.own) || variances?.isEmpty ?? true
            || keys.own == self.keys(for: head, target: Array(head.pathAndQuery), nil, unknown: keys.unknownFields).own
    }

    /// Returns the locations for each secret of the fleet, in the request's own partition and in the common one.
    private func fleetLocations(for head: RequestHead, at keys: TargetKeys, _ sharing: SharingRules) -> [FleetLocation] {
        func named(_ key: [UInt8]) -> [UInt8] { sharing.named(key, for: head) }
        if keyMaker.isPlain(keys.own), keys.unknownFields == nil {
            return fleetKeyMakers.indices.map { FleetLocation(secret: $0, key: named(keys.own), localKey: keys.own, isCommon: false) }
        }
        func locations(_ fleet: TargetKeys, _ local: TargetKeys, secret: Int, isForAll: Bool = false) -> [FleetLocation] {
            var location = FleetLocation(secret: secret, key: named(fleet.own), localKey: local.own, isCommon: false)
            location.isForAll = isForAll
            guard fleet.common != nil, local.common != nil else { return [location] }
            var common = location
            (common.key, common.localKey, common.isCommon) = (named(fleet.inCommon.own), local.inCommon.own, true)
            return [location, common]
        }
        return fleetKeyMakers.enumerated().flatMap { number, maker in
            let fleet = fleetKeys(of: head, keys.unknownFields, by: maker)
            let own = locations(fleet, keys, secret: number)
            guard keys.forAllFields.own != keys.own else { return own }
            // A node of a version without support for unknown fields stores every response under this key, so a response is used only if
            // it is marked for all requests.
            return own + locations(fleet.forAllFields, keys.forAllFields, secret: number, isForAll: true)
        }
    }

    private func fleetKeys(of head: RequestHead, _ unknown: UnknownFields?, by maker: RequestKeyMaker) -> TargetKeys {
        let target = head.pathAndQuery
        var own: [UInt8] = []
        let rules = settings.arguments.specialRules(for: target)
        return maker.keys(for: head, target: target.span, rules: rules, content: nil, unknown: maker.hashed(unknown), in: &own).keys
    }

    /// Returns whether the selecting fields contain no credentials. Values of credential fields are hashed with each node's own secret.
    private func isOpen(_ names: [ArraySlice<UInt8>]) -> Bool {
        concealed.isEmpty || !names.contains { concealed.contains($0) }
    }

    private func marker(at key: [UInt8]) -> StoredItem? {
        guard let item = store.see(key.span).item, StoredMetadata.kind(of: item.metadata.span) == .varyMarker else { return nil }
        return item
    }

    /// - Parameters:
    ///   - location: location of the marker.
    ///   - names: encoded names of the selecting fields.
    private func fleetVariant(of location: FleetLocation, named names: [UInt8], _ head: RequestHead) -> FleetLocation? {
        let list = SelectingFields.decode(names.span)
        guard !list.isEmpty, isOpen(list) else { return nil }
        var variant = location
        variant.key = Self.fleetVariantKey(location.key, named: names, selecting(list, in: head.fields))
        variant.names = names
        return variant
    }

    /// Generations of markers are local to each node, so a hash of the names replaces the generation.
    private static func fleetVariantKey(_ key: [UInt8], named names: [UInt8], _ values: [UInt8]) -> [UInt8] {
        var key = key
        CacheKey.appendVariant(to: &key, generation: ContentHash.number(of: names.span), selecting: values)
        return key
    }

    // MARK: Offering

    /// Offers a response that was stored here to the other nodes.
    func offer(_ item: NewItem, _ recency: Recency, at location: StorageLocation) {
        guard let key = fleetKey(at: location, recency, item.body.count) else { return }
        level.offer(item, as: key, recency)
    }

    /// Offers one of several variants to the other nodes.
    /// - Parameters:
    ///   - names: encoded names of the selecting fields.
    ///   - values: values of these fields in the request.
    func offerVariant(_ item: NewItem, _ recency: Recency, at location: StorageLocation, named names: [UInt8], _ values: [UInt8]) {
        let list = SelectingFields.decode(names.span)
        guard let key = fleetKey(at: location, recency, item.body.count), isOpen(list) else { return }
        let metadata = StoredMetadata.varyMarker(generation: 0, recency)
        level.offer(NewItem(key: location.key, metadata: metadata, head: names, body: [], retention: .mayRescue), as: key, recency)
        level.offer(item, as: Self.fleetVariantKey(key, named: names, values), recency)
    }

    /// Returns the key in the shared level for a local key; nil if the response is not shared.
    private func fleetKey(at location: StorageLocation, _ recency: Recency, _ contentBytes: Int) -> [UInt8]? {
        guard let rules = sharingRules, let request = location.request, !recency.isImported,
            contentBytes <= level.contentLimitBytes, level.mayOffer()
        else { return nil }
        return fleetKey(at: location, of: request).map { rules.named($0, for: request) }
    }

    private func fleetKey(at location: StorageLocation, of request: RequestHead) -> [UInt8]? {
        if keyMaker.isPlain(location.key), location.unknownFields == nil { return location.key }
        guard let maker = fleetKeyMakers.first else { return nil }
        // Keys under No-Vary-Search are known only to nodes that received the field, and keys with a request's content are not shared.
        guard location.key == localKey(of: request, location), location.isCommon || keyMaker.isWithoutLookUp(request)
        else { return nil }
        let keys = fleetKeys(of: request, location.unknownFields, by: maker)
        guard location.isCommon else { return keys.own }
        return keys.common == nil ? nil : keys.inCommon.own
    }

    /// Returns the local key of the exact target.
    private func localKey(of request: RequestHead, _ location: StorageLocation) -> [UInt8] {
        let keys = keys(for: request, target: Array(request.pathAndQuery), nil, unknown: location.unknownFields)
        return location.isCommon ? keys.inCommon.own : keys.own
    }

    // MARK: Receiving

    /// Stores a response from another node.
    /// - Parameter responseTime: when that node received the response, by this node's clock. The times in the record are by the other
    ///   node's clock.
    public func takeFromNode(
        _ record: FleetRecord, of responseTime: Timestamp, at location: FleetLocation, for lookUp: FleetLookUp
    ) -> TakingResult {
        guard record.key == location.key else { return .notTaken }
        switch StoredMetadata.kind(of: record.metadata.span) {
        case .response: return takeResponse(record, responseTime, at: location, for: lookUp)
        case .varyMarker: return takeMarker(record, at: location, for: lookUp)
        case .invalidation, .searchVariance, .cookieOrigins, .gone, nil: return .notTaken
        }
    }

    private func takeResponse(
        _ record: FleetRecord, _ responseTime: Timestamp, at location: FleetLocation, for lookUp: FleetLookUp
    ) -> TakingResult {
        guard var metadata = StoredMetadata(record.metadata.span), !metadata.isNegative,
            metadata.etag.upperBound <= record.head.count, metadata.lastModified.upperBound <= record.head.count,
            let response = StoredHead.parse(record.head.span)
        else { return .notTaken }
        guard !location.isForAll || metadata.flags.contains(.forAllFields), isStorable(response) else { return .notTaken }
        guard isGood(response, record.body, metadata.flags, for: lookUp) else { return .notGood }
        // Keeps the age as the other node computed it, whatever its clock shows.
        metadata.shift(by: responseTime.milliseconds - metadata.responseTime.milliseconds)
        metadata.flags.insert(.imported)
        metadata.flags.subtract(.countsAsStale)
        metadata.order = state.sent.next()
        let head = StoredHead.withoutUnstoredFields(response, &metadata, settings: settings.policy) ?? record.head
        let new = NewResponse(
            head: head, metadata: metadata, body: record.body,
            names: SelectingFields.decode(location.names.span).map { Array($0) },
            request: lookUp.head.fields, sentAt: metadata.requestTime)
        let local = StorageLocation(
            key: location.localKey, credentialFreeKeys: [lookUp.keys.credentialFree], collection: collectionKey(of: lookUp.head),
            isCommon: location.isCommon)
        guard put(new, at: local) == .stored else { return .notTaken }
        if !location.isForAll { noteStored(lookUp.keys.unknownFields, at: local.key, by: 0) }
        return .taken
    }

    /// Returns whether this node stores responses with such a status and type. `SharingRules` compares the rules about users.
    private func isStorable(_ response: ResponseHead) -> Bool {
        let policy = settings.policy
        return policy.keepsAny || response.status.isSuccessful && policy.contentTypes.contain(MediaType(of: response.fields))
    }

    /// Returns whether the response meets all requirements and is not worse than a good local response. The other node may have had other
    /// requirements, or no stored response to compare with.
    private func isGood(_ response: ResponseHead, _ body: ItemBody, _ flags: StoredFlags, for lookUp: FleetLookUp) -> Bool {
        let found = findWaiting(lookUp.head, at: lookUp.keys).found
        if let found {
            let copy = LastGood.Copy(found.metadata, head: found.head.span, beside: response)
            let isLenient = flags.contains(.isLenient)
            guard LastGood.obstacle(response, isLenient: isLenient, replacing: copy, strictness: strictness) == nil else { return false }
        }
        let demands = [lookUp.good, lookUp.kept]
        guard demands.allSatisfy({ $0.faultOfHead(response) == nil }) else { return false }
        // The content has a coding that cannot be decoded here.
        guard !flags.contains(.coded) else { return true }
        guard demands.allSatisfy({ $0.faultOfLength(body.form.plainBytes, storedBytes: found?.contentBytes) == nil }) else { return false }
        guard demands.contains(where: \.searchesContent) else { return true }
        guard let content = Self.plain(body) else { return false }
        let isJSON = flags.intersection([.isJSON, .isLenient]) == .isJSON
        return demands.allSatisfy { $0.faultOfContent(content.span, isJSON: isJSON, storedBytes: nil) == nil }
    }

    /// Returns the content without its stored coding; nil if it is damaged.
    private static func plain(_ body: ItemBody) -> [UInt8]? {
        var bytes: [UInt8] = []
        body.withBytes { bytes = Array($0) }
        guard let coding = ContentCoding(number: body.form.coding) else { return nil }
        return try? ContentDecoder.decode(bytes, coding, limit: body.form.plainBytes)
    }

    /// Returns the variant that a marker refers to. The marker is stored only together with the variant (`insertVariant`); alone, it would
    /// replace a response that may still be served.
    private func takeMarker(_ record: FleetRecord, at location: FleetLocation, for lookUp: FleetLookUp) -> TakingResult {
        guard location.names.isEmpty, let variant = fleetVariant(of: location, named: record.head, lookUp.head) else { return .notTaken }
        return .leads(to: variant)
    }

    // MARK: Invalidations

    /// Announces to other nodes, and to the process that takes over, that a write may have changed the users of its tokens.
    /// - Parameters:
    ///   - tokens: hash of each credential of the request.
    ///   - isLost: whether no response arrived, so that the upstream may still process the write.
    public func announceWrite(of head: RequestHead, tokens: [[UInt8]], isLost: Bool) {
        guard !tokens.isEmpty else { return }
        store.sendToPeer(.identities(tokens: tokens, isLost: isLost))
        guard level.isShared else { return }
        let announced = keyMaker.announcedTokens(of: head.fields)
        if !announced.isEmpty { level.invalidated(identitiesOf: announced, isLost: isLost) }
    }

    /// Returns the marks that invalidate all responses stored for a target, including its preflights. nil if the other parts of its keys
    /// are unknown.
    public func marks(ofTarget text: String) -> [[UInt8]]? {
        guard keyMaker.hasPlainKeys else { return nil }
        let target = RequestTarget.escaped(Array(text.utf8)[...], isTyped: true)
        let rules = settings.arguments.specialRules(for: target[...])
        // For both schemes, if they are distinguished.
        return [false, true].flatMap { isSecure in
            var key: [UInt8] = []
            let prefix = CacheKey.prefix(authority: settings.keyName, extra: KeyExtra(isSecure: isSecure).encoded)
            CacheKey.append(to: &key, prefix: prefix, target: target.span, rules: rules)
            return [Self.invalidationKey(key), Self.preflightsKey(key)]
        }
    }

    /// Returns a function that decides whether a purge may cover a record: by its key, or by its tags if a tag is purged.
    /// - Parameter budget: shared by all records of a search.
    public func purges(of record: FleetRecord, for lookUp: FleetLookUp, within budget: PurgeBudget) -> (_ selection: [UInt8]) -> Bool {
        lazy var compared = ComparedRecord(record, ownKey: lookUp.keys.own, budget)
        return { [selections] selection in selections.maySelect(selection, compared) }
    }

    /// Returns the keys of the marks that may apply to the record.
    public func marks(concerning record: FleetRecord, for lookUp: FleetLookUp) -> [[UInt8]] {
        marks([lookUp.keys.credentialFree], collectionKey(of: lookUp.head), Self.groups(of: record.head.span) ?? [])
    }
}

extension APICacheState {
    /// Applies an invalidation by a write or purge of another node, to stored responses and to pending fetches. Callable on any thread.
    /// - Parameters:
    ///   - mark: key of the mark, as passed to `FleetStorage.invalidated`.
    ///   - isDoubtful: whether stored responses become stale instead of being removed.
    public func follow(mark: [UInt8], isDoubtful: Bool = false, at now: Timestamp) {
        guard let letter = mark.last else { return }
        if isDoubtful { storeMemory.doubts.note(at: times.ofMark(now)) }
        self.mark(isDoubtful ? DoubtfulWrites.markKey(mark) : mark, at: now, isOwn: false)
        guard letter == UInt8(ascii: "I") else { return }
        let credentialFreeKey = Array(mark.dropLast())
        if !isDoubtful { store.remove(credentialFreeKey.span) }
        // Other nodes may not know this node's No-Vary-Search records. Responses stored under them are thus no longer found. The mark may
        // belong to another API.
        guard varianceSign.isSet, let key = StoredKey(credentialFreeKey) else { return }
        SearchVarianceMemory.forget(path: key.pathKey(of: credentialFreeKey), in: store)
    }
}
