// What an unsafe request makes invalid (RFC 9111 §4.4, RFC 9875): a target, a collection or a group gets a mark, a small record with a time.
// Nothing is searched for. What belongs to the mark and was asked for until then counts no more, in every partition.

import CachePolicy
import CacheStore
import HTTPCore

extension ResponseCache {
    /// A write has succeeded: drops what it may have changed.
    /// - Parameters:
    ///   - response: to the write.
    ///   - sparingTarget: whether its route says that a write changes too little of what is stored for the target itself.
    ///   - withCollection: whether its route says that a write to a member changes its collection too.
    /// - Returns: whether it may have changed anything.
    @discardableResult
    public func invalidate(
        after response: ResponseHead, to head: RequestHead, sparingTarget: Bool = false, withCollection: Bool, at now: Timestamp
    ) -> Bool {
        // By whichever scheme the write came, the other's copies are of the same: also those that nobody finds as long as there is one scheme.
        let heads = [head, head.byOtherScheme]
        var marks = WrittenMarks(isDoubtful: false)
        switch Invalidation.effect(of: response, to: head, origin: settings.upstream, settings.policy) {
        case .nothing: return false
        case .takesOut:
            for head in heads {
                invalidateAlike(after: response, to: head, sparingTarget: sparingTarget, withCollection: withCollection, at: now, &marks)
            }
        case .makesStale:
            marks.isDoubtful = true
            shared.storeMemory.doubts.note(at: shared.times.ofMark(now))
            for head in heads { makeStale(writtenBy: head, sparingTarget: sparingTarget, withCollection: withCollection, at: now, &marks) }
        }
        if !marks.keys.isEmpty { level?.invalidated(marks.keys, isDoubtful: marks.isDoubtful) }
        return true
    }

    /// Marks that one write leaves. Other nodes of the fleet hear of them together.
    struct WrittenMarks {
        fileprivate(set) var isDoubtful: Bool
        fileprivate(set) var keys: [[UInt8]] = []
    }

    /// Marks responses as stale after a write that a login or a captive portal answered.
    private func makeStale(
        writtenBy head: RequestHead, sparingTarget: Bool, withCollection: Bool, at now: Timestamp, _ marks: inout WrittenMarks
    ) {
        let path = head.pathAndQuery
        var keys: [[UInt8]] = []
        if !sparingTarget {
            keys.append(Self.invalidationKey(sharedKey(of: path, for: head)))
            if let variances, !variances.isEmpty, let variance = variances.variance(of: pathKey(of: path, for: head)) {
                keys.append(Self.invalidationKey(self.keys(for: head, target: Array(path), variance, unknown: nil).shared))
            }
        }
        if withCollection, let collection = Invalidation.collection(of: path) {
            keys.append(Self.collectionKey(sharedKey(of: collection[...], for: head)))
        }
        for key in keys { mark(DoubtfulWrites.markKey(key), at: now) }
        marks.keys += keys
    }

    private func invalidateAlike(
        after response: ResponseHead, to head: RequestHead, sparingTarget: Bool, withCollection: Bool, at now: Timestamp,
        _ marks: inout WrittenMarks
    ) {
        let path = head.pathAndQuery
        let targets = Invalidation.targets(method: head.method, target: path, response: response, origin: settings.upstream)
        // The target itself comes first.
        for target in targets.dropFirst(sparingTarget ? 1 : 0) { invalidate(target: target, for: head, at: now, &marks) }
        let groups = CacheTags.firstGroups(of: response.fields, named: "cache-group-invalidation")
        for group in groups.prefix(settings.policy.memberLimit) { mark(groupKey(group), at: now, &marks) }
        guard withCollection, let collection = Invalidation.collection(of: path) else { return }
        mark(Self.collectionKey(sharedKey(of: collection[...], for: head)), at: now, &marks)
    }

    /// What a write to this target will look at: brought in while the upstream works, so that nobody waits for it when its response comes.
    public func readAhead(forWrite head: RequestHead) {
        var keys = [Self.invalidationKey(sharedKey(of: head.pathAndQuery, for: head))]
        if variances?.isEmpty == false { keys.append(SearchVarianceMemory.key(pathKey(of: head.pathAndQuery, for: head))) }
        store.readAhead(keys)
    }

    /// Drops what is stored for a target, in every partition, and under what the upstream said of its path.
    func invalidate(target: [UInt8], for head: RequestHead, at now: Timestamp, _ marks: inout WrittenMarks) {
        invalidate(sharedKey(of: target[...], for: head), at: now, &marks)
        guard let variances, !variances.isEmpty, let variance = variances.variance(of: pathKey(of: target[...], for: head)) else { return }
        invalidate(keys(for: head, target: target, variance, unknown: nil).shared, at: now, &marks)
    }

    /// Drops what is stored under a shared key, in every partition and for every variant and content. The mark comes first: who stores at the
    /// same moment finds it, or is found.
    private func invalidate(_ sharedKey: [UInt8], at now: Timestamp, _ marks: inout WrittenMarks) {
        // Another than that of the last write, since it is part of keys: many may come in one millisecond.
        var time = now
        if let last = Self.time(of: store.lookUp(Self.invalidationKey(sharedKey).span)), 0..<1000 ~= last.milliseconds - now.milliseconds {
            time = Timestamp(milliseconds: last.milliseconds + 1)
        }
        mark(Self.invalidationKey(sharedKey), at: time, &marks)
        store.remove(sharedKey.span)
    }

    private func mark(_ key: [UInt8], at time: Timestamp, _ marks: inout WrittenMarks) {
        mark(key, at: time)
        marks.keys.append(key)
    }

    func mark(_ key: [UInt8], at now: Timestamp) { shared.mark(key, at: now) }

    // MARK: Looking at marks

    /// Whether an unsafe request has made a stored response invalid since it was asked for.
    /// - Parameters:
    ///   - sharedKey: where its key has a partition, the same target's key without: beside it stands when all partitions became invalid.
    ///   - collection: the shared key of the target without arguments, where a write to a member makes collections invalid.
    func isInvalid(
        _ metadata: StoredMetadata, _ head: UnsafeRawBufferPointer, sharedKey: [UInt8]?, collection: [UInt8]?,
        _ basis: inout FindingBasis
    ) throws(NotAtHand) -> Bool {
        let time = metadata.requestTime
        if let sharedKey, try isMarked(Self.invalidationKey(sharedKey), since: time, &basis) { return true }
        if let collection, try isMarked(Self.collectionKey(collection), since: time, &basis) { return true }
        guard metadata.flags.contains(.hasGroups) else { return false }
        guard let groups = Self.groups(of: head) else { return true }
        for group in groups { if try isMarked(groupKey(group), since: time, &basis) { return true } }
        return false
    }

    /// Whether a login or a captive portal has answered a write since a stored response was asked for.
    /// - Parameters:
    ///   - sharedKeys: of its target, with and without what else its key says.
    ///   - collection: as above.
    func isDoubted(
        _ metadata: StoredMetadata, sharedKeys: [[UInt8]], collection: [UInt8]?, _ basis: inout FindingBasis
    ) throws(NotAtHand) -> Bool {
        let time = metadata.requestTime
        guard shared.storeMemory.doubts.mayConcern(time) else { return false }
        let keys = sharedKeys.map(Self.invalidationKey) + (collection.map { [Self.collectionKey($0)] } ?? [])
        for key in keys { if try isMarked(DoubtfulWrites.markKey(key), since: time, &basis) { return true } }
        return false
    }

    /// Whether another node has purged a target's preflights since this one was asked for.
    /// - Parameter sharedKey: without what this one depends on.
    func isPurged(preflight metadata: StoredMetadata, sharedKey: [UInt8], _ basis: inout FindingBasis) throws(NotAtHand) -> Bool {
        try isMarked(Self.preflightsKey(sharedKey), since: metadata.requestTime, &basis)
    }

    /// Within one millisecond it counts as so.
    private func isMarked(_ key: [UInt8], since requestTime: Timestamp, _ basis: inout FindingBasis) throws(NotAtHand) -> Bool {
        Self.time(of: try item(key, &basis)).map { requestTime <= $0 } ?? false
    }

    /// The same for what is about to be stored: its marks have been brought in, or are waited for.
    func isMarkedNow(_ key: [UInt8], since requestTime: Timestamp) -> Bool {
        guard let time = Self.time(of: store.lookUp(key.span)), requestTime <= time else { return false }
        // It may be from before a restart, and from a clock that was ahead: what is asked for from now on is later.
        shared.times.note(markAt: time)
        return true
    }

    /// The keys of the marks that may make invalid what comes for this place; nil where nobody knows which they are.
    func marks(for new: NewResponse, at place: StoringPlace) -> [[UInt8]]? {
        guard let groups = new.metadata.flags.contains(.hasGroups) ? new.head.withUnsafeBytes(Self.groups) : [] else { return nil }
        var keys: [[UInt8]] = []
        appendMarks(place.sharedKeys, place.collection, groups, to: &keys)
        return keys
    }

    /// Whether it may have been made invalid since it was asked for: its target, its collection, or a group of it.
    func mayBeInvalid(_ new: NewResponse, _ marks: [[UInt8]]) -> Bool {
        let time = new.metadata.requestTime
        // What was archived was not under way: only what the store remembers counts. What HEAD has told of keeps an earlier time.
        let sentAt = new.metadata.flags.contains(.imported) ? nil : max(time, new.sentAt)
        let isDoubted = sentAt.map { shared.storeMemory.doubts.mayConcern($0) } ?? false
        return marks.contains { key in
            if isMarkedNow(key, since: time) { return true }
            if isDoubted, let sentAt, shared.marks.mayHaveOvertaken(DoubtfulWrites.markKey(key), sentAt) { return true }
            return sentAt.map { shared.marks.mayHaveOvertaken(key, $0) } ?? shared.marks.hasOvertaken(key, time)
        }
    }

    /// Whether a purge or a write since that moment may have taken out what was found then.
    public func mayBeTakenOut(_ found: FoundResponse, of head: RequestHead, at keys: TargetKeys, since time: Timestamp) -> Bool {
        guard !shared.purges.isOvertaken(time), let groups = found.metadata.flags.contains(.hasGroups) ? Self.groups(of: found.head) : []
        else { return true }
        var marks: [[UInt8]] = []
        appendMarks([keys.shared], collectionKey(of: head), groups, to: &marks)
        return marks.contains { shared.marks.mayHaveOvertaken($0, time) }
    }

    /// Appends the keys of the marks that make something of these targets, of this collection or of these groups invalid.
    func appendMarks(_ sharedKeys: [[UInt8]], _ collection: [UInt8]?, _ groups: [String], to keys: inout [[UInt8]]) {
        for key in sharedKeys { keys.append(Self.invalidationKey(key)) }
        if let collection { keys.append(Self.collectionKey(collection)) }
        for group in groups { keys.append(groupKey(group)) }
    }

    /// nil where nobody knows which they are.
    static func groups(of head: UnsafeRawBufferPointer) -> [String]? {
        guard let head = StoredHead.parse(head) else { return [] }
        return CacheTags.groups(of: head.fields, named: "cache-groups")
    }

    static func time(of item: StoredItem?) -> Timestamp? {
        guard let item, StoredMetadata.kind(of: item.metadata) == .invalidation else { return nil }
        return StoredMetadata.number(in: item.metadata).map { Timestamp(milliseconds: Int64(bitPattern: $0)) }
    }

    /// Beside the target's key, not in its place: what is stored there later must not bring other partitions' old responses back.
    static func invalidationKey(_ sharedKey: [UInt8]) -> [UInt8] { sharedKey.followed(by: UInt8(ascii: "I")) }

    /// Of the mark beside the target's key that says when another node has purged its preflights: a write changes nothing of them, so that mark is
    /// none for these.
    static func preflightsKey(_ sharedKey: [UInt8]) -> [UInt8] { sharedKey.followed(by: UInt8(ascii: "O")) }

    static func collectionKey(_ sharedKey: [UInt8]) -> [UInt8] { sharedKey.followed(by: UInt8(ascii: "C")) }

    /// Of several APIs each has groups of its own.
    func groupKey(_ group: String) -> [UInt8] { Self.groupKey(group, ofAPI: settings.isOneOfSeveral ? settings.keyName : nil) }

    /// - Parameter name: as in keys; nil where there is one API only.
    static func groupKey(_ group: String, ofAPI name: [UInt8]?) -> [UInt8] {
        var key = Array("T".utf8)
        if let name { CacheKey.appendPart(name, to: &key) }
        return key + Array(group.utf8)
    }

    /// As part of the keys of what is kept by a request's content.
    static func invalidationPart(_ time: Timestamp) -> [UInt8] { withUnsafeBytes(of: time.milliseconds.littleEndian) { Array($0) } }
}

extension [UInt8] {
    /// The key of what stands beside this one: `+` makes one array more, and takes four times as long.
    func followed(by letter: UInt8) -> [UInt8] {
        var key: [UInt8] = []
        key.reserveCapacity(count + 1)
        key.append(contentsOf: self)
        key.append(letter)
        return key
    }
}

extension SharedCacheState {
    /// In memory in any case, for fetches under way. In the store only if a response may be stored there that the mark concerns, or if another process
    /// may have one. A write of this node also leaves a mark in the store until other nodes know of the write.
    /// - Parameter isOwn: false: the log of the fleet has it, so the node reads it again after a restart.
    func mark(_ key: [UInt8], at now: Timestamp, isOwn: Bool = true) {
        let time = times.ofMark(now)
        marks.note(key, at: time)
        guard isOwn && settings.fleet != nil || store.hasPeer || storeMemory.paths.mayHave(key) else { return }
        store.insert(NewItem(key: key, metadata: StoredMetadata.invalidation(at: time), head: [], body: [], retention: .outlives))
    }
}
