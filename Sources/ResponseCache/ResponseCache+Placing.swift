// The one way into the store for all that takes the place of a copy: what a fetch brings, what a 304 confirms, what HEAD brings up to date, and what was archived.
// It is held against what is stored now, not against what was found when its request began (`Recency`): an older response never takes the place
// of a newer one, whichever ends first and on whatever shard. Comparing and putting in are one step of the store.

import CachePolicy
import CacheStore
import HTTPCore
import Identity

public enum StoringResult: Sendable, Equatable {
    case stored
    /// A response whose request was sent later is stored.
    case outdated
    /// A write or a purge came after its request was sent.
    case invalidated
    case tooLarge
    /// The store cannot take it, or not now.
    case refused

    /// The same, as a decision with its reason.
    public var decision: StorageDecision {
        switch self {
        case .stored: .allowed
        case .outdated: .forbidden(.outdated)
        case .invalidated: .forbidden(.invalidated)
        case .refused: .forbidden(.storeRefused)
        case .tooLarge: .forbidden(.tooLarge)
        }
    }
}

extension ResponseCache {
    /// How often another may change what was compared with, before this one is given up. It takes two that store under one key at the same
    /// microsecond, or the writer in between.
    private static let attemptLimit = 16

    /// - Parameter base: what is stored, where the new response is the same brought up to date: it takes the place of that only, or of nothing.
    func put(_ new: NewResponse, at place: StoringPlace, inPlaceOf base: FoundResponse? = nil) -> StoringResult {
        guard !shared.takesNothing else { return .refused }
        guard let marks = marks(for: new, at: place), !isOvertaken(new, marks, at: place) else { return .invalidated }
        guard !isOutdated(new.metadata.recency, at: place.others), !isLesser(new, thanAnyOther: place, base),
            base.map({ !isElsewhere($0, place.others) }) ?? true
        else { return .outdated }
        let (memory, groups) = (shared.storeMemory, marks.filter { StoredKey.path(of: $0) == nil })
        memory.times.note(new.metadata.requestTime)
        let pass = memory.paths.note(place.key, groups: groups)
        let result = new.names.isEmpty ? insertOnly(new, at: place, inPlaceOf: base) : insertVariant(new, at: place, inPlaceOf: base)
        guard result == .stored else { return result }
        if memory.paths.pass != pass { memory.paths.note(place.key, groups: groups) }
        // A write may have come through another shard since that was looked for: its mark is there before it takes out what is stored, so either
        // it took out what was just put in, or its mark is seen now.
        guard !isOvertaken(new, marks, at: place) else {
            store.remove(place.key.span)
            return .invalidated
        }
        if !new.metadata.isNegative { for key in place.others { removeOlder(than: new.metadata.recency, at: key) } }
        return .stored
    }

    /// Whether one of these keys has something later.
    func isOutdated(_ recency: Recency, at keys: [[UInt8]]) -> Bool {
        keys.contains { key in
            guard let item = store.see(key.span).item, let stored = StoredMetadata.recency(of: item.metadata) else { return false }
            return recency.isOutdated(by: stored)
        }
    }

    /// Whether another response than this one lies in one of these places.
    private func isElsewhere(_ base: FoundResponse, _ keys: [[UInt8]]) -> Bool {
        keys.contains { key in
            store.see(key.span).item.flatMap { StoredMetadata.recency(of: $0.metadata) }.map { $0.order != base.metadata.order } ?? false
        }
    }

    /// What lies in another place must not be found before what is newer.
    private func removeOlder(than recency: Recency, at key: [UInt8]) {
        guard let item = store.see(key.span).item else { return }
        if let stored = StoredMetadata.recency(of: item.metadata), recency.isOutdated(by: stored) { return }
        store.remove(key.span, ifStill: item)
    }

    /// Whether an unsafe request or a purge may have overtaken it. An archived response is stored after every purge that has come before.
    private func isOvertaken(_ new: NewResponse, _ marks: [[UInt8]], at place: StoringPlace) -> Bool {
        if place.identity?.isUnchanged == false { return true }
        // A mark in the store is part of its key. A write that left none there has not changed that.
        if let target = place.target, isWrittenTo(target, since: new.metadata.requestTime) { return true }
        if !new.metadata.flags.contains(.imported), shared.purges.isOvertaken(new.sentAt) { return true }
        return mayBeInvalid(new, marks)
    }

    private func isWrittenTo(_ target: [UInt8], since time: Timestamp) -> Bool {
        let mark = Self.invalidationKey(target)
        if shared.marks.mayHaveOvertaken(mark, time) { return true }
        return shared.storeMemory.doubts.mayConcern(time) && shared.marks.mayHaveOvertaken(DoubtfulWrites.markKey(mark), time)
    }

    private func insertOnly(_ new: NewResponse, at place: StoringPlace, inPlaceOf base: FoundResponse?) -> StoringResult {
        let result = insert(new, under: place.key, at: place, inPlaceOf: base) { offer($0, new.metadata.recency, at: place) }
        guard result == .outdated, let variant = variantByOrigin(new, at: place.key) else { return result }
        return insertVariant(variant, at: place, inPlaceOf: base)
    }

    /// - Parameters:
    ///   - key: the place's, or that of one of its variants.
    ///   - give: to others, what has been stored.
    private func insert(
        _ new: NewResponse, under key: [UInt8], at place: StoringPlace, inPlaceOf base: FoundResponse?, give: (NewItem) -> Void
    ) -> StoringResult {
        let retention = Reuse.mayRescue(new.metadata, strictness: strictness) ? Retention.mayRescue : .whenUsed
        let item = NewItem(
            key: key, metadata: new.metadata.encoded(), head: new.head, body: new.body, wantedCoding: new.wantedCoding, retention: retention
        )
        for _ in 0..<Self.attemptLimit {
            let seen = store.see(key.span)
            guard mayReplace(seen.item, new, at: place, base) else { return .outdated }
            guard let result = StoringResult(store.insert(item, ifStill: seen)) else { continue }
            if result == .stored, !new.metadata.isNegative {
                gone?.lift(key, by: new.metadata.recency)
                give(item)
            }
            return result
        }
        return .refused
    }

    private func mayReplace(_ stored: StoredItem?, _ new: NewResponse, at place: StoringPlace, _ base: FoundResponse?) -> Bool {
        let metadata = new.metadata
        guard let stored, let other = StoredMetadata.recency(of: stored.metadata) else { return true }
        guard !metadata.isNegative || Self.isNegative(stored), !metadata.recency.isOutdated(by: other) else { return false }
        // What this very request has put in belongs to it: an attempt before got as far as its variant.
        guard other.order != metadata.order else { return true }
        guard !belongsBeside(new, stored) else { return false }
        guard let base else { return !isLesser(new, than: stored, at: place) }
        return StoredMetadata.kind(of: stored.metadata) == .response && other.order == base.metadata.order
    }

    /// An error that is kept for a moment takes the place of nothing but another.
    private static func isNegative(_ stored: StoredItem) -> Bool { StoredMetadata(stored.metadata)?.isNegative == true }

    /// Whether what is good would be lost to what is not (`LastGood.obstacle`): the same as where a copy was found, and also where none was when this was
    /// asked for, since it came later or lies under another variant.
    private func isLesser(_ new: NewResponse, than stored: StoredItem, at place: StoringPlace) -> Bool {
        guard strictness == .rescue, !new.metadata.isNegative, !new.isPreflight, !new.isGoodJSON,
            let response = new.head.withUnsafeBytes({ StoredHead.parse($0) }), let copy = Self.copy(stored, beside: response)
        else { return false }
        let isLenient = new.metadata.flags.contains(.isLenient)
        return LastGood.obstacle(response, isLenient: isLenient, inPlaceOf: copy, strictness: strictness) != nil
            && !isInvalid(stored, at: place)
    }

    /// Whether what lies there is what is brought up to date.
    private func isSame(_ stored: StoredItem, _ base: FoundResponse?) -> Bool {
        guard let base, let metadata = StoredMetadata(stored.metadata) else { return false }
        return metadata.order == base.metadata.order
    }

    private func isLesser(_ new: NewResponse, thanAnyOther place: StoringPlace, _ base: FoundResponse?) -> Bool {
        place.others.contains { key in
            store.see(key.span).item.map { !isSame($0, base) && isLesser(new, than: $0, at: place) } ?? false
        }
    }

    /// nil where nothing good lies there.
    private static func copy(_ stored: StoredItem, beside response: ResponseHead) -> LastGood.Copy? {
        switch StoredMetadata.kind(of: stored.metadata) {
        case .varyMarker: LastGood.Copy(bestOf: stored.metadata)
        case .response:
            StoredMetadata(stored.metadata).flatMap { $0.isNegative ? nil : LastGood.Copy($0, head: stored.head, beside: response) }
        default: nil
        }
    }

    /// Whether a write has made invalid what lies there: it is found no more, and so is not in the way for ever.
    private func isInvalid(_ stored: StoredItem, at place: StoringPlace) -> Bool {
        guard let time = StoredMetadata.recency(of: stored.metadata)?.requestTime else { return false }
        var marks: [[UInt8]] = []
        appendMarks(place.sharedKeys, place.collection, [], to: &marks)
        return marks.contains { isMarkedNow($0, since: time) }
    }

    /// Under a variant's key, with a marker that leads to it. The marker is as recent as the latest variant, so that an older response that
    /// varies otherwise does not leave them all behind: it is brought up to date first. A new one comes second: until then what it takes the
    /// place of is found. It tells how recent that was: its own variants are still empty, and one that is older than what was found before must
    /// not fill them. And it tells what the best of its variants is, which are not at hand when something comes that would leave them all behind.
    private func insertVariant(_ new: NewResponse, at place: StoringPlace, inPlaceOf base: FoundResponse?) -> StoringResult {
        let (key, recency) = (place.key, new.metadata.recency)
        let names = SelectingFields.encode(new.names)
        let values = selecting(new.names.map { $0[...] }, in: new.request)
        func insert(_ generation: UInt64) -> StoringResult {
            var variant = key
            CacheKey.appendVariant(to: &variant, generation: generation, selecting: values)
            return self.insert(new, under: variant, at: place, inPlaceOf: base) {
                offerVariant($0, recency, at: place, named: names, values)
            }
        }
        let worth = new.head.withUnsafeBytes { LastGood.Worth(new.metadata, head: $0) }
        func mark(
            _ generation: UInt64, _ seen: SeenItem, _ recency: Recency, replaced: Recency?, best: LastGood.Worth
        ) -> StoringResult? {
            let metadata = StoredMetadata.varyMarker(generation: generation, recency, replaced: replaced, best: best)
            let marker = NewItem(key: key, metadata: metadata, head: names, body: [], retention: .mayRescue)
            return StoringResult(store.insert(marker, ifStill: seen))
        }
        for _ in 0..<Self.attemptLimit {
            let seen = store.see(key.span)
            let latest = seen.item.flatMap { StoredMetadata.recency(of: $0.metadata) }
            let isOutdated = latest.map(recency.isOutdated) ?? false
            if let marker = seen.item, let known = Self.generation(of: marker, named: names) {
                let replaced = StoredMetadata.replacedRecency(in: marker.metadata)
                guard !(replaced.map(recency.isOutdated) ?? false) else { return .outdated }
                let former = StoredMetadata.bestVariant(in: marker.metadata) ?? .other
                guard !isOutdated || worth > former else { return insert(known) }
                let last = isOutdated ? latest ?? recency : recency
                let best = worth < former && !isInvalid(marker, at: place) ? former : worth
                guard let marked = mark(known, seen, last, replaced: replaced, best: best) else { continue }
                return marked == .stored ? insert(known) : marked
            }
            let isInTheWay = seen.item.map { stored in
                if new.metadata.isNegative { return !Self.isNegative(stored) }
                return !isSame(stored, base) && isLesser(new, than: stored, at: place)
            }
            guard !isOutdated, isInTheWay != true else { return .outdated }
            let generation = recency.order.number
            keepForNoOrigin(seen.item, at: key, generation, named: new.names)
            let inserted = insert(generation)
            guard inserted == .stored else { return inserted }
            if let marked = mark(generation, seen, recency, replaced: latest, best: worth) { return marked }
        }
        return .refused
    }

    private static func generation(of marker: StoredItem, named names: [UInt8]) -> UInt64? {
        guard StoredMetadata.kind(of: marker.metadata) == .varyMarker, marker.head.elementsEqual(names) else { return nil }
        return StoredMetadata.number(in: marker.metadata)
    }
}

extension NewResponse {
    /// It is lesser than nothing.
    fileprivate var isGoodJSON: Bool {
        metadata.flags.intersection([.isJSON, .isLenient]) == .isJSON && metadata.status.isSuccessful
            && metadata.status != 204 && metadata.status != 205
    }
}

extension StoringResult {
    /// nil where it is to be tried again.
    fileprivate init?(_ result: InsertResult) {
        switch result {
        case .accepted: self = .stored
        case .changed: return nil
        case .tooLarge: self = .tooLarge
        case .busy, .unwritable: self = .refused
        }
    }
}
