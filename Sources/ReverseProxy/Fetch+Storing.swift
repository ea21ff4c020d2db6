// What a fetch does with the cache: a good response goes in, a confirmed one is brought up to date, what a write has changed goes out. What
// becomes of each is decided there.

import CachePolicy
import Coordination
import Decisions
import Examination
import Explanation
import HTTPCore
import Reactor
import ResponseCache
import Sharing
import Upstream

extension Fetch {
    /// The request as the cache knows it; nil where it has nothing to do with it.
    var placedRequest: PlacedRequest? {
        if let placed { return placed }
        guard let keys = subject.place?.keys ?? keysOfGet else { return nil }
        let placed = PlacedRequest(
            subject.head, subject.directives, keys: keys, found: subject.found, subject.basis?.identity, client: subject.client)
        self.placed = placed
        return placed
    }

    /// What the head of its response says of caching, read once.
    func control(_ response: ResponseHead, for cache: ResponseCache) -> ResponseCacheControl {
        if let control { return control }
        let control = cache.control(response)
        self.control = control
        return control
    }

    /// Whether the store has anything to do with the response.
    var hasPlace: Bool { subject.place != nil || keysOfGet != nil }

    /// Calls `store` once what storing the response looks at is at hand: nearly always at once.
    /// - Parameters:
    ///   - isUpdate: it brings up to date what is stored.
    ///   - reads: how often something was brought in for it.
    func whenAtHand(storing head: ResponseHead, isUpdate: Bool = false, reads: Int = 0, then store: @escaping @Sendable () -> Void) {
        guard let placedRequest, reads < ResponseCache.readLimit, let cache = shard.cache,
            let wanted = cache.firstNotAtHand(storing: head.fields, for: placedRequest, isUpdate: isUpdate, now: shard.now)
        else { return store() }
        shard.bringIn(wanted) { self.whenAtHand(storing: head, isUpdate: isUpdate, reads: reads + 1, then: store) }
    }

    /// The response as it is stored, and how that went; nil where it has no place.
    func store(_ head: ResponseHead) -> (result: StoringResult, head: [UInt8], metadata: StoredMetadata)? {
        guard let placedRequest, let cache = shard.cache else { return nil }
        let findings = collected.findings
        let control = control(head, for: cache)
        // What no-transform keeps in its coding is only checked without it.
        let decoded = findings.decoded.flatMap { Storing.staysCoded(head, control) ? nil : $0 }
        var whole = WholeResponse(
            head, control, decoded ?? collected.bytes, isDecoded: decoded != nil, ownTag: findings.ownTag, recency,
            isOfPOST: subject.place == nil)
        whole.isLenient = findings.isLenient
        if decoded != nil { whole.coded = ContentCoding(head.fields).map { (collected.bytes, $0) } }
        return cache.store(whole, for: placedRequest, at: shard.cacheTime)
    }

    /// Its own client gets what was found, as that is from now on.
    func confirm(by response: ResponseHead) {
        guard let placedRequest, let confirmed = shard.cache?.confirm(by: response, for: placedRequest, recency, at: shard.cacheTime) else {
            return fail(.fault(.unexpectedStatus, 304))
        }
        noteSuccess()
        notePresent(response)
        land(FlightOutcome(confirmed.result))
        letGo { $0.fetchConfirmed(confirmed.confirmation) }
    }

    /// Whatever is done with it: a 200 to HEAD tells of what is stored for GET (RFC 9111 §4.3.5).
    func updateStored(by response: ResponseHead) {
        guard subject.head.method == .head, response.status == 200, !isOfConnectionUser else { return }
        whenAtHand(storing: response, isUpdate: true) { [self] in
            placedRequest.map { shard.cache?.update(by: response, for: $0, recency, now: shard.now) }
        }
    }

    /// - Returns: whether the response has to wait until all of that is in the store's files.
    func invalidate(after head: ResponseHead) -> Bool {
        guard !subject.head.method.isSafe, subject.place == nil else { return false }
        if head.status.isSuccessful || head.status.isRedirection { shard.noteWrite(subject) }
        let invalidation = shard.routes.invalidation(by: subject.head.pathAndQuery)
        guard let cache = shard.cache else { return false }
        lastToldBefore = shard.level?.lastTold ?? 0
        let mayHaveChanged = cache.invalidate(
            after: head, to: subject.head, sparingTarget: invalidation.sparesTarget, withCollection: invalidation.hasCollection,
            at: recency.responseTime)
        return mayHaveChanged && cache.shared.hasUnwrittenMarks
    }

    /// Whether the copy of others may stand in, where the request has none of its own.
    func hasStandIn() -> Bool {
        guard let place = subject.place, place.isPartitioned else { return false }
        // It was in memory when the request was looked up.
        let result = try? shard.cache?.waiting { () throws(NotAtHand) in
            try shard.standIn(for: subject.head, at: place.keys, subject.directives)
        }
        if case .found = result { return true }
        return false
    }

    // MARK: Unexpected responses, and what is gone

    /// What other responses, and the client's own requests, tell of an unexpected response.
    func hasSeen(_ unexpected: UnexpectedResponse) -> Bool {
        guard let found = subject.found, let cache = shard.cache else { return false }
        return switch unexpected {
        case .surprise(let surprise): cache.isReplaced(surprise, insteadOf: found, by: subject.scopes.client, at: shard.cacheTime)
        case .otherForm: cache.isOtherForm(of: found, for: subject.head, at: shard.cacheTime)
        case .afterOwnWrite: shard.hasJustWritten(subject)
        }
    }

    /// Whether the head says that the copy is gone.
    /// - Parameter decision: where it is stored as any other response, that is what counts.
    func saysGone(_ response: ResponseHead, _ decision: StorageDecision) -> Bool {
        guard subject.found != nil, !isOfConnectionUser, let placedRequest, let cache = shard.cache else { return false }
        return cache.saysGone(response, decision, for: placedRequest)
    }

    /// Remembers that it is gone, if the whole response says so.
    /// - Returns: whether it did.
    func rememberGone(_ response: ResponseHead) -> Bool {
        let findings = collected.findings
        guard let placedRequest, let cache = shard.cache, response.status == 410 || findings.flaw == nil else { return false }
        let content = findings.decoded ?? collected.bytes
        let whole = WholeResponse(response, control(response, for: cache), content, isDecoded: findings.decoded != nil, recency)
        return cache.rememberGone(whole, for: placedRequest, at: shard.cacheTime)
    }

    /// The upstream has it: what said that it is gone counts no more.
    func notePresent(_ response: ResponseHead) {
        guard let found = subject.found, let cache = shard.cache else { return }
        cache.notePresent(found, response, recency, for: subject.head, by: subject.scopes.client, at: shard.cacheTime)
    }
}

extension FlightOutcome {
    init(_ storage: StorageDecision) {
        self =
            switch storage {
            case .allowed: .stored
            case .forbidden(.outdated): .outdated
            case .forbidden: .unshareable
            }
    }

    init(_ result: ConfirmationResult) {
        self =
            switch result {
            case .stored: .stored
            case .outdated: .outdated
            case .unshareable: .unshareable
            }
    }
}
