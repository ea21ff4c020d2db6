// What the cache makes of unexpected responses for what there is a copy of (`SurpriseMemory`), and of those that say that it is gone (`GoneMemory`).

import CachePolicy
import CacheStore
import HTTPCore
import Hashing

extension ResponseCache {
    /// The response that came after this copy and says that it is gone.
    public func gone(beside found: FoundResponse) throws(NotAtHand) -> FoundResponse? {
        guard gone != nil, let gone = GoneMemory.gone(in: try item(GoneMemory.key(found.key)), found.key),
            !found.metadata.recency.isLater(than: gone.metadata.recency)
        else { return nil }
        return gone
    }

    // MARK: Unexpected responses

    /// Whether the copy goes out instead of an unexpected response, since a gateway fails in this way for many targets.
    /// - Parameter witness: a number for the client's address.
    public func isReplaced(_ surprise: Surprise, insteadOf found: FoundResponse, by witness: UInt64, at time: CacheTime) -> Bool {
        if gone == nil, surprise == .notFound || surprise == .forbidden { return false }
        let (isReplaced, notes) = shared.surprises.odd(surprise, found.key, by: witness, now: time.monotonic)
        for note in notes { gone?.lift(note) }
        if isReplaced, surprise == .notFound { gone?.count(.disbelieved) }
        return isReplaced
    }

    /// Whether a response of another type than the copy is a representation of its own, for requests with this Accept field.
    public func isOtherForm(of found: FoundResponse, for head: RequestHead, at time: CacheTime) -> Bool {
        shared.surprises.isOtherForm(found.key, accept: Self.accepted(by: head.fields), now: time.monotonic)
    }

    /// The upstream has failed for what was found.
    public func noteFailed(_ found: FoundResponse, at time: CacheTime) { shared.surprises.failed(found.key, now: time.monotonic) }

    /// The upstream has what was found: what said that it is gone counts no more.
    public func notePresent(
        _ found: FoundResponse, _ response: ResponseHead, _ recency: Recency, for head: RequestHead, by witness: UInt64, at time: CacheTime
    ) {
        let copy = LastGood.Copy(found.metadata, head: found.head, beside: response)
        let accept = LastGood.isOfOtherType(response, than: copy) ? nil : Self.accepted(by: head.fields)
        shared.surprises.found(found.key, accept: accept, by: witness, now: time.monotonic)
        gone?.lift(found.key, by: recency)
    }

    private static func accepted(by request: Fields) -> UInt64 {
        (request.combined(.accept) ?? []).withUnsafeBytes { ContentHash.number(of: $0) }
    }

    // MARK: What is gone

    /// A number for what a request says beyond its target and its credentials: two requests with one number are equal. Never 0.
    /// - Parameter isForAll: whether the response applies to requests with any unknown fields.
    static func likeness(of request: PlacedRequest, isForAll: Bool = false) -> UInt64 {
        likeness(of: request.head.fields, request.keys, isForAll: isForAll)
    }

    static func likeness(of request: Fields, _ keys: TargetKeys, isForAll: Bool) -> UInt64 {
        let bytes = RequestLikeness.bytes(of: request, unknownFieldsHash: isForAll ? 0 : keys.unknownFieldsHash)
        return max(1, bytes.withUnsafeBytes { ContentHash.number(of: $0) })
    }

    /// Whether a response may be remembered as saying that what was found is gone, once it is whole. It must have come to a request that equals the one
    /// that made the copy: what another request got says nothing of this copy.
    /// - Parameter decision: where it is stored as any other response, that is what counts.
    public func saysGone(_ response: ResponseHead, _ decision: StorageDecision, for request: PlacedRequest) -> Bool {
        guard gone != nil, decision != .allowed, request.head.method == .get, let found = request.found,
            !request.keys.isCommon(found.key), !found.metadata.isNegative,
            found.metadata.likeness == Self.likeness(of: request)
        else { return false }
        return Self.saysGone(response, instead: found) || takesRights(response, from: request, found)
    }

    /// Without JSON a 404 may be a proxy's. Without a type it must still be JSON where the copy is.
    static func saysGone(_ response: ResponseHead, instead found: FoundResponse) -> Bool {
        switch response.status {
        case 404: return MediaType.isJSON(response.fields, orElse: found.metadata.flags.contains(.isJSON))
        case 410: return true
        default: return false
        }
    }

    /// A 403 that takes a user's rights away. One that comes from a limit passes by itself, and one without credentials may be a firewall's.
    private func takesRights(_ response: ResponseHead, from request: PlacedRequest, _ found: FoundResponse) -> Bool {
        response.status == 403 && MediaType.isJSON(response.fields, orElse: found.metadata.flags.contains(.isJSON))
            && request.keys.isPartitioned
            && UserCredentials.arePresent(in: request.head.fields, settings: policy(for: request.head).settings)
            && !response.fields.contains(.retryAfter) && !RateLimit.isExhausted(response.fields)
    }

    /// Remembers that what was found is gone, if the whole response says so and may be kept.
    /// - Returns: whether it did.
    public func rememberGone(_ response: WholeResponse, for request: PlacedRequest, at time: CacheTime) -> Bool {
        guard let gone, request.isUserUnchanged, let found = request.found,
            ContentCoding(response.head.fields) == .identity || response.isDecoded,
            !isMarkedNow(Self.invalidationKey(request.keys.shared), since: response.recency.requestTime),
            !isOutdated(response.recency, at: [found.key])
        else { return false }
        // What must not be kept is not kept for this either, whatever the status.
        var policy = policy(for: request.head).settings
        policy.keepsAny = true
        var head = response.head
        head.status = 404
        let decision = Storing.decide(
            head, response.control, to: storable(request.head, request.directives, isPartitioned: request.keys.isPartitioned),
            settings: policy)
        guard decision == .allowed, let item = gone.remember(make(response, for: request), beside: found.key) else { return false }
        // A gateway that has lost its routes sends no 410, and whoever imports a 404 means it.
        if response.head.status == 404, !response.recency.isImported {
            shared.surprises.attach(item, to: found.key, now: time.monotonic)
        }
        return true
    }
}
