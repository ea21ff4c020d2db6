// What goes to the shared level and comes from it. Keys go over with credentials hashed by the fleet's secret, so all nodes agree on them, while those of
// the store stay what they are. What comes in goes through `put`, as an archived response does: times count, and marks, and what is stored here and
// is newer stays.

import CachePolicy
import CacheStore
import ContentCodings
import HTTPCore
import Hashing

extension ResponseCache {
    // MARK: Where it lies

    /// What would have to be looked at in the shared level; nil where it has nothing to do with the request. What is kept by a request's
    /// content is not shared, nor what is looked up by what was said of arguments: others have it under the exact target. Nor is what lies in a
    /// partition that the upstream has named: the same credentials may be another's by the time that it is found.
    /// - Parameters:
    ///   - good: `good` of its route.
    ///   - kept: `keep_if` of its route.
    public func sharedLookUp(
        for head: RequestHead, at keys: TargetKeys, good: GoodResponse = GoodResponse(), kept: GoodResponse = GoodResponse()
    ) -> SharedLookUp? {
        guard level != nil, head.method == .get || head.method == .head, isExact(keys, for: head), keyMaker.isUntold(keys.own, of: head)
        else { return nil }
        guard let rules = sharingRules else { return nil }
        var places = sharedPlaces(for: head, at: keys, rules)
        // Where a marker is at hand already, the variant is asked for in the same breath.
        for place in places {
            guard let marker = marker(at: place.localKey) else { continue }
            sharedVariant(of: place, named: Array(marker.head), head).map { places.append($0) }
        }
        return SharedLookUp(head: head, keys: keys, places: places, good: good, kept: kept)
    }

    private func isExact(_ keys: TargetKeys, for head: RequestHead) -> Bool {
        // Nearly always it is known without making a key.
        keyMaker.isPlain(keys.own) || variances?.isEmpty ?? true
            || keys.own == self.keys(for: head, target: Array(head.pathAndQuery), nil, unknown: keys.unknownFields).own
    }

    /// For each of the fleet's secrets: in the request's own partition, and in the common one.
    private func sharedPlaces(for head: RequestHead, at keys: TargetKeys, _ sharing: SharingRules) -> [SharedPlace] {
        func named(_ key: [UInt8]) -> [UInt8] { sharing.named(key, for: head) }
        if keyMaker.isPlain(keys.own), keys.unknownFields == nil {
            return fleetKeyMakers.indices.map { SharedPlace(secret: $0, key: named(keys.own), localKey: keys.own, isCommon: false) }
        }
        func places(_ fleet: TargetKeys, _ local: TargetKeys, secret: Int, isForAll: Bool = false) -> [SharedPlace] {
            var place = SharedPlace(secret: secret, key: named(fleet.own), localKey: local.own, isCommon: false)
            place.isForAll = isForAll
            guard fleet.common != nil, local.common != nil else { return [place] }
            var common = place
            (common.key, common.localKey, common.isCommon) = (named(fleet.inCommon.own), local.inCommon.own, true)
            return [place, common]
        }
        return fleetKeyMakers.enumerated().flatMap { number, maker in
            let fleet = fleetKeys(of: head, keys.unknownFields, by: maker)
            let own = places(fleet, keys, secret: number)
            guard keys.unknownFields != nil else { return own }
            // A node that knows nothing of unknown fields stores there whatever it gets: so only what says that it is for all is taken.
            return own + places(fleet.forAllFields, keys.forAllFields, secret: number, isForAll: true)
        }
    }

    private func fleetKeys(of head: RequestHead, _ unknown: UnknownFields?, by maker: RequestKeyMaker) -> TargetKeys {
        let target = head.pathAndQuery
        var own: [UInt8] = []
        let rules = settings.arguments.specialRules(for: target)
        return maker.keys(for: head, target: target.span, rules: rules, content: nil, unknown: maker.hashed(unknown), in: &own).keys
    }

    /// Values of credential fields are hashed by each node's own secret.
    private func isOpen(_ names: [ArraySlice<UInt8>]) -> Bool {
        concealed.isEmpty || !names.contains { concealed.contains($0) }
    }

    private func marker(at key: [UInt8]) -> StoredItem? {
        guard let item = store.see(key.span).item, StoredMetadata.kind(of: item.metadata) == .varyMarker else { return nil }
        return item
    }

    /// - Parameters:
    ///   - place: of the marker.
    ///   - names: of the selecting fields, as the marker has them.
    private func sharedVariant(of place: SharedPlace, named names: [UInt8], _ head: RequestHead) -> SharedPlace? {
        let list = names.withUnsafeBytes(SelectingFields.decode)
        guard !list.isEmpty, isOpen(list) else { return nil }
        var variant = place
        variant.key = Self.sharedVariantKey(place.key, named: names, selecting(list, in: head.fields))
        variant.names = names
        return variant
    }

    /// Nodes number the generations of their markers each for itself; so what the names are stands in the place of that.
    private static func sharedVariantKey(_ key: [UInt8], named names: [UInt8], _ values: [UInt8]) -> [UInt8] {
        var key = key
        CacheKey.appendVariant(to: &key, generation: names.withUnsafeBytes(ContentHash.number), selecting: values)
        return key
    }

    // MARK: Giving

    /// What has been stored here goes to the others.
    func offer(_ item: NewItem, _ recency: Recency, at place: StoringPlace) {
        guard let key = sharedKey(at: place, recency, item.body.count) else { return }
        level?.offer(item, as: key, recency)
    }

    /// The same of one of several variants.
    /// - Parameters:
    ///   - names: of the selecting fields, as the marker has them.
    ///   - values: of the request's.
    func offerVariant(_ item: NewItem, _ recency: Recency, at place: StoringPlace, named names: [UInt8], _ values: [UInt8]) {
        let list = names.withUnsafeBytes(SelectingFields.decode)
        guard let key = sharedKey(at: place, recency, item.body.count), isOpen(list) else { return }
        let metadata = StoredMetadata.varyMarker(generation: 0, recency)
        level?.offer(NewItem(key: place.key, metadata: metadata, head: names, body: [], retention: .mayRescue), as: key, recency)
        level?.offer(item, as: Self.sharedVariantKey(key, named: names, values), recency)
    }

    /// As all nodes know what lies here under the place's key; nil where it is not shared.
    private func sharedKey(at place: StoringPlace, _ recency: Recency, _ contentBytes: Int) -> [UInt8]? {
        guard let level, let rules = sharingRules, let request = place.request, !recency.isImported,
            contentBytes <= level.contentLimitBytes, level.mayOffer()
        else { return nil }
        return sharedKey(at: place, of: request).map { rules.named($0, for: request) }
    }

    private func sharedKey(at place: StoringPlace, of request: RequestHead) -> [UInt8]? {
        if keyMaker.isPlain(place.key), place.unknownFields == nil { return place.key }
        guard let maker = fleetKeyMakers.first else { return nil }
        // What lies under what was said of arguments is found by those only to whom it was said; what is kept by a request's content is not shared.
        guard place.key == localKey(of: request, place), place.isCommon || keyMaker.isUntold(place.key, of: request) else { return nil }
        let keys = fleetKeys(of: request, place.unknownFields, by: maker)
        guard place.isCommon else { return keys.own }
        return keys.common == nil ? nil : keys.inCommon.own
    }

    /// The key of the exact target.
    private func localKey(of request: RequestHead, _ place: StoringPlace) -> [UInt8] {
        let keys = keys(for: request, target: Array(request.pathAndQuery), nil, unknown: place.unknownFields)
        return place.isCommon ? keys.inCommon.own : keys.own
    }

    // MARK: Taking

    /// Stores what another node has given.
    /// - Parameter responseTime: when that had it, by this node's clock. The record's own times are by the other's.
    public func take(
        _ record: SharedRecord, of responseTime: Timestamp, at place: SharedPlace, for lookUp: SharedLookUp
    ) -> TakingResult {
        guard record.key == place.key else { return .notTaken }
        switch record.metadata.withUnsafeBytes(StoredMetadata.kind) {
        case .response: return takeResponse(record, responseTime, at: place, for: lookUp)
        case .varyMarker: return takeMarker(record, at: place, for: lookUp)
        case .invalidation, .searchVariance, .cookieOrigins, .gone, nil: return .notTaken
        }
    }

    private func takeResponse(
        _ record: SharedRecord, _ responseTime: Timestamp, at place: SharedPlace, for lookUp: SharedLookUp
    ) -> TakingResult {
        guard var metadata = record.metadata.withUnsafeBytes({ StoredMetadata($0) }), !metadata.isNegative,
            metadata.etag.upperBound <= record.head.count, metadata.lastModified.upperBound <= record.head.count,
            let response = record.head.withUnsafeBytes({ StoredHead.parse($0) })
        else { return .notTaken }
        guard !place.isForAll || metadata.flags.contains(.forAllFields) else { return .notTaken }
        guard isGood(response, record.body, metadata.flags, for: lookUp) else { return .notGood }
        // As the other node judged its age, whatever its clock says.
        metadata.shift(by: responseTime.milliseconds - metadata.responseTime.milliseconds)
        metadata.flags.insert(.imported)
        metadata.flags.subtract(.countsAsStale)
        metadata.order = shared.sent.take()
        let head = StoredHead.withoutUnkept(response, &metadata, settings: settings.policy) ?? record.head
        let new = NewResponse(
            head: head, metadata: metadata, body: record.body,
            names: place.names.withUnsafeBytes(SelectingFields.decode).map { Array($0) },
            request: lookUp.head.fields, sentAt: metadata.requestTime)
        let local = StoringPlace(
            key: place.localKey, sharedKeys: [lookUp.keys.shared], collection: collectionKey(of: lookUp.head), isCommon: place.isCommon)
        guard put(new, at: local) == .stored else { return .notTaken }
        if !place.isForAll { noteStored(lookUp.keys.unknownFields, at: local.key, by: 0) }
        return .taken
    }

    /// Whether nothing that is good is lost to it: the node that gave it may have had no copy to hold it against, or other rules.
    private func isGood(_ response: ResponseHead, _ body: ItemBody, _ flags: StoredFlags, for lookUp: SharedLookUp) -> Bool {
        let found = findWaiting(lookUp.head, at: lookUp.keys).found
        if let found {
            let copy = LastGood.Copy(found.metadata, head: found.head, beside: response)
            let isLenient = flags.contains(.isLenient)
            guard LastGood.obstacle(response, isLenient: isLenient, inPlaceOf: copy, strictness: strictness) == nil else { return false }
        }
        let demands = [lookUp.good, lookUp.kept]
        guard demands.allSatisfy({ $0.faultOfHead(response) == nil }) else { return false }
        // In a coding that nobody here can take off.
        guard !flags.contains(.coded) else { return true }
        guard demands.allSatisfy({ $0.faultOfLength(body.form.plainBytes, storedBytes: found?.contentBytes) == nil }) else { return false }
        guard demands.contains(where: \.searchesContent) else { return true }
        guard let content = Self.plain(body) else { return false }
        let isJSON = flags.intersection([.isJSON, .isLenient]) == .isJSON
        return demands.allSatisfy { $0.faultOfContent(content.span, isJSON: isJSON, storedBytes: nil) == nil }
    }

    /// Its content without the coding that it has in the store; nil where that is damaged.
    private static func plain(_ body: ItemBody) -> [UInt8]? {
        var bytes: [UInt8] = []
        body.withBytes { bytes = Array($0) }
        guard let coding = ContentCoding(number: body.form.coding) else { return nil }
        return try? ContentDecoder.decode(bytes, coding, limit: body.form.plainBytes)
    }

    /// It leads to the variant, and is stored with that only (`insertVariant`): alone it would take the place of a copy that may be served yet.
    private func takeMarker(_ record: SharedRecord, at place: SharedPlace, for lookUp: SharedLookUp) -> TakingResult {
        guard place.names.isEmpty, let variant = sharedVariant(of: place, named: record.head, lookUp.head) else { return .notTaken }
        return .leads(to: variant)
    }

    // MARK: What others say

    /// The marks that take out all that is stored for a target, its preflights too; nil where what else is in keys cannot be known.
    public func marks(ofTarget text: String) -> [[UInt8]]? {
        guard keyMaker.hasPlainKeys else { return nil }
        let target = RequestTarget.escaped(Array(text.utf8)[...], isTyped: true)
        let rules = settings.arguments.specialRules(for: target[...])
        // By either scheme, where that is told apart.
        return [false, true].flatMap { isSecure in
            var key: [UInt8] = []
            let prefix = CacheKey.prefix(authority: settings.keyName, extra: KeyExtra(isSecure: isSecure).encoded)
            CacheKey.append(to: &key, prefix: prefix, target: target.span, rules: rules)
            return [Self.invalidationKey(key), Self.preflightsKey(key)]
        }
    }

    /// Whether a purge of another node, or of this one, may mean what was found: by its key, and where a tag is purged by its own tags.
    public func purges(of record: SharedRecord, for lookUp: SharedLookUp) -> (_ selection: [UInt8]) -> Bool {
        lazy var key = StoredKey(lookUp.keys.shared)
        lazy var tags = record.head.withUnsafeBytes(StoredHead.parse).map { CacheTags.tags(of: $0.fields) } ?? []
        return { [settings] selection in
            // What cannot be read may mean anything.
            guard let selection = FleetSelection(selection), let key else { return true }
            guard selection.isMeant(settings) else { return false }
            // What leads to variants has no tags; they have.
            if selection.kind == .tag { return tags.contains(selection.value) }
            return selection.entries(settings.arguments)?.mayContain(key) ?? true
        }
    }

    /// The keys of the marks that may concern what lies under this key.
    public func marks(concerning record: SharedRecord, for lookUp: SharedLookUp) -> [[UInt8]] {
        var keys: [[UInt8]] = []
        let groups = record.head.withUnsafeBytes(Self.groups) ?? []
        appendMarks([lookUp.keys.shared], collectionKey(of: lookUp.head), groups, to: &keys)
        return keys
    }
}

extension SharedCacheState {
    /// What another node's write or purge has made invalid is so here from now on: for what is stored, and for what is under way. Called on any thread.
    /// - Parameters:
    ///   - mark: key of the mark, as passed to `SharedLevel.invalidated`.
    ///   - isDoubtful: whether stored responses become stale instead of being removed.
    public func follow(mark: [UInt8], isDoubtful: Bool = false, at now: Timestamp) {
        guard let letter = mark.last else { return }
        if isDoubtful { storeMemory.doubts.note(at: times.ofMark(now)) }
        self.mark(isDoubtful ? DoubtfulWrites.markKey(mark) : mark, at: now, isOwn: false)
        guard letter == UInt8(ascii: "I") else { return }
        let sharedKey = Array(mark.dropLast())
        if !isDoubtful { store.remove(sharedKey.span) }
        // What the upstream has said of its arguments here, others may not know: what lies under it is found no more. The mark may be another API's.
        guard varianceSign.isSet, let key = StoredKey(sharedKey) else { return }
        SearchVarianceMemory.forget(path: key.pathKey(of: sharedKey), in: store)
    }
}
