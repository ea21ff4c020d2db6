// What a fetch does with the store: a good answer goes in, a confirmed one is brought up to date, what a write has changed goes out.

import CachePolicy
import CacheStore
import Downstream
import Explanation
import HTTPCore
import Reactor
import Upstream

extension Fetch {
    /// Of what comes of this fetch.
    var recency: Recency {
        Recency(order: order, isImported: false, requestTime: requestTime, responseTime: responseTime)
    }

    /// Calls `store` once what storing the response looks at is in memory: nearly always at once.
    /// - Parameters:
    ///   - isUpdate: it brings up to date what is stored.
    ///   - reads: how often something was brought in for it.
    func whenInMemory(storing head: ResponseHead, isUpdate: Bool = false, reads: Int = 0, then store: @escaping @Sendable () -> Void) {
        guard let key, reads < DiskWait.readLimit, let lookUp = shard.lookUp,
            let wanted = shard.firstOnDisk(
                storing: head.fields, of: subject.head, at: TargetKeys(own: key, shared: sharedKey), found: subject.found,
                isUpdate: isUpdate)
        else { return store() }
        lookUp.store.bringIn(wanted) { [self] in
            shard.loop.execute { self.whenInMemory(storing: head, isUpdate: isUpdate, reads: reads + 1, then: store) }
        }
    }

    func store(
        _ head: ResponseHead, _ decoded: [UInt8]?, _ ownTag: [UInt8]?
    ) -> (head: [UInt8], metadata: StoredMetadata, result: StorageDecision) {
        // A POST has made invalid what was there before; its own response is later than that.
        let isOwn = subject.key == nil
        var recency = self.recency
        if isOwn { recency.requestTime = Timestamp(milliseconds: responseTime.milliseconds + 1) }
        // What no-transform keeps in its coding is only checked without it.
        let decoded = Storing.staysCoded(head, control(head)) ? nil : decoded
        var new = shard.newResponse(
            head, decoded ?? content, isDecoded: decoded != nil, ownTag: ownTag, to: subject.head, isPartitioned: isPartitioned, recency)
        new.sentAt = requestTime
        if isOwn { new.metadata.ageValue += (responseTime.milliseconds - requestTime.milliseconds) / 1000 }
        guard let key else { return (new.head, new.metadata, .forbidden(.storeRefused)) }
        if let found = subject.found, ownTag != nil, bringsNothingNew(new, head.fields, beside: found), note(found, new.metadata) {
            return (new.head, new.metadata, .allowed)
        }
        let result = shard.store(new, head.fields, of: subject.head, lookedUpAt: TargetKeys(own: key, shared: sharedKey))
        return (new.head, new.metadata, result.decision)
    }

    /// Whether what was found holds the same data, is still what is stored, and would be found in the same place.
    private func bringsNothingNew(_ new: NewResponse, _ fields: Fields, beside found: FoundResponse) -> Bool {
        guard isSameData(new.metadata, new.head), isKnown(new.metadata, beside: found), isStored(found) else { return false }
        return SearchVariance(fields) == StoredHead.parse(found.item.head).flatMap { SearchVariance($0.fields) }
    }

    private func isStored(_ found: FoundResponse) -> Bool {
        let key = found.key
        guard let store = shard.lookUp?.store, let item = store.see(key.span).item else { return false }
        return StoredMetadata.recency(of: item.metadata)?.order == found.metadata.order
    }

    /// Writes down what has confirmed a stored response, or only notes when it came.
    private func keep(_ base: FoundResponse, _ head: [UInt8], _ fresh: StoredMetadata) -> StoringResult {
        if isKnown(base, head, fresh), note(base, fresh) { return .stored }
        return write(base, head, fresh)
    }

    /// Keeps the time of a confirmation that is not written down, in memory; false where that is not enough.
    private func note(_ found: FoundResponse, _ fresh: StoredMetadata) -> Bool {
        guard let note = UnwrittenConfirmation.encode(written: found.writtenMetadata, fresh: fresh),
            fresh.date == found.writtenMetadata.date || StoredHead.redated(found.item.head, fresh.date) != nil
        else { return false }
        let key = found.key
        shard.lookUp?.store.setNote(note, of: key.span, ifStill: found.written)
        return true
    }

    /// How often a confirmation that brings no new freshness is written down; its time is noted in any case.
    private static let confirmationInterval: Int64 = 10_000

    /// Its own client gets what was found, as that is from now on; others what is stored, which may be another by now.
    func confirmed(_ response: ResponseHead) {
        guard let found = subject.found, let fresh = freshened(found, by: response) else {
            return failed(.fault(.unexpectedStatus, 304))
        }
        noteSuccess()
        liftGone()
        let outcome = storeConfirmed(found, by: response)
        if case .stored = outcome { shard.noteCookies(setBy: response.fields, to: subject.head) }
        land(outcome)
        let cookies = response.fields.all(.setCookie)
        receiver?.fetchConfirmed(Confirmation(found: found, head: fresh.bytes, metadata: fresh.metadata, cookies: cookies))
    }

    private func storeConfirmed(_ found: FoundResponse, by response: ResponseHead) -> CollapsedRequests.Outcome {
        guard let lookUp = shard.lookUp, let key,
            case .update(let base) = lookUp.base(
                of: found, confirmedBy: response, recency, at: key, sharedKey: isPartitioned ? sharedKey : nil, request: subject.head)
        else { return .outdated }
        guard let fresh = freshened(base, by: response), mayKeep(fresh.bytes, fresh.metadata, response) else { return .unshareable }
        return keep(base, fresh.bytes, fresh.metadata) == .outdated ? .outdated : .stored
    }

    /// §3 holds for what a 304 or a HEAD makes of a stored answer as for any other: it may be private now, or not to be stored.
    /// - Parameter response: the 304 or the answer to HEAD itself: what is left out of the stored head is in it.
    private func mayKeep(_ head: [UInt8], _ metadata: StoredMetadata, _ response: ResponseHead) -> Bool {
        if shard.settings.policy.setCookie == .refuse, response.fields.contains(.setCookie) { return false }
        guard let merged = head.withUnsafeBytes({ StoredHead.parse($0) }),
            !metadata.flags.contains(.authorized) || Storing.mayShare(control(merged))
        else { return false }
        let own = subject.head
        let request = own.method == .head ? RequestHead(method: .get, target: own.target, version: own.version, fields: own.fields) : own
        return Storing.decide(
            request: request, directives: subject.directives, response: merged, control: control(merged), isPartitioned: isPartitioned,
            settings: shard.settings.policy) == .allowed
    }

    /// The stored head with the answer's fields.
    func freshened(_ found: FoundResponse, by answer: ResponseHead) -> (bytes: [UInt8], metadata: StoredMetadata)? {
        var answer = answer
        // Its own Via takes the stored one's place, and our entry belongs into it.
        if answer.fields.contains(.via), let via = shard.via { answer.fields.append(.via, via) }
        var fresh = Validation.freshened(
            found.metadata, head: found.item.head, by: answer, contentBytes: found.item.body.count, requestTime: requestTime,
            responseTime: responseTime, settings: shard.settings.policy)
        fresh?.metadata.order = order
        return fresh
    }

    /// Stores the same content with another head, if it is still what is stored.
    private func write(_ base: FoundResponse, _ head: [UInt8], _ metadata: StoredMetadata) -> StoringResult {
        guard let lookUp = shard.lookUp, let key, let fields = head.withUnsafeBytes({ StoredHead.parse($0) })?.fields else {
            return .refused
        }
        let old = TargetKeys(own: key, shared: sharedKey)
        guard var place = shard.storingPlace(fields, of: subject.head, lookedUpAt: old, metadata.recency) else { return .outdated }
        // It may vary by other fields from now on.
        let names = SelectingFields.names(response: fields, request: subject.head.fields, settings: shard.settings.policy)
        if names.isEmpty, place.key == key { place.key = base.key }
        let new = NewResponse(
            head: head, metadata: metadata, body: .stored(base.item.body, owner: base.item.owner), names: names,
            request: subject.head.fields, sentAt: requestTime)
        return lookUp.store(new, at: place, inPlaceOf: base)
    }

    /// RFC 9111 §4.3.5: what HEAD brought, held against the response to GET that is stored now, unless that was asked for later.
    func updateStored(by response: ResponseHead) {
        guard let key, let lookUp = shard.lookUp,
            let base = lookUp.findWaiting(key, sharedKey: isPartitioned ? sharedKey : nil, request: subject.head).found,
            !recency.isOutdated(by: base.metadata.recency)
        else { return }
        let strictness = shard.settings.policy.strictness
        let contentBytes = base.item.body.count
        switch Validation.update(base.metadata, head: base.item.head, by: response, contentBytes: contentBytes, strictness: strictness) {
        case .nothing: break
        case .freshen:
            guard let fresh = freshened(base, by: response), mayKeep(fresh.bytes, fresh.metadata, response) else { return }
            _ = keep(base, fresh.bytes, fresh.metadata)
        case .stale:
            guard base.metadata.freshnessLifetime ?? 0 > 0 else { return }
            _ = write(base, Array(base.item.head), base.metadata.stale(since: order))
        }
    }

    /// Whether the store has nothing to learn from what has confirmed the stored answer: whom it is for and how long it may be used.
    private func isKnown(_ found: FoundResponse, _ head: [UInt8], _ fresh: StoredMetadata) -> Bool {
        guard isKnown(fresh, beside: found), fresh.staleIfError == found.metadata.staleIfError,
            fresh.staleWhileRevalidate == found.metadata.staleWhileRevalidate
        else { return false }
        let old = StoredHead.parse(found.item.head)?.fields.combined(.vary)
        return old == head.withUnsafeBytes { StoredHead.parse($0) }?.fields.combined(.vary)
    }

    /// Whether the store has nothing to learn from an answer that brings the same data.
    private func isKnown(_ fresh: StoredMetadata, beside found: FoundResponse) -> Bool {
        let isRecent = responseTime.milliseconds - found.writtenMetadata.responseTime.milliseconds < Self.confirmationInterval
        return isRecent && fresh.freshnessLifetime == nil && fresh.flags == found.metadata.flags
    }

    /// Other bytes perhaps, but what they mean is what is stored.
    private func isSameData(_ metadata: StoredMetadata, _ head: [UInt8]) -> Bool {
        guard let found = subject.found, found.metadata.flags.contains(.ownTag) else { return false }
        return head[metadata.etag].elementsEqual(found.item.head[found.metadata.etag])
    }

    func invalidate(after head: ResponseHead) {
        guard !subject.head.method.isSafe, subject.key == nil, let lookUp = shard.lookUp else { return }
        let path = subject.head.pathAndQuery
        let targets = Invalidation.targets(method: subject.head.method, target: path, response: head, origin: shard.upstreamOrigin)
        for target in targets { shard.invalidate(target: target, for: subject.head) }
        if !targets.isEmpty {
            let limit = shard.settings.policy.memberLimit
            let groups = CacheTags.firstGroups(of: head.fields, named: "cache-group-invalidation").prefix(limit)
            lookUp.invalidate(groups: Array(groups), at: responseTime)
        }
        guard !targets.isEmpty, shard.routes.all[subject.route].invalidatesCollection,
            let collection = Invalidation.collection(of: path)
        else { return }
        lookUp.invalidateCollection(shard.sharedKey(of: collection, for: subject.head), at: responseTime)
    }
}
