// Invalidation by unsafe requests (RFC 9111 §4.4, RFC 9875). A target, a collection or a group gets a mark: a small record with a time. No
// stored responses are searched. Lookups treat responses that a mark covers and that were requested before its time as invalid, in every
// partition.

import CachePolicy
import CacheStore
import HTTPCore

extension ResponseCache {
    /// Invalidates the stored responses that a write may have changed.
    /// - Parameters:
    ///   - response: response to the write; nil if none arrived, although a part of the request was sent.
    ///   - isRefused: whether its content reports errors in place of a result.
    ///   - sparingTarget: whether the route declares that writes do not invalidate the target itself.
    ///   - withCollection: whether the route declares that a write to a member invalidates its collection.
    /// - Returns: whether the write may have changed anything.
    @discardableResult
    public func invalidate(
        after response: ResponseHead?, isRefused: Bool = false, to head: RequestHead, sparingTarget: Bool = false, withCollection: Bool,
        at now: Timestamp
    ) -> Bool {
        // A write by one scheme also invalidates the responses of the other scheme, including those that are unreachable while there is
        // only one scheme.
        let heads = [head, head.byOtherScheme]
        var (marks, doubtful): ([[UInt8]], [[UInt8]]) = ([], [])
        switch Invalidation.effect(of: response, isRefused: isRefused, to: head, origin: settings.upstream, settings.policy) {
        case .nothing: return false
        case .takesOut:
            guard let response else { return false }
            let targets = Invalidation.targets(
                method: head.method, target: head.pathAndQuery, response: response, origin: settings.upstream, sparingTarget: sparingTarget)
            // A client may choose where a redirect leads, as in `/login?next=/a`. So the response there remains as a rescue.
            let own = response.status.isRedirection && strictness == .rescue ? settings.upstream.spellings(of: head.pathAndQuery) : targets
            for head in heads {
                for target in targets where own.contains(target) { invalidate(target: target, for: head, at: now, &marks) }
                doubtful += targets.filter { !own.contains($0) }.flatMap { credentialFreeKeys(of: $0, for: head) }.map(Self.invalidationKey)
                let groups = CacheTags.firstGroups(of: response.fields, named: "cache-group-invalidation")
                for group in groups.prefix(settings.policy.memberLimit) { mark(groupKey(group), at: now, &marks) }
                if withCollection { for key in collectionKeys(writtenBy: head) { mark(key, at: now, &marks) } }
            }
        case .makesStale:
            for head in heads {
                let targets = sparingTarget ? [] : settings.upstream.spellings(of: head.pathAndQuery)
                doubtful += targets.flatMap { credentialFreeKeys(of: $0, for: head) }.map(Self.invalidationKey)
                if withCollection { doubtful += collectionKeys(writtenBy: head) }
            }
        }
        if !doubtful.isEmpty { state.storeMemory.doubts.note(at: state.times.ofMark(now)) }
        for key in doubtful { mark(DoubtfulWrites.markKey(key), at: now) }
        // Other nodes of the fleet receive the marks of a kind in one message.
        if !marks.isEmpty { level.invalidated(marks, isDoubtful: false) }
        if !doubtful.isEmpty { level.invalidated(doubtful, isDoubtful: true) }
        return true
    }

    /// Credential-free keys of a target: its own, and the one under the No-Vary-Search of its path.
    private func credentialFreeKeys(of target: [UInt8], for head: RequestHead) -> [[UInt8]] {
        let own = credentialFreeKey(of: target[...], for: head)
        guard let variances, !variances.isEmpty, let variance = variances.variance(of: pathKey(of: target[...], for: head)) else {
            return [own]
        }
        return [own, keys(for: head, target: target, variance, unknown: nil).credentialFree]
    }

    /// Keys of the marks for the collection of a written target.
    private func collectionKeys(writtenBy head: RequestHead) -> [[UInt8]] {
        settings.upstream.spellings(of: head.pathAndQuery).compactMap { Invalidation.collection(of: $0[...]) }
            .map { Self.collectionKey(credentialFreeKey(of: $0[...], for: head)) }
    }

    /// Loads the records that a write to this target needs, while the upstream processes the write, so that the response to the write is
    /// not delayed.
    public func readAhead(forWrite head: RequestHead) {
        let targets = settings.upstream.spellings(of: head.pathAndQuery)
        var keys = targets.map { Self.invalidationKey(credentialFreeKey(of: $0[...], for: head)) }
        if variances?.isEmpty == false { keys.append(SearchVarianceMemory.key(pathKey(of: head.pathAndQuery, for: head))) }
        store.readAhead(keys)
    }

    /// Invalidates a target in every partition, and under the No-Vary-Search of its path.
    func invalidate(target: [UInt8], for head: RequestHead, at now: Timestamp, _ marks: inout [[UInt8]]) {
        for key in credentialFreeKeys(of: target, for: head) { invalidate(key, at: now, &marks) }
    }

    /// Invalidates a credential-free key, in every partition and for every variant and content. The mark is stored first: a concurrent
    /// store operation then either sees the mark, or its response is removed.
    private func invalidate(_ credentialFreeKey: [UInt8], at now: Timestamp, _ marks: inout [[UInt8]]) {
        // The time is part of keys, so it must differ from that of the last write: several writes may happen within one millisecond.
        var time = now
        if let last = Self.time(of: store.lookUp(Self.invalidationKey(credentialFreeKey).span)),
            0..<1000 ~= last.milliseconds - now.milliseconds
        {
            time = Timestamp(milliseconds: last.milliseconds + 1)
        }
        mark(Self.invalidationKey(credentialFreeKey), at: time, &marks)
        store.remove(credentialFreeKey.span)
    }

    private func mark(_ key: [UInt8], at time: Timestamp, _ marks: inout [[UInt8]]) {
        mark(key, at: time)
        marks.append(key)
    }

    func mark(_ key: [UInt8], at now: Timestamp) { state.mark(key, at: now) }

    // MARK: Checking marks

    /// Returns whether an unsafe request has invalidated a stored response since it was requested.
    /// - Parameters:
    ///   - credentialFreeKey: the target's key without partition, if the response's key has one. The mark is stored next to it.
    ///   - collection: credential-free key of the target without arguments, if writes to members invalidate collections.
    func isInvalid(
        _ metadata: StoredMetadata, _ head: Span<UInt8>, credentialFreeKey: [UInt8]?, collection: [UInt8]?,
        _ basis: inout FindingBasis
    ) throws(NotInMemory) -> Bool {
        let time = metadata.requestTime
        if let credentialFreeKey, try isMarked(Self.invalidationKey(credentialFreeKey), since: time, &basis) { return true }
        if let collection, try isMarked(Self.collectionKey(collection), since: time, &basis) { return true }
        guard metadata.flags.contains(.hasGroups) else { return false }
        guard let groups = Self.groups(of: head) else { return true }
        for group in groups { if try isMarked(groupKey(group), since: time, &basis) { return true } }
        return false
    }

    /// Returns whether a write with an unclear outcome was made since a stored response was requested.
    /// - Parameters:
    ///   - credentialFreeKeys: credential-free keys of the target, with and without the key's other parts.
    ///   - collection: credential-free key of the target without arguments, if writes to members invalidate collections.
    func isDoubted(
        _ metadata: StoredMetadata, credentialFreeKeys: [[UInt8]], collection: [UInt8]?, _ basis: inout FindingBasis
    ) throws(NotInMemory) -> Bool {
        let time = metadata.requestTime
        guard state.storeMemory.doubts.mayConcern(time) else { return false }
        let keys = credentialFreeKeys.map(Self.invalidationKey) + (collection.map { [Self.collectionKey($0)] } ?? [])
        for key in keys { if try isMarked(DoubtfulWrites.markKey(key), since: time, &basis) { return true } }
        return false
    }

    /// Returns whether another node has purged a target's preflights since this one was requested.
    /// - Parameter credentialFreeKey: credential-free key of the target without the preflight's identity.
    func isPurged(preflight metadata: StoredMetadata, credentialFreeKey: [UInt8], _ basis: inout FindingBasis) throws(NotInMemory) -> Bool {
        try isMarked(Self.preflightsKey(credentialFreeKey), since: metadata.requestTime, &basis)
    }

    /// Returns whether a mark exists from the time of the request or later. A mark of that millisecond counts.
    private func isMarked(_ key: [UInt8], since requestTime: Timestamp, _ basis: inout FindingBasis) throws(NotInMemory) -> Bool {
        Self.time(of: try item(key, &basis)).map { requestTime <= $0 } ?? false
    }

    /// Returns whether a purge or a write since this time may have removed a response that was found then.
    public func mayBeInvalidated(_ found: FoundResponse, of head: RequestHead, at keys: TargetKeys, since time: Timestamp) -> Bool {
        guard !state.purges.isOvertaken(time),
            let groups = found.metadata.flags.contains(.hasGroups) ? Self.groups(of: found.head.span) : []
        else { return true }
        return marks([keys.credentialFree], collectionKey(of: head), groups).contains { state.marks.mayHaveOvertaken($0, time) }
    }

    /// Returns the keys of the marks that invalidate these targets, this collection or these groups.
    func marks(_ credentialFreeKeys: [[UInt8]], _ collection: [UInt8]?, _ groups: [String]) -> [[UInt8]] {
        var keys = credentialFreeKeys.map(Self.invalidationKey)
        if let collection { keys.append(Self.collectionKey(collection)) }
        for group in groups { keys.append(groupKey(group)) }
        return keys
    }

    /// nil if the groups cannot be determined.
    static func groups(of head: Span<UInt8>) -> [String]? {
        guard let head = StoredHead.parse(head) else { return [] }
        return CacheTags.groups(of: head.fields, named: "cache-groups")
    }

    static func time(of item: StoredItem?) -> Timestamp? {
        guard let item else { return nil }
        return timeOfMark(item.metadata.span)
    }

    /// The mark has a separate key next to the target's key. A response stored later under the target's key therefore does not revive old
    /// responses in other partitions.
    static func invalidationKey(_ credentialFreeKey: [UInt8]) -> [UInt8] { credentialFreeKey.followed(by: UInt8(ascii: "I")) }

    /// Key of the mark next to the target's key which records that another node has purged its preflights. Writes do not affect preflights,
    /// so their marks do not apply.
    static func preflightsKey(_ credentialFreeKey: [UInt8]) -> [UInt8] { credentialFreeKey.followed(by: UInt8(ascii: "O")) }

    static func collectionKey(_ credentialFreeKey: [UInt8]) -> [UInt8] { credentialFreeKey.followed(by: UInt8(ascii: "C")) }

    /// Each of several APIs has separate groups.
    func groupKey(_ group: String) -> [UInt8] { Self.groupKey(group, ofAPI: settings.isOneOfSeveral ? settings.keyName : nil) }

    /// - Parameter name: the API's name in keys; nil if there is only one API.
    static func groupKey(_ group: String, ofAPI name: [UInt8]?) -> [UInt8] {
        var key = Array("T".utf8)
        if let name { CacheKey.appendPart(name, to: &key) }
        return key + Array(group.utf8)
    }

    /// The time of a mark as part of keys that contain a request's content.
    static func invalidationPart(_ time: Timestamp) -> [UInt8] {
        var part: [UInt8] = []
        part.append(littleEndian: time.milliseconds)
        return part
    }
}

extension APICacheState {
    /// Sets a mark. It is kept in memory for pending fetches. The store gets it only if it may hold an affected response, or if another
    /// process may. A mark of this node's own write is also stored until other nodes have the write.
    /// - Parameter isOwn: false if the fleet's log contains the mark, so that the node reads it again after a restart.
    func mark(_ key: [UInt8], at now: Timestamp, isOwn: Bool = true) {
        let time = times.ofMark(now)
        marks.note(key, at: time)
        guard isOwn && settings.fleet != nil || store.hasPeer || storeMemory.paths.mayHave(key) else { return }
        store.insert(NewItem(key: key, metadata: StoredMetadata.invalidation(at: time), head: [], body: [], retention: .outlives))
    }
}
