// Rescues a request with credentials, but without a stored response, by a response stored without credentials (`SharedRescue`). Also
// records clients' cookies for that purpose (`CookieOrigins`).

import CachePolicy
import CacheStore
import HTTPCore

/// A stored response without credentials that may serve as a rescue.
public struct FoundSharedRescue {
    public let found: FoundResponse
    public let age: Int64
    public let ttl: Int64?
    public let permission: SharedRescuePermission
}

public enum SharedRescueResult {
    case found(FoundSharedRescue)
    case forbidden(NoSharedRescueReason)
    /// No response is stored, or it may not be served at all.
    case nothing
}

extension ResponseCache {
    /// - Parameters:
    ///   - keys: the request's own keys.
    ///   - setting: setting of the request's route.
    public func sharedRescue(
        for head: RequestHead, at keys: TargetKeys, _ directives: RequestCacheControl, _ setting: SharedRescueMode, now: Timestamp
    ) throws(NotInMemory) -> SharedRescueResult {
        let keysOfAll = keys.at(keys.credentialFree)
        if let former = keys.former, let copy = try formerUsersCopy(head, at: former, keys, directives, now: now) {
            return .found(copy)
        }
        guard head.method.isRead, let found = try findExact(head, at: keysOfAll).found,
            case .allowed(let age, let ttl) = rescue(found, head, directives, now: now)
        else { return .nothing }
        guard try gone(beside: found) == nil else { return .forbidden(.gone) }
        let decision = SharedRescue.decide(
            setting, stored: found.metadata, varies: variesByCredentials(found, head),
            hasOwnCookies: setting == .own ? try hasOwnCookies(head, for: found) : false, strictness: strictness)
        switch decision {
        case .forbidden(let reason): return .forbidden(reason)
        case .allowed(let permission): return .found(FoundSharedRescue(found: found, age: age, ttl: ttl, permission: permission))
        }
    }

    /// Returns the response of the user to whom the credentials belonged until recently.
    private func formerUsersCopy(
        _ head: RequestHead, at former: FormerKey, _ keys: TargetKeys, _ directives: RequestCacheControl, now: Timestamp
    ) throws(NotInMemory) -> FoundSharedRescue? {
        guard head.method.isRead, let found = try findExact(head, at: keys.at(former.key)).found,
            try gone(beside: found) == nil,
            case .allowed(let age, let ttl) = rescue(found, head, directives, now: now)
        else { return nil }
        return FoundSharedRescue(found: found, age: age, ttl: ttl, permission: former.permission)
    }

    /// Whether a stored response may be served to a request because the upstream fails.
    public func mayRescue(_ found: FoundResponse, _ head: RequestHead, _ directives: RequestCacheControl, now: Timestamp) -> Bool {
        if case .allowed = rescue(found, head, directives, now: now) { true } else { false }
    }

    private func rescue(_ found: FoundResponse, _ head: RequestHead, _ directives: RequestCacheControl, now: Timestamp) -> RescueDecision {
        Reuse.rescue(found.metadata, directives, strictness: strictness, staleFor: policy(for: head).settings.freshness.staleFor, now: now)
    }

    private func variesByCredentials(_ found: FoundResponse, _ head: RequestHead) -> Bool {
        guard let fields = StoredHead.parse(found.head.span)?.fields else { return true }
        return SelectingFields.varied(fields).contains { member in
            settings.policy.credentials.names.contains(member) && !head.fields.all(named: member.span).isEmpty
        }
    }

    private func hasOwnCookies(_ head: RequestHead, for found: FoundResponse) throws(NotInMemory) -> Bool {
        guard let origins = state.cookieOrigins, !keyMaker.hasOtherCredentials(head.fields),
            let cookies = keyMaker.cookiePartition(of: head.fields)
        else { return false }
        let target = targetKey(head)
        return try origins.contains(
            cookies, target: found.metadata.isForAll ? target : Self.number(of: found.metadata, found.head.span, for: target), in: self)
    }

    /// Distinguishes a response from others of its target. An upstream's entity tag may be equal for different data of two sessions.
    private static func number(of metadata: StoredMetadata, _ head: Span<UInt8>, for target: [UInt8]) -> [UInt8] {
        var number = target
        if metadata.flags.contains(.ownTag) {
            number.append(copying: head.extracting(metadata.etag))
        } else {
            number.append(littleEndian: metadata.order.number)
        }
        return number
    }

    /// The target's key, regardless of No-Vary-Search.
    private func targetKey(_ head: RequestHead) -> [UInt8] { credentialFreeKey(of: head.pathAndQuery, for: head) }

    // MARK: Recording cookies

    /// Suspends the record of a request's cookies while a request is active that may be a login; nil if it is none, or has no cookies.
    /// - Parameter isReading: whether the request is safe and uses the store.
    public func beginLogin(with head: RequestHead, isReading: Bool) -> CookieLogin? {
        guard let origins = state.cookieOrigins, head.fields.contains(.cookie),
            !isReading || keyMaker.hasOtherCredentials(head.fields),
            let cookies = keyMaker.cookiePartition(of: head.fields)
        else { return nil }
        return CookieLogin(cookies, in: origins)
    }

    /// Records cookies after a response was stored or has confirmed a stored one.
    /// - Parameters:
    ///   - metadata: metadata of the stored response.
    ///   - storedHead: its head.
    func noteCookies(
        setBy response: Fields, to head: RequestHead, storedAs metadata: StoredMetadata, _ storedHead: Span<UInt8>, at time: CacheTime
    ) {
        guard let origins = state.cookieOrigins, let change = cookieChange(by: response, to: head, now: time.wall) else { return }
        if let sent = change.sent {
            origins.remember(change.given, after: sent, now: time.monotonic)
        } else {
            let target = targetKey(head)
            origins.remember(
                change.given, targets: [target, Self.number(of: metadata, storedHead, for: target)], now: time.monotonic)
        }
    }

    /// Returns the keys of the records that `noteCookies(setBy:to:storedAs:_:at:)` reads.
    func cookieKeys(setBy response: Fields, to head: RequestHead, now: Timestamp) -> [[UInt8]] {
        guard let origins = state.cookieOrigins, let change = cookieChange(by: response, to: head, now: now) else { return [] }
        return ([change.given] + (change.sent.map { [$0] } ?? [])).map(origins.key)
    }

    /// Returns the partitions of the cookies that the client sent (nil if none), and of the cookies that it has after this response.
    private func cookieChange(by response: Fields, to head: RequestHead, now: Timestamp) -> (sent: [UInt8]?, given: [UInt8])? {
        guard state.cookieOrigins != nil, head.method.isRead,
            let cookies = keyMaker.cookies, !keyMaker.hasOtherCredentials(head.fields), !head.fields.contains(.authorization),
            let sent = cookies.pairs(of: head.fields)
        else { return nil }
        let path = head.pathAndQuery.withoutQuery
        guard let given = ClientCookies.after(sent, response, path: path, now: now.seconds, cookies), !given.isEmpty else { return nil }
        return (sent.isEmpty ? nil : keyMaker.partition(of: sent), keyMaker.partition(of: given))
    }
}
