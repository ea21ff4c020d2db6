// Stores archived responses by the rules for fetched ones. The result equals that of a fetch: key, flags and entity tag. A response which
// states that the resource is gone is stored next to the existing one.

import CachePolicy
import CacheStore
import HTTPCore

/// A response from an archive, with its request.
public struct ArchivedResponse: Sendable {
    public let request: RequestHead
    /// Without hop-by-hop fields.
    public let response: ResponseHead
    public let content: [UInt8]
    /// Whether the upstream had coded the content; archives contain decoded content.
    public let isDecoded: Bool
    public let requestTime: Timestamp
    public let responseTime: Timestamp
    /// Fields that gave credentials to the recorded client. They affect how the response is stored, but only `response` is stored. Their
    /// values may be redacted.
    public var credentials = Fields()
    /// Properties that the fields do not contain, if a cache wrote the archive.
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
    /// The request had Authorization, and a directive permitted storing the response for all users (RFC 9111 §3.5).
    public var isAuthorized = false
    /// The response counted as stale, whatever its fields say.
    public var isStale = false
    /// The response gave a credential to a client without one (`StoredFlags.startsSession`).
    public var startsSession = false
    /// The response may contain secrets (`StoredFlags.isOpen` was absent).
    public var isConcealed = false

    public init() {}
}

public enum ImportResult: Sendable, Equatable {
    case stored
    /// The response states that the resource is gone, and was stored next to the existing one.
    case rememberedAsGone
    case notStored(NotStoredReason)
    case olderThanStored
    /// A write has changed the resource since the response was archived.
    case invalidated
}

extension ResponseCache {
    /// Stores an archived response. May wait for the disk.
    /// - Parameters:
    ///   - good: `good` of the route.
    ///   - flaw: why the content is not stored; nil if it may be.
    ///   - ownTag: entity tag computed from the content, for a response without a validator; nil if there is none.
    public func importArchived(
        _ archived: ArchivedResponse, good: GoodResponse, flaw: NotStoredReason?, ownTag: [UInt8]?, isLenient: Bool = false,
        at time: CacheTime
    ) -> ImportResult {
        let head = archived.request
        let keys = keysOfGet(for: head)
        let control = control(archived.response)
        // An unsuccessful response may be stored next to a successful one.
        let found = archived.response.status.isSuccessful ? nil : findWaiting(head, from: keys)
        var decision = decideStoring(archived.response, for: StorableExchange(head, keys: keys, found: found), good: good)
        let hasCookie = archived.credentials.contains(.setCookie) || archived.origin.startsSession
        if decision == .allowed, hasCookie, settings.policy.setCookie == .refuse { decision = .forbidden(.setCookie) }
        let recency = Recency(
            order: state.sent.next(), isImported: true, requestTime: min(archived.requestTime, time.wall),
            responseTime: archived.responseTime)
        var whole = WholeResponse(
            archived.response, control, archived.content, isDecoded: archived.isDecoded, ownTag: ownTag, recency)
        whole.isLenient = isLenient
        (whole.recordedCredentials, whole.origin) = (archived.credentials, archived.origin)
        if case .forbidden(let reason) = decision {
            let isGone = rememberGone(whole, to: head, keys, isFaulty: flaw != nil, at: time)
            return isGone ? .rememberedAsGone : .notStored(reason)
        }
        guard archived.content.count <= settings.contentLimitBytes else { return .notStored(.tooLarge) }
        if let flaw { return .notStored(flaw) }
        let isForOne = !settings.policy.isPrivate && settings.credentials.specialRules(for: head)?.areIgnored != true
        if archived.origin.isAuthorized, isForOne, !Storing.mayShare(control) {
            return .notStored(.authorized)
        }
        let result = store(whole, for: StorableExchange(head, keys: keys, found: nil), at: time).result
        switch (result, result.decision) {
        case (.outdated, _): return .olderThanStored
        case (.invalidated, _): return .invalidated
        case (_, .forbidden(let reason)): return .notStored(reason)
        case (_, .allowed):
            if archived.origin.isStale, let found = findWaiting(head, from: keys) { _ = store.markStale(store.id(of: found.key)) }
            return .stored
        }
    }

    private func findWaiting(_ head: RequestHead, from keys: TargetKeys) -> FoundResponse? {
        (try? waiting { () throws(NotInMemory) in try find(head, from: keys) })?.result.found
    }

    /// Stores a record that a resource is gone. Many such archived responses are no evidence of a failing gateway, because the import is
    /// intended.
    private func rememberGone(
        _ response: WholeResponse, to head: RequestHead, _ keys: TargetKeys, isFaulty: Bool, at time: CacheTime
    ) -> Bool {
        guard let found = findWaiting(head, from: keys), Self.saysGone(response.head, instead: found),
            response.head.status == 410 || !isFaulty
        else { return false }
        return rememberGone(response, for: StorableExchange(head, keys: keys, found: found), at: time)
    }
}
