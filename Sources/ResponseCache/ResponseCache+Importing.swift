// An archived response comes in by the rules for what the upstream sends now, and is found afterwards as a fetch of it would have left it: in its
// place, with its flags and its tag, and, where it says that there is nothing any more, beside its copy.

import CachePolicy
import CacheStore
import HTTPCore

/// A response that no fetch has brought, with its request.
public struct ArchivedResponse: Sendable {
    public let request: RequestHead
    /// Without hop-by-hop fields.
    public let response: ResponseHead
    public let content: [UInt8]
    /// Whether the upstream had coded the content: archives hold it without its codings.
    public let isDecoded: Bool
    public let requestTime: Timestamp
    public let responseTime: Timestamp
    /// What no field tells, where a cache has written the archive.
    public var origin = ArchiveOrigin()

    public init(
        request: RequestHead, response: ResponseHead, content: [UInt8], isDecoded: Bool, requestTime: Timestamp, responseTime: Timestamp
    ) {
        self.request = request
        self.response = response
        self.content = content
        self.isDecoded = isDecoded
        self.requestTime = requestTime
        self.responseTime = responseTime
    }
}

public struct ArchiveOrigin: Sendable {
    /// Its request had Authorization, and it was kept for everyone by leave of a directive (RFC 9111 §3.5).
    public var isAuthorized = false
    /// It counted as stale, whatever it said itself.
    public var isStale = false

    public init() {}
}

public enum ImportResult: Sendable, Equatable {
    case stored
    /// It says that what is stored is gone, and stands beside it from now on.
    case rememberedAsGone
    case notStored(NotStoredReason)
    case olderThanStored
    /// A write has changed what it is of since it was archived.
    case invalidated
}

extension ResponseCache {
    /// May wait for the disk.
    /// - Parameters:
    ///   - good: what its route calls good.
    ///   - flaw: why its content is not kept.
    ///   - ownTag: the entity tag of its data, where it came without a validator.
    public func take(
        _ archived: ArchivedResponse, good: GoodResponse, flaw: NotStoredReason?, ownTag: [UInt8]?, isLenient: Bool = false,
        at time: CacheTime
    ) -> ImportResult {
        let head = archived.request
        let keys = keysOfGet(for: head)
        let control = control(archived.response)
        // What is no success may lie beside what is.
        let isGood = archived.response.status.isSuccessful
        let found = isGood ? nil : (try? waiting { () throws(NotAtHand) in try find(head, from: keys) })?.result.found
        let decision = decideStoring(archived.response, for: PlacedRequest(head, keys: keys, found: found), good: good)
        let recency = Recency(
            order: shared.sent.take(), isImported: true, requestTime: min(archived.requestTime, time.wall),
            responseTime: archived.responseTime)
        var whole = WholeResponse(
            archived.response, control, archived.content, isDecoded: archived.isDecoded, ownTag: ownTag, recency,
            isAuthorized: archived.origin.isAuthorized)
        whole.isLenient = isLenient
        if case .forbidden(let reason) = decision {
            let isGone = rememberGone(whole, to: head, keys, isFaulty: flaw != nil, at: time)
            return isGone ? .rememberedAsGone : .notStored(reason)
        }
        guard archived.content.count <= settings.contentLimitBytes else { return .notStored(.tooLarge) }
        if let flaw { return .notStored(flaw) }
        let isForOne = !settings.policy.isPrivate && !settings.credentials.areIgnored(for: head)
        if archived.origin.isAuthorized, isForOne, !Storing.mayShare(control) {
            return .notStored(.authorized)
        }
        switch store(whole, for: PlacedRequest(head, keys: keys, found: nil), at: time).result {
        case .stored:
            if archived.origin.isStale { markStale(head, keys) }
            return .stored
        case .outdated: return .olderThanStored
        case .invalidated: return .invalidated
        case .tooLarge: return .notStored(.tooLarge)
        case .refused: return .notStored(.storeRefused)
        }
    }

    private func markStale(_ head: RequestHead, _ keys: TargetKeys) {
        guard let found = (try? waiting { () throws(NotAtHand) in try find(head, from: keys) })?.result.found else { return }
        _ = store.markStale(store.id(of: found.key))
    }

    /// That many are gone says nothing against it, as it would of an upstream now: whoever imports them means it.
    private func rememberGone(
        _ response: WholeResponse, to head: RequestHead, _ keys: TargetKeys, isFaulty: Bool, at time: CacheTime
    ) -> Bool {
        guard let found = (try? waiting { () throws(NotAtHand) in try find(head, from: keys) })?.result.found,
            Self.saysGone(response.head, instead: found), response.head.status == 410 || !isFaulty
        else { return false }
        return rememberGone(response, for: PlacedRequest(head, keys: keys, found: found), at: time)
    }
}
