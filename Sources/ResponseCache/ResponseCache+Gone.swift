// What the cache makes of a 404 or 410 for what there is a copy of (`GoneMemory`).

import CachePolicy
import CacheStore
import HTTPCore

extension ResponseCache {
    /// The response that came after this copy and says that it is gone.
    public func gone(beside found: FoundResponse) throws(NotAtHand) -> FoundResponse? {
        guard gone != nil, let gone = GoneMemory.gone(in: try item(GoneMemory.key(found.key)), found.key),
            !found.metadata.recency.isLater(than: gone.metadata.recency)
        else { return nil }
        return gone
    }

    /// - Parameters:
    ///   - decision: where it is stored as any other response, that is what counts.
    ///   - user: a number for the one who has asked.
    public func judgeGone(
        _ response: ResponseHead, _ decision: StorageDecision, for request: PlacedRequest, by user: UInt64, at time: CacheTime
    ) -> GoneJudgement {
        // What one user's request got says nothing of the copy that others have in common.
        guard let gone, request.head.method == .get, let found = request.found, !request.keys.isCommon(found.key),
            !found.metadata.isNegative
        else { return .nothing }
        if response.status == 404, gone.missing(found.key, by: user, now: time.monotonic) == .routesLost { return .routesLost }
        return decision != .allowed && Self.saysGone(response, instead: found) ? .candidate : .nothing
    }

    /// Whether a response says that what is stored is gone: without JSON a 404 may be a proxy's. Without a type it must still be JSON where the
    /// copy is.
    static func saysGone(_ response: ResponseHead, instead found: FoundResponse) -> Bool {
        switch response.status {
        case 404: return MediaType.isJSON(response.fields, orElse: found.metadata.flags.contains(.isJSON))
        case 410: return true
        default: return false
        }
    }

    /// A redirect to elsewhere, or no content, came instead of what was found.
    /// - Returns: whether that has been so for so long that the upstream means it.
    public func isMeant(insteadOf found: FoundResponse, at time: CacheTime) -> Bool {
        gone?.changed(found.key, now: time.monotonic) ?? false
    }

    /// The upstream has failed at what was found.
    public func noteFailed(_ found: FoundResponse) { gone?.failed(found.key) }

    /// The upstream has what was found: what said that it is gone counts no more.
    public func notePresent(_ found: FoundResponse, _ recency: Recency, at time: CacheTime) {
        gone?.found(found.key, recency, now: time.monotonic)
    }

    /// Remembers that what was found is gone, if the whole response says so and may be kept.
    /// - Returns: whether it did.
    public func rememberGone(_ response: WholeResponse, for request: PlacedRequest, at time: CacheTime) -> Bool {
        guard let gone, request.isUserUnchanged, let found = request.found,
            ContentCoding(response.head.fields) == .identity || response.isDecoded,
            !isMarkedNow(Self.invalidationKey(request.keys.shared), since: response.recency.requestTime),
            !isOutdated(response.recency, at: [found.key])
        else { return false }
        // What must not be kept is not kept for this either.
        var policy = policy(for: request.head).settings
        policy.keepsAny = true
        let decision = Storing.decide(
            response.head, response.control,
            to: storable(request.head, request.directives, isPartitioned: request.keys.isPartitioned), settings: policy)
        guard decision == .allowed else { return false }
        return gone.remember(
            make(response, for: request), beside: found.key, isCertain: response.head.status == 410 || response.recency.isImported,
            now: time.monotonic)
    }
}
