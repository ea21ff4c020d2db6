// Handles unexpected responses for targets with a stored response (`SurpriseMemory`), and responses which state that the resource is gone
// (`GoneMemory`).

import CachePolicy
import CacheStore
import HTTPCore

extension ResponseCache {
    /// Returns the newer response which states that the resource of this stored response is gone; nil if there is none.
    public func gone(beside found: FoundResponse) throws(NotInMemory) -> FoundResponse? {
        var basis = FindingBasis()
        guard gone != nil, let gone = GoneMemory.gone(in: try item(GoneMemory.key(found.key), &basis), found.key),
            !found.metadata.recency.isLater(than: gone.metadata.recency)
        else { return nil }
        return gone
    }

    // MARK: Unexpected responses

    /// Records an unexpected response. Returns whether the stored response is served instead, because a gateway returns such responses for
    /// many targets.
    /// - Parameter witness: number for the client's address.
    public func noteSurprise(
        _ surprise: Surprise, insteadOf found: FoundResponse, for request: StorableExchange, by witness: UInt64, at time: CacheTime
    ) -> Bool {
        if gone == nil, surprise == .notFound || surprise == .forbidden { return false }
        guard request.keys.unknownFields?.isOtherSpelling != true else { return false }
        let isEvidence = RequestLikeness.isNegotiated(found.metadata, by: request.head.fields)
        let user = userOwning(found, request.keys)
        let (isReplaced, notes) = state.surprises.note(
            surprise, found.key, by: witness, of: user, isEvidence: isEvidence, now: time.monotonic)
        for note in notes { gone?.lift(note) }
        if isReplaced, surprise == .notFound { gone?.count(.disbelieved) }
        return isReplaced
    }

    /// Records content that is not good. Returns whether it is intended, because it has lasted for long while other targets had good
    /// responses.
    public func noteBadContent(
        _ found: FoundResponse, for head: RequestHead, at keys: TargetKeys, by witness: UInt64, at time: CacheTime
    ) -> Bool {
        let isEvidence = RequestLikeness.isNegotiated(found.metadata, by: head.fields)
        let user = userOwning(found, keys)
        return !state.surprises.note(.content, found.key, by: witness, of: user, isEvidence: isEvidence, now: time.monotonic).isReplaced
    }

    /// Records a response of another type. Returns whether it is a separate representation for requests with this Accept field.
    public func noteOtherForm(of found: FoundResponse, for head: RequestHead, at time: CacheTime) -> Bool {
        state.surprises.noteOtherForm(found.key, accept: Self.accepted(by: head.fields), now: time.monotonic)
    }

    /// Records that the resource of this stored response exists at the upstream. Removes a record that it is gone.
    public func notePresent(
        _ found: FoundResponse, _ response: ResponseHead, _ recency: Recency, for head: RequestHead, at keys: TargetKeys,
        by witness: UInt64, at time: CacheTime
    ) {
        let copy = LastGood.Copy(found.metadata, head: found.head.span, beside: response)
        let accept = LastGood.isOfOtherType(response, than: copy) ? nil : Self.accepted(by: head.fields)
        let user = userOwning(found, keys)
        if state.surprises.found(found.key, accept: accept, by: witness, of: user, requestedBy: requester(keys), now: time.monotonic) {
            state.surprises.noteAccepted(found.key, keyMaker.credentialsNumber(of: head))
            state.surprises.noteAcceptedTarget(keys.own)
        }
        gone?.lift(found.key, by: recency)
    }

    /// Records a good response for a target without a stored response.
    public func noteGood(at keys: TargetKeys, now: Int64) { state.surprises.noteGood(requester(keys), now: now) }

    /// Returns a number for the user who sent a request; 0 without credentials.
    private func requester(_ keys: TargetKeys) -> UInt64 { keys.isPartitioned ? keyMaker.user(inKey: keys.own) : 0 }

    /// Records that the upstream refused a request's credentials, if this stored response belongs to their user.
    /// - Parameters:
    ///   - isCertain: false if a failing gateway may have sent the response. It then counts only if another user got a good response within
    ///     the window.
    ///   - now: milliseconds of the monotonic clock.
    /// - Returns: whether it was recorded.
    public func noteRefused(_ head: RequestHead, beside found: FoundResponse, at keys: TargetKeys, isCertain: Bool, now: Int64) -> Bool {
        let user = userOwning(found, keys)
        guard user != 0, isCertain || state.surprises.isGood(besides: user, now: now) else { return false }
        state.surprises.noteRefused(found.key, keyMaker.credentialsNumber(of: head))
        return true
    }

    /// Records a 401 to a request without known credentials, for its target. The URL or an unknown field may contain them.
    public func noteRefusedTarget(_ keys: TargetKeys) { state.surprises.noteRefusedTarget(keys.own) }

    /// Whether the upstream has refused a request's credentials, or its target, since the last good response to the refused request.
    public func hasRefused(_ head: RequestHead, at keys: TargetKeys?) -> Bool {
        if let keys, !keys.isPartitioned { return state.surprises.hasRefusedTarget(keys.own) }
        return state.surprises.hasRefused(keyMaker.credentialsNumber(of: head))
    }

    /// Returns a number for the user to whom a stored response belongs; 0 if it belongs to several.
    private func userOwning(_ found: FoundResponse, _ keys: TargetKeys) -> UInt64 {
        keys.isPartitioned && !keys.isCommon(found.key) ? keyMaker.user(inKey: keys.own) : 0
    }

    private static func accepted(by request: Fields) -> UInt64 {
        let accept = request.combined(.accept) ?? []
        return ContentHash.number(of: accept.span)
    }

    // MARK: Gone resources

    /// Returns whether a response, once complete, may be stored as a statement that the resource is gone. Its request must be like the one
    /// that fetched the stored response; other requests are no evidence.
    /// - Parameter decision: a response that is stored normally is not handled here.
    public func saysGone(_ response: ResponseHead, _ decision: StorageDecision, for request: StorableExchange) -> Bool {
        guard gone != nil, decision != .allowed, request.head.method == .get, let found = request.found,
            !request.keys.isCommon(found.key), !found.metadata.isNegative,
            found.metadata.likeness == likeness(of: request.head, request.keys)
        else { return false }
        return Self.saysGone(response, instead: found) || takesRights(response, from: request, found)
    }

    /// Returns whether the response states that the resource is gone. A 404 that is not JSON may come from a proxy. Without a
    /// Content-Type, the content must still be JSON if the stored response is JSON.
    static func saysGone(_ response: ResponseHead, instead found: FoundResponse) -> Bool {
        switch response.status {
        case 404: return MediaType.isJSON(response.fields, orElse: found.metadata.flags.contains(.isJSON))
        case 410: return true
        default: return false
        }
    }

    /// Returns whether a 403 revokes a user's access. A 403 from a rate limit is temporary, and one without credentials may come from a
    /// firewall.
    private func takesRights(_ response: ResponseHead, from request: StorableExchange, _ found: FoundResponse) -> Bool {
        response.status == 403 && MediaType.isJSON(response.fields, orElse: found.metadata.flags.contains(.isJSON))
            && request.keys.isPartitioned
            && UserCredentials.arePresent(in: request.head.fields, settings: policy(for: request.head).settings)
            && !response.fields.contains(.retryAfter) && !RateLimit.isExhausted(response.fields)
    }

    /// Stores a complete response as a statement that the resource is gone, if it states that and may be stored.
    /// - Returns: whether the response was stored.
    public func rememberGone(_ response: WholeResponse, for request: StorableExchange, at time: CacheTime) -> Bool {
        // The response to one value of a changing field does not count for the others.
        guard let gone, request.isUserUnchanged, let found = request.found, request.keys.unknownFields?.changing.isEmpty ?? true,
            ContentCoding(response.head.fields) == .identity || response.isDecoded,
            !isMarkedNow(Self.invalidationKey(request.keys.credentialFree), since: response.recency.requestTime),
            !isOutdated(response.recency, at: [found.key])
        else { return false }
        // A response that must not be stored is not stored as a gone record either.
        var policy = policy(for: request.head).settings
        policy.keepsAny = true
        var head = response.head
        head.status = 404
        let decision = Storing.decide(
            head, response.control, to: storable(request.head, request.directives, isPartitioned: request.keys.isPartitioned),
            settings: policy)
        guard decision == .allowed, let item = gone.remember(make(response, for: request), beside: found.key) else { return false }
        // Evidence of a failing gateway does not apply here: a gateway that lost its routes does not send 410, and an imported 404 is
        // intended.
        if response.head.status == 404, !response.recency.isImported {
            state.surprises.attach(item, to: found.key, now: time.monotonic)
        }
        return true
    }
}
