// Calls of a fetch to the cache besides storing a response: updating a confirmed one, invalidating what a write has changed, and resources
// that are gone. The cache decides about each.

import CachePolicy
import Decisions
import Explanation
import Forwarding
import HTTPCore
import Identity
import Reactor
import ResponseCache
import Upstream

extension Fetch {
    /// The request in the form that the cache uses; nil if the response is not stored.
    var storableExchange: StorableExchange? {
        if let madeStorable { return madeStorable }
        guard let keys = subject.fetchTarget?.keys ?? keysOfGet else { return nil }
        let storable = StorableExchange(
            subject.head, subject.directives, keys: keys, found: subject.found, subject.basis?.identity, client: subject.client)
        madeStorable = storable
        return storable
    }

    /// Caching directives of the response head, parsed once.
    func control(_ response: ResponseHead, for cache: ResponseCache) -> ResponseCacheControl {
        if let control { return control }
        let control = cache.control(response)
        self.control = control
        return control
    }

    var hasCacheKey: Bool { subject.fetchTarget != nil || keysOfGet != nil }

    /// RFC 9110 §9.3.3: the response to a POST may be stored for later GETs if it has an explicit lifetime and a Content-Location equal to
    /// the target.
    func takeKeyOfGet(_ response: ResponseHead) {
        guard let cache = context.cache else { return }
        let control = control(response, for: cache)
        let hasLifetime =
            control.maxAge != nil || control.sharedMaxAge != nil || (!control.hidesExpires && response.fields.contains(.expires))
        guard response.status == 200, hasLifetime, !subject.head.fields.containsAny(of: UpstreamRequestFields.methodOverrides),
            let location = response.fields.first(.contentLocation),
            Invalidation.isSame(location, as: subject.head.pathAndQuery, origin: context.rules.origin)
        else { return }
        keysOfGet = cache.keysOfGet(for: subject.head, by: subject.client)
    }

    /// Updates the stored response after a 304; nil if the 304 matches none.
    func confirmStored(by response: ResponseHead) -> (confirmation: Confirmation, result: ConfirmationResult)? {
        if repetition == .recorded, let found = subject.found, let metadata = repeatedMetadata {
            return (Confirmation(found: found, head: repeatedHead(metadata), metadata: metadata), .stored)
        }
        guard let storableExchange, let cache = context.cache,
            let confirmed = cache.confirm(by: response, for: storableExchange, recency, at: context.loop.cacheTime)
        else { return nil }
        rememberHead(asRepetition: confirmed.changedNothing)
        return (confirmed.confirmation, confirmed.result)
    }

    /// Sends the stored response that the 304 confirms.
    func confirm() {
        guard let response else { return }
        guard let confirmed = confirmStored(by: response) else { return fail(.fault(.unexpectedStatus, 304)) }
        noteSuccess()
        notePresent(response)
        observeGood(confirmed.confirmation.metadata, confirmed.confirmation.head, confirmed.confirmation.found)
        endFlight(FlightOutcome(confirmed.result))
        finish { $0.fetchConfirmed(confirmed.confirmation) }
    }

    func rememberGoneAndDeliver(_ reason: NotStoredReason) {
        guard let response else { return }
        let isRemembered = rememberGone(response)
        observeUnstored(response, .status)
        deliver(response, .forbidden(reason)) { $0.isRememberedAsGone = isRemembered }
    }

    /// Updates the response stored for GET after a 200 to HEAD (RFC 9111 §4.3.5), independent of the other handling of that response.
    func updateStored(by response: ResponseHead, loads: Int = 0) {
        guard subject.head.method == .head, response.status == 200, !isOfConnectionUser else { return }
        guard let storableExchange, let cache = context.cache else { return }
        if loads < ResponseCache.readLimit,
            let missing = cache.firstNotInMemory(
                storing: response.fields, for: storableExchange, isUpdate: true, now: context.loop.now)
        {
            return cache.load(missing, on: context.loop) { self.updateStored(by: response, loads: loads + 1) }
        }
        cache.update(by: response, for: storableExchange, recency, now: context.loop.now)
    }

    /// Invalidates what a write has changed.
    /// - Parameters:
    ///   - head: nil if no response arrived, although the request may have been sent.
    ///   - isRefused: whether the content reports errors in place of a result.
    /// - Returns: whether the response must wait until the marks are in the store's files.
    func invalidate(after head: ResponseHead?, isRefused: Bool = false) -> Bool {
        guard !subject.head.method.isSafe, subject.fetchTarget == nil else { return false }
        let hasSucceeded = head.map { $0.status.isSuccessful || $0.status.isRedirection } ?? false
        if hasSucceeded { context.coordination.noteWrite(subject, hasFailed: false) }
        let invalidation = context.rules.routes.invalidation(by: subject.head.pathAndQuery)
        guard let cache = context.cache else { return false }
        lastAnnouncedBefore = context.coordination.level.lastAnnounced
        let mayHaveChanged = cache.invalidate(
            after: head, isRefused: isRefused, to: subject.head, sparingTarget: invalidation.sparesTarget,
            withCollection: invalidation.hasCollection, at: recency.responseTime)
        if mayHaveChanged, !hasSucceeded { context.coordination.noteWrite(subject, hasFailed: true) }
        return mayHaveChanged && cache.state.hasUnwrittenMarks
    }

    /// Invalidates what a write may have changed that ends without a response, unless the upstream cannot have received it.
    /// - Returns: whether the end must wait for the marks.
    func invalidateAfterLoss(_ transfer: Transfer) -> Bool {
        guard !subject.head.method.isSafe, subject.fetchTarget == nil, status == nil, transfer.mayHaveArrived else { return false }
        recency.responseTime = context.loop.now
        invalidateOnceMore()
        return mustHold(hasUnwrittenMarks: invalidate(after: nil))
    }

    /// Repeats the invalidation later, because the upstream may still process the write.
    private func invalidateOnceMore() {
        let coordination = context.coordination
        guard coordination.lostWrites < Coordination.lostWritesLimit else { return }
        coordination.lostWrites += 1
        // Otherwise the content would occupy memory for that time.
        body = .none
        context.loop.schedule(after: .milliseconds(IdentityWrite.lossMilliseconds)) { [self] in
            coordination.lostWrites -= 1
            recency.responseTime = context.loop.now
            _ = invalidate(after: nil)
        }
    }

    /// Whether another stored response may be served if the request found none: a superseded one, or that without credentials.
    func hasOtherRescue() -> Bool {
        guard let target = subject.lookedUp, let cache = context.cache else { return false }
        let (head, keys, now) = (subject.head, target.keys, context.loop.now)
        // The data was in memory when the request was looked up.
        let isThere = try? cache.waiting { () throws(NotInMemory) in
            if let found = try cache.findSuperseded(head, at: keys), cache.mayRescue(found, head, subject.directives, now: now) {
                return true
            }
            let mode = context.rules.routes.sharedRescueMode(head.pathAndQuery)
            guard target.isPartitioned, case .found = try cache.sharedRescue(for: head, at: keys, subject.directives, mode, now: now)
            else { return false }
            return true
        }
        return isThere ?? false
    }

    // MARK: Unexpected responses and deleted resources

    /// Whether other responses, or the client's own requests, show that an unexpected response is intended.
    func hasSeen(_ unexpected: UnexpectedResponse) -> Bool {
        if unexpected == .afterRefusal { return context.cache?.hasRefused(subject.head, at: subject.lookedUp?.keys) ?? false }
        guard let found = subject.found, let storableExchange, let cache = context.cache else { return false }
        return switch unexpected {
        case .surprise(let surprise):
            cache.noteSurprise(
                surprise, insteadOf: found, for: storableExchange, by: subject.scopes.client, at: context.loop.cacheTime)
        case .lasting:
            subject.lookedUp.map {
                cache.noteBadContent(found, for: subject.head, at: $0.keys, by: subject.scopes.client, at: context.loop.cacheTime)
            } ?? false
        case .otherForm: cache.noteOtherForm(of: found, for: subject.head, at: context.loop.cacheTime)
        case .afterOwnWrite: context.coordination.hasJustWritten(subject)
        case .afterRefusal: false
        }
    }

    /// Records that a response refuses the request's credentials: a 401, or a redirect to a login.
    /// - Returns: whether the stored response belongs to these credentials.
    func noteRefusal(_ response: ResponseHead) -> Bool {
        guard let found = subject.found, let keys = subject.lookedUp?.keys, let cache = context.cache else { return false }
        guard keys.isPartitioned else {
            if response.status == 401 { cache.noteRefusedTarget(keys) }
            return false
        }
        guard response.status == 401 || LastGood.isLogin(response, to: subject.head, at: context.rules.origin) else { return false }
        return cache.noteRefused(
            subject.head, beside: found, at: keys, isCertain: response.status == 401, now: context.loop.cacheTime.monotonic)
    }

    /// Whether the response head shows that the resource is gone.
    /// - Parameter decision: if the response is stored normally, the result is false.
    func saysGone(_ response: ResponseHead, _ decision: StorageDecision) -> Bool {
        guard subject.found != nil, !isOfConnectionUser, let storableExchange, let cache = context.cache else { return false }
        return cache.saysGone(response, decision, for: storableExchange)
    }

    /// Records that the resource is gone, if the complete response says so.
    /// - Returns: whether it was recorded.
    func rememberGone(_ response: ResponseHead) -> Bool {
        let findings = collected.findings
        guard let storableExchange, let cache = context.cache, response.status == 410 || findings.flaw == nil else { return false }
        let content = findings.decoded ?? collected.bytes
        let whole = WholeResponse(response, control(response, for: cache), content, isDecoded: findings.decoded != nil, recency)
        return cache.rememberGone(whole, for: storableExchange, at: context.loop.cacheTime)
    }

    /// Records that the resource exists at the upstream. Removes an earlier record that it is gone.
    func notePresent(_ response: ResponseHead) {
        guard let keys = subject.lookedUp?.keys, let cache = context.cache else { return }
        guard let found = subject.found else {
            // Only good responses to users are evidence (`noteRefused`). Most others take no lock here.
            if keys.isPartitioned, MediaType.isJSON(response.fields, orElse: false) {
                cache.noteGood(at: keys, now: context.loop.cacheTime.monotonic)
            }
            return
        }
        cache.notePresent(
            found, response, recency, for: subject.head, at: keys, by: subject.scopes.client, at: context.loop.cacheTime)
    }
}
