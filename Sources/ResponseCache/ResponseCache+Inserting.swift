// The only way by which a fetch, a 304, a response to HEAD, an archive or another node replaces a stored response. Confirmations and equal
// data that change only a time are recorded with the stored response (`ResponseCache+Confirming`). A take-over copies items as they are.
// The new response is compared with the one stored now, not with the one found when its request began (`Recency`). So an older response
// never replaces a newer one, whichever arrives first and on whatever shard. Comparing and inserting are one atomic step of the store.

import CachePolicy
import CacheStore
import HTTPCore
import Identity

public enum StoringResult: Sendable, Equatable {
    case stored
    /// A response to a later request is stored.
    case outdated
    /// A write or a purge followed the request.
    case invalidated
    case tooLarge
    /// A request field has a new value in each request, and too few values got an equal response.
    case changingField
    /// The store cannot accept the response, or not at the moment.
    case refused

    /// The result as a decision with its reason.
    public var decision: StorageDecision {
        switch self {
        case .stored: .allowed
        case .outdated: .forbidden(.outdated)
        case .invalidated: .forbidden(.invalidated)
        case .refused: .forbidden(.storeRefused)
        case .tooLarge: .forbidden(.tooLarge)
        case .changingField: .forbidden(.changingField)
        }
    }
}

extension ResponseCache {
    /// Maximum number of attempts while other threads change the compared item. A conflict requires two store operations under one key
    /// within a microsecond, or the writer in between.
    private static let attemptLimit = 16

    /// Stores a response under the key that its fields require. A response shared only while it is validated is also stored in its user's
    /// partition, where it may serve as a rescue.
    func putByFields(_ new: NewResponse, _ response: WholeResponse, for request: StorableExchange, now: Timestamp) -> StoringResult {
        let fields = response.head.fields
        let sharing = request.keys.common == nil || new.metadata.isNegative ? .own : sharing(of: fields, response.control, to: request.head)
        guard sharing != .everybody else { return putCommon(new, fields, for: request, isOnlyThere: true, now: now) }
        let isForAll = new.metadata.flags.contains(.forAllFields)
        guard
            var location = location(
                fields, of: request.head, lookedUpAt: request.keys, isForAll: isForAll, new.metadata.recency, now: now)
        else { return .outdated }
        location.identity = request.identity
        guard mayStore(response, at: location) else { return .changingField }
        let result = put(new, at: location)
        if result == .stored { noteStored(location.unknownFields, at: location.key, by: isForAll ? 0 : request.client) }
        if sharing == .whileValidated, result == .stored {
            _ = putCommon(new, fields, for: request, isOnlyThere: false, now: now)
        }
        return result
    }

    /// Determines who may receive the response, by its fields and by the directives after the operator's rules. Responses that must not be
    /// served stale must be marked for that.
    func sharing(of fields: Fields, _ control: ResponseCacheControl, to head: RequestHead) -> AuthorizedSharing {
        guard AuthorizedSharing(fields, control) != .own else { return .own }
        return AuthorizedSharing(fields, policy(for: head).settings.freshness.applied(to: control))
    }

    private func putCommon(
        _ new: NewResponse, _ fields: Fields, for request: StorableExchange, isOnlyThere: Bool, now: Timestamp
    ) -> StoringResult {
        let recency = new.metadata.recency
        // The response has `public`, or is for shared caches.
        let isForAll = new.metadata.flags.contains(.forAllFields)
        guard
            var location = location(
                fields, of: request.head, lookedUpAt: request.keys, isForAll: isForAll, isCommon: true, recency, now: now)
        else { return .outdated }
        if isOnlyThere { location.others.append((isForAll ? request.keys.forAllFields : request.keys).own) }
        var new = new
        new.metadata.flags.insert(.authorized)
        return put(new, at: location)
    }

    /// Returns the location for a response with these fields, and records its No-Vary-Search. nil if a later response is stored elsewhere,
    /// or if one had another No-Vary-Search for the path.
    /// - Parameters:
    ///   - old: keys of the request's lookup.
    ///   - isForAll: whether the response serves all requests, whatever unknown fields they have.
    ///   - isCommon: whether the response belongs to the common partition (`TargetKeys.common`).
    func location(
        _ fields: Fields, of head: RequestHead, lookedUpAt old: TargetKeys, isForAll: Bool, isCommon: Bool = false, _ recency: Recency,
        now: Timestamp
    ) -> StorageLocation? {
        let unknown = isForAll ? old.unknownFields?.ofHosts : old.unknownFields
        func keys(_ remembered: RememberedVariance?) -> TargetKeys {
            let keys = self.keys(for: head, target: Array(head.pathAndQuery), remembered, unknown: unknown)
            return isCommon ? keys.inCommon : keys
        }
        let fitting = isForAll ? old.forAllFields : old
        let old = isCommon ? fitting.inCommon : fitting
        var location = StorageLocation(
            key: old.own, credentialFreeKeys: [old.credentialFree], collection: collectionKey(of: head), isCommon: isCommon)
        location.unknownFields = unknown
        if head.method != .get, head.method != .head, head.method != .options {
            location.target = credentialFreeKey(of: head.pathAndQuery, for: head)
        }
        if level.isShared, head.method == .get { location.request = head }
        guard head.method == .get, let variances else { return location }
        let variance = SearchVariance(fields)
        guard variance != nil || !variances.isEmpty else { return location }
        let path = pathKey(of: head.pathAndQuery, for: head)
        let current = variances.variance(of: path)
        var candidates = [old, keys(nil)]
        if let current { candidates.append(keys(current)) }
        // A new No-Vary-Search may make responses under the old one unreachable, so the permission to store is checked first.
        let expected = variance == current?.variance ? current : nil
        let own = variance == nil || expected != nil ? keys(expected).own : nil
        // Since the lookup, the user of the credentials may have been identified, or the identity may have expired.
        let partition = StoredKey.partition(of: old.own)
        guard candidates.allSatisfy({ StoredKey.partition(of: $0.own) == partition }) else { return nil }
        guard !isOutdated(recency, at: candidates.map(\.own).filter { $0 != own }) else { return nil }
        guard let variance else { return location.moved(to: keys(nil), from: candidates) }
        guard let remembered = variances.remember(variance, of: path, at: now, recency) else { return nil }
        return location.moved(to: keys(remembered), from: candidates)
    }

    /// - Parameter base: the stored response that the new one updates; nil if none. The new response then replaces only this one, or an
    ///   absent one.
    func put(_ new: NewResponse, at location: StorageLocation, replacing base: FoundResponse? = nil) -> StoringResult {
        guard !state.takesNothing else { return .refused }
        // A response with unreadable groups could not be invalidated by them.
        guard let groups = new.metadata.flags.contains(.hasGroups) ? Self.groups(of: new.head.span) : [] else { return .invalidated }
        let marks = marks(location.credentialFreeKeys, location.collection, groups)
        guard !isOvertaken(new, marks, at: location) else { return .invalidated }
        guard !isOutdated(new.metadata.recency, at: location.others), !isLesser(new, thanAnyOther: location, base),
            base.map({ !isElsewhere($0, location.others) }) ?? true
        else { return .outdated }
        let (memory, groupKeys) = (state.storeMemory, groups.map(groupKey))
        memory.times.note(new.metadata.requestTime)
        let pass = memory.paths.note(location.key, groups: groupKeys)
        var result: StoringResult
        if new.names.isEmpty {
            result = insert(new, under: location.key, at: location, replacing: base) {
                if location.request != nil { offer($0, new.metadata.recency, at: location) }
            }
            if result == .outdated, let variant = variantByOrigin(new, at: location.key) {
                result = insertVariant(variant, at: location, replacing: base)
            }
        } else {
            result = insertVariant(new, at: location, replacing: base)
        }
        guard result == .stored else { return result }
        if memory.paths.pass != pass { memory.paths.note(location.key, groups: groupKeys) }
        // A write may have arrived on another shard since the check. Its mark is stored before it removes responses, so either it removed
        // the new response, or the mark is visible now.
        guard !isOvertaken(new, marks, at: location) else {
            store.remove(location.key.span)
            return .invalidated
        }
        if !new.metadata.isNegative { for key in location.others { removeOlder(than: new.metadata.recency, at: key) } }
        return .stored
    }

    /// Returns whether a later response is stored under one of these keys.
    func isOutdated(_ recency: Recency, at keys: [[UInt8]]) -> Bool {
        keys.contains { key in
            guard let item = store.see(key.span).item, let stored = StoredMetadata.recency(of: item.metadata.span) else { return false }
            return recency.isOutdated(by: stored) || Self.isConfirmed(item, after: recency)
        }
    }

    /// Returns whether a later request has confirmed the item, and only its time was recorded (`ConfirmationNote`).
    private static func isConfirmed(_ item: StoredItem, after recency: Recency) -> Bool {
        guard item.note != 0, !recency.isImported, var metadata = StoredMetadata(item.metadata.span) else { return false }
        ConfirmationNote.apply(item.note, to: &metadata)
        // A recorded time includes the age that the written response had in other caches.
        return recency.requestTime.milliseconds < metadata.requestTime.milliseconds - metadata.ageValue * 1000
    }

    /// Returns whether a response other than this one is stored under one of these keys.
    private func isElsewhere(_ base: FoundResponse, _ keys: [[UInt8]]) -> Bool {
        keys.contains { key in
            store.see(key.span).item.flatMap { StoredMetadata.recency(of: $0.metadata.span) }.map { $0.order != base.metadata.order }
                ?? false
        }
    }

    /// Removes an older response under another key, so that it is not found before a newer one.
    private func removeOlder(than recency: Recency, at key: [UInt8]) {
        guard let item = store.see(key.span).item else { return }
        if let stored = StoredMetadata.recency(of: item.metadata.span), recency.isOutdated(by: stored) { return }
        store.remove(key.span, ifStill: item)
    }

    /// Returns whether an unsafe request or a purge may have invalidated the response since it was requested: its target, its collection,
    /// or one of its groups. An archived response is newer than all purges so far.
    private func isOvertaken(_ new: NewResponse, _ marks: [[UInt8]], at location: StorageLocation) -> Bool {
        if location.identity?.isUnchanged == false { return true }
        // A mark in the store is part of the key. A write that stored no mark has not changed the key.
        if let target = location.target, isWrittenTo(target, since: new.metadata.requestTime) { return true }
        let time = new.metadata.requestTime
        // An archived response was not in flight, so only stored marks apply. A response updated by HEAD keeps an earlier time.
        let sentAt = new.metadata.flags.contains(.imported) ? nil : max(time, new.sentAt)
        if sentAt != nil, state.purges.isOvertaken(new.sentAt) { return true }
        let isDoubted = sentAt.map { state.storeMemory.doubts.mayConcern($0) } ?? false
        return marks.contains { key in
            if isMarkedNow(key, since: time) { return true }
            if isDoubted, let sentAt, state.marks.mayHaveOvertaken(DoubtfulWrites.markKey(key), sentAt) { return true }
            return sentAt.map { state.marks.mayHaveOvertaken(key, $0) } ?? state.marks.hasOvertaken(key, time)
        }
    }

    /// Returns whether a mark applies to a response that is about to be stored. Waits for the disk if the mark was not loaded.
    func isMarkedNow(_ key: [UInt8], since requestTime: Timestamp) -> Bool {
        guard let time = Self.time(of: store.lookUp(key.span)), requestTime <= time else { return false }
        // The mark may have been set before a restart, by a clock that was ahead. Later requests get later times.
        state.times.note(markAt: time)
        return true
    }

    private func isWrittenTo(_ target: [UInt8], since time: Timestamp) -> Bool {
        let mark = Self.invalidationKey(target)
        if state.marks.mayHaveOvertaken(mark, time) { return true }
        return state.storeMemory.doubts.mayConcern(time) && state.marks.mayHaveOvertaken(DoubtfulWrites.markKey(mark), time)
    }

    /// - Parameters:
    ///   - key: the location's key, or that of one of its variants.
    ///   - offerStored: offers the stored item to other nodes.
    private func insert(
        _ new: NewResponse, under key: [UInt8], at location: StorageLocation, replacing base: FoundResponse?,
        offerStored: (NewItem) -> Void
    ) -> StoringResult {
        let retention = Reuse.mayRescue(new.metadata, strictness: strictness) ? Retention.mayRescue : .whenUsed
        let item = NewItem(
            key: key, metadata: new.metadata.encoded(), head: new.head, body: new.body, wantedCoding: new.wantedCoding, retention: retention
        )
        for _ in 0..<Self.attemptLimit {
            let seen = store.see(key.span)
            guard mayReplace(seen.item, new, at: location, base) else { return .outdated }
            guard let result = StoringResult(store.insert(item, ifStill: seen)) else { continue }
            if result == .stored, !new.metadata.isNegative {
                gone?.lift(key, by: new.metadata.recency)
                offerStored(item)
            }
            return result
        }
        return .refused
    }

    private func mayReplace(_ stored: StoredItem?, _ new: NewResponse, at location: StorageLocation, _ base: FoundResponse?) -> Bool {
        let metadata = new.metadata
        guard let stored, let other = StoredMetadata.recency(of: stored.metadata.span) else { return true }
        guard !metadata.isNegative || Self.isNegative(stored), !metadata.recency.isOutdated(by: other),
            !Self.isConfirmed(stored, after: metadata.recency)
        else { return false }
        // An earlier attempt of this request has stored its variant.
        guard other.order != metadata.order else { return true }
        guard !belongsToVariantsByOrigin(new, stored) else { return false }
        guard let base else { return !isLesser(new, than: stored, at: location) }
        return isSame(stored, base)
    }

    /// Returns whether the item is an error stored briefly (`negative`). Such an error replaces only another one.
    private static func isNegative(_ stored: StoredItem) -> Bool { StoredMetadata(stored.metadata.span)?.isNegative == true }

    /// Returns whether a worse response would replace a good one (`LastGood.obstacle`). Checked here too, because the good response may
    /// have been stored after the lookup, or under another variant.
    private func isLesser(_ new: NewResponse, than stored: StoredItem, at location: StorageLocation) -> Bool {
        guard strictness == .rescue, !new.metadata.isNegative, !new.isPreflight, !new.isGoodJSON,
            let response = StoredHead.parse(new.head.span), let copy = Self.copy(stored, beside: response)
        else { return false }
        let isLenient = new.metadata.flags.contains(.isLenient)
        return LastGood.obstacle(response, isLenient: isLenient, replacing: copy, strictness: strictness) != nil
            && !isInvalid(stored, at: location)
    }

    /// Returns whether the stored item is the response that is updated.
    private func isSame(_ stored: StoredItem, _ base: FoundResponse?) -> Bool {
        guard let base, let metadata = StoredMetadata(stored.metadata.span) else { return false }
        return metadata.order == base.metadata.order
    }

    private func isLesser(_ new: NewResponse, thanAnyOther location: StorageLocation, _ base: FoundResponse?) -> Bool {
        location.others.contains { key in
            store.see(key.span).item.map { !isSame($0, base) && isLesser(new, than: $0, at: location) } ?? false
        }
    }

    /// nil if the item is not a good response.
    private static func copy(_ stored: StoredItem, beside response: ResponseHead) -> LastGood.Copy? {
        switch StoredMetadata.kind(of: stored.metadata.span) {
        case .varyMarker: LastGood.Copy(bestOf: stored.metadata.span)
        case .response:
            StoredMetadata(stored.metadata.span).flatMap {
                $0.isNegative ? nil : LastGood.Copy($0, head: stored.head.span, beside: response)
            }
        default: nil
        }
    }

    /// Returns whether a write has invalidated the stored item. Lookups ignore such an item, so it must not prevent a new response from
    /// being stored.
    private func isInvalid(_ stored: StoredItem, at location: StorageLocation) -> Bool {
        guard let time = StoredMetadata.recency(of: stored.metadata.span)?.requestTime else { return false }
        return marks(location.credentialFreeKeys, location.collection, []).contains { isMarkedNow($0, since: time) }
    }

    /// Stores a response under a variant's key, with a marker that refers to it.
    /// - An existing marker is updated first. It is as recent as the latest variant. So an older response with another Vary does not make
    ///   all variants unreachable.
    /// - A new marker is stored after the variant; until then, the response that it replaces can be found. It records how recent that
    ///   response was: older responses are not stored as its variants.
    /// - The marker also records the quality of its best variant, because the variants may not be in memory when a response arrives.
    private func insertVariant(_ new: NewResponse, at location: StorageLocation, replacing base: FoundResponse?) -> StoringResult {
        let (key, recency) = (location.key, new.metadata.recency)
        let names = SelectingFields.encode(new.names)
        let values = selecting(new.names.map { $0[...] }, in: new.request)
        func insertUnder(_ generation: UInt64) -> StoringResult {
            var variant = key
            CacheKey.appendVariant(to: &variant, generation: generation, selecting: values)
            return insert(new, under: variant, at: location, replacing: base) {
                offerVariant($0, recency, at: location, named: names, values)
            }
        }
        let worth = LastGood.Worth(new.metadata, head: new.head.span)
        func mark(
            _ generation: UInt64, _ seen: SeenItem, _ recency: Recency, replaced: Recency?, best: LastGood.Worth
        ) -> StoringResult? {
            let metadata = StoredMetadata.varyMarker(generation: generation, recency, replaced: replaced, best: best)
            let marker = NewItem(key: key, metadata: metadata, head: names, body: [], retention: .mayRescue)
            return StoringResult(store.insert(marker, ifStill: seen))
        }
        for _ in 0..<Self.attemptLimit {
            let seen = store.see(key.span)
            let latest = seen.item.flatMap { StoredMetadata.recency(of: $0.metadata.span) }
            let isOutdated = latest.map(recency.isOutdated) ?? false
            if let marker = seen.item, let known = Self.generation(of: marker, named: names) {
                let replaced = StoredMetadata.replacedRecency(in: marker.metadata.span)
                guard !(replaced.map(recency.isOutdated) ?? false) else { return .outdated }
                let former = StoredMetadata.bestVariant(in: marker.metadata.span) ?? .other
                guard !isOutdated || worth > former else { return insertUnder(known) }
                let last = isOutdated ? latest ?? recency : recency
                let best = worth < former && !isInvalid(marker, at: location) ? former : worth
                guard let marked = mark(known, seen, last, replaced: replaced, best: best) else { continue }
                return marked == .stored ? insertUnder(known) : marked
            }
            let isInTheWay = seen.item.map { stored in
                if new.metadata.isNegative { return !Self.isNegative(stored) }
                return !isSame(stored, base) && isLesser(new, than: stored, at: location)
            }
            guard !isOutdated, isInTheWay != true else { return .outdated }
            let generation = recency.order.number
            if !keepForNoOrigin(seen.item, at: key, generation, named: new.names) { keepSuperseded(seen.item, at: key, generation) }
            let inserted = insertUnder(generation)
            guard inserted == .stored else { return inserted }
            if let marked = mark(generation, seen, recency, replaced: latest, best: worth) { return marked }
        }
        return .refused
    }

    private static func generation(of marker: StoredItem, named names: [UInt8]) -> UInt64? {
        guard StoredMetadata.kind(of: marker.metadata.span) == .varyMarker, marker.head.elementsEqual(names) else { return nil }
        return StoredMetadata.number(in: marker.metadata.span)
    }
}

extension NewResponse {
    /// Good JSON is never worse than an existing response.
    fileprivate var isGoodJSON: Bool {
        metadata.flags.intersection([.isJSON, .isLenient]) == .isJSON && metadata.status.isSuccessful
            && metadata.status != 204 && metadata.status != 205
    }
}

extension StoringResult {
    /// nil if the operation must be retried.
    fileprivate init?(_ result: InsertResult) {
        switch result {
        case .accepted: self = .stored
        case .changed: return nil
        case .tooLarge: self = .tooLarge
        case .busy, .unwritable: self = .refused
        }
    }
}
