// Applies a 304, or a response to HEAD, to a stored response: it is updated, marked stale, or left unchanged (RFC 9111 §§ 4.3.4, 4.3.5).

import CachePolicy
import CacheStore
import Forwarding
import HTTPCore
import Identity

/// A stored response that the upstream has confirmed, with its updated head.
public struct Confirmation {
    public let found: FoundResponse
    public let head: [UInt8]
    public let metadata: StoredMetadata
    /// Set-Cookie and other credentials of the 304, for the client that caused it.
    public let credentials: Fields
    /// Value of Cistern-Stale in the 304; nil if the upstream is no Cistern, or was asked itself.
    public let stale: ArraySlice<UInt8>?

    public init(
        found: FoundResponse, head: [UInt8], metadata: StoredMetadata, credentials: Fields = Fields(), stale: ArraySlice<UInt8>? = nil
    ) {
        (self.found, self.head, self.metadata, self.credentials, self.stale) = (found, head, metadata, credentials, stale)
    }
}

/// Result of storing a confirmed response.
public enum ConfirmationResult: Sendable, Equatable {
    /// The update was stored, or its time was recorded. Also returned if the store did not accept the update: a write or a purge followed
    /// the request (`invalidated`), or the update was too large or refused.
    case stored
    /// Another response has been stored since.
    case outdated
    /// The response must no longer be stored for other requests.
    case unshareable
}

extension ResponseCache {
    /// Applies a 304 to the response found for its request.
    /// - Parameters:
    ///   - response: the 304.
    ///   - recency: recency of the updated response.
    /// - Returns: the updated response, for the client of this request; the result for the store, which may hold another response by
    ///   now; and whether only the time of that response was recorded. nil if the 304 does not apply to the response that was found.
    public func confirm(
        by response: ResponseHead, for request: StorableExchange, _ recency: Recency, at time: CacheTime
    ) -> (confirmation: Confirmation, result: ConfirmationResult, changedNothing: Bool)? {
        guard let found = request.found, let fresh = freshened(found, by: response, recency, for: request.head) else { return nil }
        let (result, changedNothing) = storeConfirmed(found, fresh, by: response, for: request, recency, now: time.wall)
        if result == .stored, response.fields.contains(.setCookie) {
            noteCookies(setBy: response.fields, to: request.head, storedAs: fresh.metadata, fresh.bytes.span, at: time)
        }
        let credentials = ResponseCredentials.all(in: response.fields)
        let stale = StaleField.ofUpstream(response.fields)
        let confirmation = Confirmation(found: found, head: fresh.bytes, metadata: fresh.metadata, credentials: credentials, stale: stale)
        return (confirmation, result, changedNothing)
    }

    /// - Parameter head: the head of `found` after the 304.
    private func storeConfirmed(
        _ found: FoundResponse, _ head: FreshHead, by response: ResponseHead, for request: StorableExchange, _ recency: Recency,
        now: Timestamp
    ) -> (result: ConfirmationResult, changedNothing: Bool) {
        guard request.isUserUnchanged else { return (.unshareable, false) }
        guard let base = base(of: found, confirmedBy: response, recency, for: request) else { return (.outdated, false) }
        let isUnchanged = base.metadata.order == found.metadata.order && base.metadata.flags == found.metadata.flags
        let isFound = isUnchanged && base.key == found.key && base.head.elementsEqual(found.head)
        guard let fresh = isFound ? head : freshened(base, by: response, recency, for: request.head),
            keep(base, as: fresh, response, for: request, now: now)
        else { return (.unshareable, false) }
        if let change = recordChange(fresh.metadata, fresh.bytes, confirming: base) { return (.stored, isFound && change == .times) }
        return (write(base, fresh, for: request, recency, now: now) == .outdated ? .outdated : .stored, false)
    }

    /// Compares a response to HEAD with the response to GET that is stored now, and updates it, unless that was requested later.
    public func update(by response: ResponseHead, for request: StorableExchange, _ recency: Recency, now: Timestamp) {
        guard request.isUserUnchanged, let base = findWaiting(request.head, at: request.keys).found,
            !recency.isOutdated(by: base.metadata.recency)
        else { return }
        let contentBytes = base.contentBytes
        switch Validation.update(base.metadata, head: base.head.span, by: response, contentBytes: contentBytes, strictness: strictness) {
        case .nothing: break
        case .freshen:
            guard let fresh = freshened(base, by: response, recency, for: request.head),
                keep(base, as: fresh, response, for: request, now: now)
            else { return }
            guard recordChange(fresh.metadata, fresh.bytes, confirming: base) == nil else { return }
            _ = write(base, fresh, for: request, recency, now: now)
        case .stale:
            guard base.metadata.freshnessLifetime ?? 0 > 0 else { return }
            // A response imported while the HEAD request was in flight has the later order.
            let stored = base.metadata.order
            let order = stored.follows(recency.order) ? stored : recency.order
            guard let head = StoredHead.parse(base.head.span) else { return }
            let stale = FreshHead(bytes: Array(base.head), metadata: base.metadata.stale(since: order), response: head)
            _ = write(base, stale, for: request, recency, now: now)
        }
    }

    /// Determines the response that a 304 confirms. That is the response found for its request. It is the response stored since, if the
    /// 304 was requested later and matches that one. If the 304 matches a response that was replaced meanwhile, it does not restore that
    /// response. Both came from the upstream at about one time, so the stored one is marked stale and the next request validates it.
    /// - Returns: the response to update; nil if the 304 comes too late.
    private func base(
        of found: FoundResponse, confirmedBy response: ResponseHead, _ recency: Recency, for request: StorableExchange
    ) -> FoundResponse? {
        guard let current = findWaiting(request.head, at: request.keys).found else {
            // An evicted response is stored again. A response that no longer matches this request was replaced.
            let own = (found.metadata.flags.contains(.forAllFields) ? request.keys.forAllFields : request.keys).own
            return store.see(own.span).item == nil ? found : nil
        }
        guard current.metadata.order != found.metadata.order else { return current }
        guard !recency.isOutdated(by: current.metadata.recency) else { return nil }
        guard Validation.areOfOneVersion(found.metadata, head: found.head.span, current.metadata, head: current.head.span),
            Validation.applies(response, to: current.metadata, head: current.head.span, strictness: strictness)
        else {
            _ = store.markStale(store.id(of: current.key))
            return nil
        }
        return current
    }

    /// Returns the stored head with the fields of the response.
    private func freshened(
        _ found: FoundResponse, by response: ResponseHead, _ recency: Recency, for head: RequestHead
    ) -> FreshHead? {
        var response = references.keeping(response)
        // Via of the 304 replaces the stored one, so Cistern's entry must be added again.
        if response.fields.contains(.via), let via = via(of: response) { response.fields.append(.via, via) }
        let fresh = Validation.freshened(
            found.metadata, head: found.head.span, contentBytes: found.contentBytes, by: response, recency,
            settings: policy(for: head).settings)
        guard let fresh, let parsed = StoredHead.parse(fresh.bytes.span) else { return nil }
        return FreshHead(bytes: fresh.bytes, metadata: fresh.metadata, response: parsed)
    }

    /// Marks a fresh stored response as stale if the response forbids storing. It remains for rescues. A request's own no-store, or its
    /// credentials, do not affect other clients.
    /// - Returns: whether the updated form may be stored.
    private func keep(
        _ base: FoundResponse, as fresh: FreshHead, _ response: ResponseHead, for request: StorableExchange, now: Timestamp
    ) -> Bool {
        if mayKeep(fresh, response, for: request) { return true }
        let control = control(response)
        if control.noStore || control.isPrivate, Reuse.isFresh(base.metadata, now: now) { _ = store.markStale(store.id(of: base.key)) }
        return false
    }

    /// Returns whether an updated response may still be stored (§3): it may have become private, or no-store.
    /// - Parameter response: the 304 or the response to HEAD itself. It contains fields that the stored head omits.
    private func mayKeep(_ fresh: FreshHead, _ response: ResponseHead, for request: StorableExchange) -> Bool {
        if settings.policy.setCookie == .refuse, response.fields.contains(.setCookie) { return false }
        guard !fresh.metadata.flags.contains(.authorized) || mayShare(fresh.response, for: request) else { return false }
        let own = request.head
        let get = own.method == .head ? RequestHead(method: .get, target: own.target, version: own.version, fields: own.fields) : own
        return decideStoring(fresh.response, for: StorableExchange(get, request.directives, keys: request.keys, found: nil)) == .allowed
    }

    /// Returns whether a response to a request with Authorization may still be shared.
    private func mayShare(_ response: ResponseHead, for request: StorableExchange) -> Bool {
        let control = control(response)
        return request.keys.common == nil ? Storing.mayShare(control) : sharing(of: response.fields, control, to: request.head) != .own
    }

    // MARK: Writing

    /// An updated head with its metadata.
    private struct FreshHead {
        let bytes: [UInt8]
        let metadata: StoredMetadata
        /// `bytes`, parsed once.
        let response: ResponseHead
    }

    /// Stores the content with an updated head, if it is still the stored response.
    private func write(
        _ base: FoundResponse, _ fresh: FreshHead, for request: StorableExchange, _ recency: Recency, now: Timestamp
    ) -> StoringResult {
        let fields = fresh.response.fields
        var metadata = fresh.metadata
        // A response stored under a key with unknown fields stays there.
        if request.keys.unknownFields != nil, !base.metadata.flags.contains(.forAllFields) { metadata.flags.remove(.forAllFields) }
        let isForAll = metadata.flags.contains(.forAllFields)
        let isCommon = request.keys.isCommon(base.key)
        let fitting = isForAll ? request.keys.forAllFields : request.keys
        let keys = isCommon ? fitting.inCommon : fitting
        guard
            var location = location(
                fields, of: request.head, lookedUpAt: request.keys, isForAll: isForAll, isCommon: isCommon, metadata.recency, now: now)
        else { return .outdated }
        location.identity = isCommon ? nil : request.identity
        // The response no longer serves all requests; from now on it serves requests with these unknown fields.
        let movesAway = request.keys.unknownFields != nil && !isForAll && base.metadata.flags.contains(.forAllFields)
        // The 304 may have changed Vary.
        let isForAllUsers = settings.credentials.specialRules(for: request.head)?.areIgnored ?? false
        let names = policy(for: request.head).selectingNames(fields, of: request.head, isForAll: isForAllUsers)
        if names.isEmpty, location.key == keys.own, !movesAway { location.key = base.key }
        let new = NewResponse(
            head: fresh.bytes, metadata: metadata, body: .stored(base.item.body, base.item.form, owner: base.item.owner),
            wantedCoding: wantedCoding(of: base, metadata, fields, for: request.head),
            names: names,
            request: request.head.fields, sentAt: recency.requestTime)
        return put(new, at: location, replacing: base)
    }

    /// Records the time of a confirmation in memory. Returns false if that is not sufficient.
    private func note(_ found: FoundResponse, _ fresh: StoredMetadata) -> Bool {
        guard let note = ConfirmationNote.encode(written: found.writtenMetadata, fresh: fresh),
            fresh.date == found.writtenMetadata.date || StoredHead.rangeOfDate(in: found.head.span) != nil
        else { return false }
        let key = found.key
        return store.setNote(note, of: key.span, ifStill: found.written)
    }

    /// Records the time of a response that repeats the fields and data of an earlier one, which changed only the times.
    /// - Parameter fresh: the stored metadata with the times of the response.
    /// - Returns: false if the store must be updated.
    public func record(_ fresh: StoredMetadata, of found: FoundResponse) -> Bool {
        mayWait(.times, fresh, confirming: found) && note(found, fresh)
    }

    /// Records only the time of a confirmation, if that is sufficient.
    /// - Returns: what the confirmation changes; nil if it must be written.
    private func recordChange(_ fresh: StoredMetadata, _ head: [UInt8], confirming found: FoundResponse) -> ConfirmationChange? {
        let change = ConfirmationChange(from: found.metadata, found.head.span, to: fresh, head.span, strictness: strictness)
        return mayWait(change, fresh, confirming: found) && note(found, fresh) ? change : nil
    }

    /// Returns whether a confirmation need not be written at once. A response that is validated before each use may keep fields of its
    /// former confirmation for `store.confirm_interval`, because clients receive the new ones. Other nodes see only what is written.
    private func mayWait(_ change: ConfirmationChange, _ fresh: StoredMetadata, confirming found: FoundResponse) -> Bool {
        // The clock was set back.
        guard fresh.requestTime >= found.metadata.requestTime else { return false }
        let interval = Int64(store.settings.noteMilliseconds)
        let lifetime = fresh.freshnessLifetime ?? 0
        switch change {
        case .rules: return false
        case .times where settings.fleet == nil: return lifetime < interval / 1000
        case .times, .fields:
            let age = fresh.responseTime.milliseconds - found.writtenMetadata.responseTime.milliseconds
            return lifetime <= 0 && age < interval
        }
    }

    // MARK: Equal data

    /// Records the time of a complete response that has the data of the response that was found, which is still stored and would have the
    /// same key.
    /// - Returns: what the response changes; nil if it must be stored.
    func recordEqualData(_ new: NewResponse, _ response: WholeResponse, beside found: FoundResponse?) -> ConfirmationChange? {
        guard let found, response.ownTag != nil, Self.isSameData(new, found) else { return nil }
        return recordChange(new.metadata, new.head, confirming: found)
    }

    /// Compares data, because different bytes may encode equal JSON.
    static func isSameData(_ new: NewResponse, _ found: FoundResponse) -> Bool {
        found.metadata.flags.contains(.ownTag) && new.head[new.metadata.etag].elementsEqual(found.head[found.metadata.etag])
    }
}
