// What a fetch does with the store: a good answer goes in, a confirmed one is brought up to date, what a write has changed goes out.

import CachePolicy
import CacheStore
import Downstream
import HTTPCore
import Reactor
import Upstream

extension Fetch {
    /// Whether JSON that came without a validator gets a tag of its data.
    func wantsOwnTag(_ head: ResponseHead) -> Bool {
        shard.settings.policy.makesEntityTags && head.status == 200 && !head.fields.contains(.etag) && !head.fields.contains(.lastModified)
            && head.fields.first(.contentType).flatMap(MediaType.init)?.isJSON == true
    }

    func store(
        _ head: ResponseHead, _ decoded: [UInt8]?, _ ownTag: [UInt8]?
    ) -> (head: [UInt8], metadata: StoredMetadata, result: StorageDecision) {
        let body = decoded ?? content
        var kept = shard.keepingRedirect(head)
        if let via = shard.via { kept.fields.append(.via, via) }
        // A POST has made invalid what was there before; its own answer is later than that.
        let isOwn = subject.key == nil
        let since = isOwn ? Timestamp(milliseconds: responseTime.milliseconds + 1) : requestTime
        let control = control(head)
        var (bytes, metadata) = StoredHead.make(
            kept, control: control, contentBytes: body.count, isDecoded: decoded != nil, ownTag: ownTag, requestTime: since,
            responseTime: responseTime, settings: shard.settings.policy)
        if isOwn { metadata.ageValue += (responseTime.milliseconds - requestTime.milliseconds) / 1000 }
        if Storing.isShared(subject.head, isPartitioned: isPartitioned, settings: shard.settings.policy) {
            metadata.flags.insert(.authorized)
        }
        guard let key, let lookUp = shard.lookUp, !lookUp.isOvertaken(sharedKey, requestTime: since),
            !lookUp.purges.isOvertaken(requestTime)
        else { return (bytes, metadata, .forbidden(.storeRefused)) }
        let place = shard.place(head.fields, of: subject.head, after: TargetKeys(own: key, shared: sharedKey))
        guard !lookUp.isOvertaken(place.shared, requestTime: since) else {
            return (bytes, metadata, .forbidden(.storeRefused))
        }
        if place.own == key, ownTag != nil, isSameData(metadata, bytes), isKnown(metadata), note(metadata) {
            return (bytes, metadata, .allowed)
        }
        let names = SelectingFields.names(response: head.fields, request: subject.head.fields, settings: shard.settings.policy)
        let result = lookUp.insert(
            key: place.own, names: names, request: subject.head.fields, metadata: metadata, head: bytes, body: body, now: responseTime)
        isOutdated = result == nil
        guard !dropIfOvertaken(place, since: since, lookUp) else { return (bytes, metadata, .forbidden(.storeRefused)) }
        return (bytes, metadata, result == .accepted ? .allowed : .forbidden(result == .tooLarge ? .tooLarge : .storeRefused))
    }

    /// Writes down what has confirmed a stored response, or only notes when it came.
    private func keep(_ found: FoundResponse, _ head: [UInt8], _ fresh: StoredMetadata) {
        if isKnown(found, head, fresh), note(fresh) { return }
        write(found, head, fresh)
    }

    /// Keeps the time of a confirmation that is not written down, in memory; false where that is not enough.
    private func note(_ fresh: StoredMetadata) -> Bool {
        guard let found = subject.found, let written = StoredMetadata(found.written.metadata),
            let note = UnwrittenConfirmation.encode(written: written, fresh: fresh),
            fresh.date == written.date || StoredHead.redated(found.written.head, fresh.date) != nil
        else { return false }
        let key = found.key
        shard.lookUp?.store.setNote(note, of: key.span, ifStill: found.written)
        return true
    }

    /// How often a confirmation that brings no new freshness is written down; its time is noted in any case.
    private static let confirmationInterval: Int64 = 10_000

    func confirmed(_ answer: ResponseHead) {
        guard let found = subject.found, let fresh = freshened(found, by: answer) else { return failed(.fault(.unexpectedStatus, 304)) }
        noteSuccess()
        liftGone()
        let isKept = mayKeep(fresh.bytes, fresh.metadata)
        if isKept { keep(found, fresh.bytes, fresh.metadata) }
        if isKept { shard.noteCookies(setBy: answer.fields, to: subject.head) }
        land(isKept ? .stored : .unshareable)
        let cookies = answer.fields.all(.setCookie)
        receiver?.fetchConfirmed(Confirmation(found: found, head: fresh.bytes, metadata: fresh.metadata, cookies: cookies))
    }

    /// §3 holds for what a 304 or a HEAD makes of a stored answer as for any other: it may be private now, or not to be stored.
    private func mayKeep(_ head: [UInt8], _ metadata: StoredMetadata) -> Bool {
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
        return Validation.freshened(
            found.metadata, head: found.item.head, by: answer, contentBytes: found.item.body.count, requestTime: requestTime,
            responseTime: responseTime, settings: shard.settings.policy)
    }

    /// Stores the same content with another head.
    func write(_ found: FoundResponse, _ head: [UInt8], _ metadata: StoredMetadata) {
        guard let lookUp = shard.lookUp, !lookUp.isOvertaken(sharedKey, requestTime: requestTime) else { return }
        guard let key, let fields = head.withUnsafeBytes({ StoredHead.parse($0) })?.fields else { return }
        let place = shard.place(fields, of: subject.head, after: TargetKeys(own: key, shared: sharedKey))
        // It may vary by other fields from now on.
        let names = SelectingFields.names(response: fields, request: subject.head.fields, settings: shard.settings.policy)
        let own = names.isEmpty && place.own == key ? found.key : place.own
        lookUp.insert(
            key: own, names: names, request: subject.head.fields, metadata: metadata, head: head, body: Array(found.item.body),
            now: responseTime)
        _ = dropIfOvertaken(TargetKeys(own: own, shared: place.shared), since: requestTime, lookUp)
    }

    /// A write may have come through another shard since it was looked for: its mark is there before it takes out what is stored, so either it
    /// took out what was just put in, or its mark is seen now.
    private func dropIfOvertaken(_ place: TargetKeys, since: Timestamp, _ lookUp: StoreLookUp) -> Bool {
        guard lookUp.isOvertaken(place.shared, requestTime: since) || lookUp.isOvertaken(sharedKey, requestTime: since) else {
            return false
        }
        lookUp.store.remove(place.own.span)
        return true
    }

    /// RFC 9111 §4.3.5: what HEAD brought, held against the stored answer to GET.
    func updateStored(by answer: ResponseHead) {
        guard let found = subject.found else { return }
        switch Validation.update(found.metadata, head: found.item.head, by: answer, contentBytes: found.item.body.count) {
        case .nothing: break
        case .freshen:
            guard let fresh = freshened(found, by: answer), mayKeep(fresh.bytes, fresh.metadata) else { return }
            keep(found, fresh.bytes, fresh.metadata)
        case .stale:
            var stale = found.metadata
            guard stale.freshnessLifetime ?? 0 > 0 else { return }
            stale.freshnessLifetime = 0
            write(found, Array(found.item.head), stale)
        }
    }

    /// Whether the store has nothing to learn from what has confirmed the stored answer: whom it is for and how long it may be used.
    private func isKnown(_ found: FoundResponse, _ head: [UInt8], _ fresh: StoredMetadata) -> Bool {
        guard isKnown(fresh), fresh.staleIfError == found.metadata.staleIfError,
            fresh.staleWhileRevalidate == found.metadata.staleWhileRevalidate
        else { return false }
        let old = StoredHead.parse(found.item.head)?.fields.combined(.vary)
        return old == head.withUnsafeBytes { StoredHead.parse($0) }?.fields.combined(.vary)
    }

    /// Whether the store has nothing to learn from an answer that brings the same data.
    func isKnown(_ fresh: StoredMetadata) -> Bool {
        guard let found = subject.found else { return false }
        let isRecent = responseTime.milliseconds - found.writtenTime.milliseconds < Self.confirmationInterval
        return isRecent && fresh.freshnessLifetime == nil && fresh.flags == found.metadata.flags
    }

    /// Other bytes perhaps, but what they mean is what is stored.
    func isSameData(_ metadata: StoredMetadata, _ head: [UInt8]) -> Bool {
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
            let groups = CacheTags.groups(of: head.fields, named: "cache-group-invalidation").prefix(limit)
            lookUp.invalidate(groups: Array(groups), at: responseTime)
        }
        guard !targets.isEmpty, shard.routes.all[subject.route].invalidatesCollection,
            let collection = Invalidation.collection(of: path)
        else { return }
        lookUp.invalidateCollection(shard.sharedKey(of: collection, for: subject.head), at: responseTime)
    }
}
