// What a 304, or a response to HEAD, makes of a stored response: brought up to date, stale, or left alone (RFC 9111 §§ 4.3.4, 4.3.5).

import CachePolicy
import CacheStore
import HTTPCore
import Identity

/// The upstream has said that a stored response still holds: the same with its head brought up to date.
public struct Confirmation {
    public let found: FoundResponse
    public let head: [UInt8]
    public let metadata: StoredMetadata
    /// Those of the 304, for the client that caused it.
    public let cookies: [ArraySlice<UInt8>]
}

/// What became of the stored response that a 304 has confirmed.
public enum ConfirmationResult: Sendable, Equatable {
    /// It is up to date.
    case stored
    /// Something else is stored by now.
    case outdated
    /// It must not be kept for others any more.
    case unshareable
}

extension ResponseCache {
    /// - Parameters:
    ///   - response: the 304.
    ///   - recency: of what it makes of the stored response.
    /// - Returns: what its own client gets: what was found, as that is from now on. Others get what is stored, which may be another by now. nil
    ///   where the 304 does not name what was found.
    public func confirm(
        by response: ResponseHead, for request: PlacedRequest, _ recency: Recency, at time: CacheTime
    ) -> (confirmation: Confirmation, result: ConfirmationResult)? {
        guard let found = request.found, let fresh = freshened(found, by: response, recency, for: request.head) else { return nil }
        let result = storeConfirmed(found, by: response, for: request, recency, now: time.wall)
        if result == .stored { noteCookies(setBy: response.fields, to: request.head, at: time) }
        let cookies = response.fields.all(.setCookie)
        return (Confirmation(found: found, head: fresh.bytes, metadata: fresh.metadata, cookies: cookies), result)
    }

    private func storeConfirmed(
        _ found: FoundResponse, by response: ResponseHead, for request: PlacedRequest, _ recency: Recency, now: Timestamp
    ) -> ConfirmationResult {
        guard request.isUserUnchanged else { return .unshareable }
        guard let base = base(of: found, confirmedBy: response, recency, for: request) else { return .outdated }
        guard let fresh = freshened(base, by: response, recency, for: request.head),
            mayKeep(fresh.bytes, fresh.metadata, response, for: request)
        else { return .unshareable }
        return keep(base, fresh, for: request, recency, now: now) == .outdated ? .outdated : .stored
    }

    /// What a response to HEAD brings, held against the response to GET that is stored now, unless that was asked for later.
    public func update(by response: ResponseHead, for request: PlacedRequest, _ recency: Recency, now: Timestamp) {
        guard request.isUserUnchanged, let base = findWaiting(request.head, at: request.keys).found,
            !recency.isOutdated(by: base.metadata.recency)
        else { return }
        let contentBytes = base.contentBytes
        switch Validation.update(base.metadata, head: base.item.head, by: response, contentBytes: contentBytes, strictness: strictness) {
        case .nothing: break
        case .freshen:
            guard let fresh = freshened(base, by: response, recency, for: request.head),
                mayKeep(fresh.bytes, fresh.metadata, response, for: request)
            else { return }
            _ = keep(base, fresh, for: request, recency, now: now)
        case .stale:
            guard base.metadata.freshnessLifetime ?? 0 > 0 else { return }
            let stale = (bytes: Array(base.item.head), metadata: base.metadata.stale(since: recency.order))
            _ = write(base, stale, for: request, recency, now: now)
        }
    }

    /// What a 304 confirms: what was found when it was asked for, or what has been stored since, where the 304 was asked for later and speaks
    /// of that too. One that speaks of something else than what is stored now never brings that back: both came from the upstream at about the
    /// same time, so nobody knows which of them holds. Then the next request asks.
    /// - Returns: what is brought up to date; nil where the 304 comes too late.
    private func base(
        of found: FoundResponse, confirmedBy response: ResponseHead, _ recency: Recency, for request: PlacedRequest
    ) -> FoundResponse? {
        guard let now = findWaiting(request.head, at: request.keys).found else {
            // What was evicted is stored again. What does not fit this request any more has been replaced.
            let own = (found.metadata.flags.contains(.forAllFields) ? request.keys.forAllFields : request.keys).own
            return store.see(own.span).item == nil ? found : nil
        }
        guard now.metadata.order != found.metadata.order else { return now }
        guard !recency.isOutdated(by: now.metadata.recency) else { return nil }
        guard Validation.areOfOneVersion(found.metadata, head: found.head, now.metadata, head: now.item.head),
            Validation.applies(response, to: now.metadata, head: now.item.head, strictness: strictness)
        else {
            _ = store.markStale(store.id(of: now.key))
            return nil
        }
        return now
    }

    /// The stored head with the response's fields.
    private func freshened(
        _ found: FoundResponse, by response: ResponseHead, _ recency: Recency, for head: RequestHead
    ) -> FreshHead? {
        var response = keepingReferences(response)
        // Its own Via takes the stored one's place, and our entry belongs into it.
        if response.fields.contains(.via), let via = via(of: response) { response.fields.append(.via, via) }
        return Validation.freshened(
            (found.metadata, found.head, found.contentBytes), by: response, recency, settings: policy(for: head).settings)
    }

    /// §3 holds for what a 304 or a HEAD makes of a stored response as for any other: it may be private now, or not to be stored.
    /// - Parameter response: the 304 or the response to HEAD itself: what is left out of the stored head is in it.
    private func mayKeep(_ head: [UInt8], _ metadata: StoredMetadata, _ response: ResponseHead, for request: PlacedRequest) -> Bool {
        if settings.policy.setCookie == .refuse, response.fields.contains(.setCookie) { return false }
        guard let merged = head.withUnsafeBytes({ StoredHead.parse($0) }),
            !metadata.flags.contains(.authorized) || mayShare(merged, for: request)
        else { return false }
        let own = request.head
        let asked = own.method == .head ? RequestHead(method: .get, target: own.target, version: own.version, fields: own.fields) : own
        return decideStoring(merged, for: PlacedRequest(asked, request.directives, keys: request.keys, found: nil)) == .allowed
    }

    /// Whether what was asked for with Authorization may still be others'.
    private func mayShare(_ response: ResponseHead, for request: PlacedRequest) -> Bool {
        let control = control(response)
        return request.keys.common == nil ? Storing.mayShare(control) : sharing(of: response.fields, control, to: request.head) != .own
    }

    // MARK: Writing

    /// How often a confirmation that brings no new freshness is written down; its time is noted in any case.
    private static let confirmationInterval: Int64 = 10_000

    /// A stored head brought up to date, with what the rules know of it.
    private typealias FreshHead = (bytes: [UInt8], metadata: StoredMetadata)

    /// Writes down what has confirmed a stored response, or only notes when it came.
    private func keep(
        _ base: FoundResponse, _ fresh: FreshHead, for request: PlacedRequest, _ recency: Recency, now: Timestamp
    ) -> StoringResult {
        if isKnown(base, fresh.bytes, fresh.metadata), note(base, fresh.metadata) { return .stored }
        return write(base, fresh, for: request, recency, now: now)
    }

    /// Stores the same content with another head, if it is still what is stored.
    private func write(
        _ base: FoundResponse, _ fresh: FreshHead, for request: PlacedRequest, _ recency: Recency, now: Timestamp
    ) -> StoringResult {
        let head = fresh.bytes
        var metadata = fresh.metadata
        // What lies under a key of its own stays there.
        if request.keys.unknownFields != nil, !base.metadata.flags.contains(.forAllFields) { metadata.flags.remove(.forAllFields) }
        let isForAll = metadata.flags.contains(.forAllFields)
        guard let fields = head.withUnsafeBytes({ StoredHead.parse($0) })?.fields else { return .refused }
        let isCommon = request.keys.isCommon(base.key)
        let fitting = isForAll ? request.keys.forAllFields : request.keys
        let keys = isCommon ? fitting.inCommon : fitting
        guard
            var place = place(
                fields, of: request.head, lookedUpAt: request.keys, isForAll: isForAll, isCommon: isCommon, metadata.recency, now: now)
        else { return .outdated }
        place.identity = isCommon ? nil : request.identity
        // The upstream has stopped saying that it is for all: from now on it is for requests with these fields.
        let movesAway = request.keys.unknownFields != nil && !isForAll && base.metadata.flags.contains(.forAllFields)
        // It may vary by other fields from now on.
        let names = selectingNames(fields, of: request.head)
        if names.isEmpty, place.key == keys.own, !movesAway { place.key = base.key }
        let new = NewResponse(
            head: head, metadata: metadata, body: .stored(base.item.body, base.item.form, owner: base.item.owner),
            wantedCoding: wantedCoding(of: base, metadata, fields, for: request.head),
            names: names,
            request: request.head.fields, sentAt: recency.requestTime)
        return put(new, at: place, inPlaceOf: base)
    }

    /// Keeps the time of a confirmation that is not written down, in memory; false where that is not enough.
    private func note(_ found: FoundResponse, _ fresh: StoredMetadata) -> Bool {
        guard let note = UnwrittenConfirmation.encode(written: found.writtenMetadata, fresh: fresh),
            fresh.date == found.writtenMetadata.date || StoredHead.redated(found.head, fresh.date) != nil
        else { return false }
        let key = found.key
        store.setNote(note, of: key.span, ifStill: found.written)
        return true
    }

    /// Whether the store has nothing to learn from what has confirmed the stored response: whom it is for and how long it may be used.
    private func isKnown(_ found: FoundResponse, _ head: [UInt8], _ fresh: StoredMetadata) -> Bool {
        guard isKnown(fresh, beside: found), fresh.staleIfError == found.metadata.staleIfError,
            fresh.staleWhileRevalidate == found.metadata.staleWhileRevalidate
        else { return false }
        let old = StoredHead.parse(found.head)?.fields.combined(.vary)
        return old == head.withUnsafeBytes { StoredHead.parse($0) }?.fields.combined(.vary)
    }

    /// They say how a client may have the content that is stored, and not another's.
    private static let formFlags: StoredFlags = [.cameCoded, .isOpen]

    /// Whether the store has nothing to learn from a response that brings the same data.
    private func isKnown(_ fresh: StoredMetadata, beside found: FoundResponse) -> Bool {
        let isRecent = fresh.responseTime.milliseconds - found.writtenMetadata.responseTime.milliseconds < Self.confirmationInterval
        return isRecent && fresh.freshnessLifetime == nil
            && fresh.flags.subtracting(Self.formFlags) == found.metadata.flags.subtracting(Self.formFlags)
    }

    // MARK: The same data again

    /// Whether a whole response brings the data that were found, which are still stored and would be found in the same place: then its time is
    /// noted, and nothing is written.
    func isKnownAlready(_ new: NewResponse, _ response: WholeResponse, beside found: FoundResponse?) -> Bool {
        guard let found, response.ownTag != nil, Self.isSameData(new, found), isKnown(new.metadata, beside: found), isStored(found),
            SearchVariance(response.head.fields) == StoredHead.parse(found.head).flatMap({ SearchVariance($0.fields) })
        else { return false }
        return note(found, new.metadata)
    }

    /// Other bytes perhaps, but what they mean is what is stored.
    private static func isSameData(_ new: NewResponse, _ found: FoundResponse) -> Bool {
        found.metadata.flags.contains(.ownTag) && new.head[new.metadata.etag].elementsEqual(found.head[found.metadata.etag])
    }

    /// Whether what was found is still what is stored.
    public func isStill(_ found: FoundResponse) throws(NotAtHand) -> Bool {
        if let wanted = firstNotAtHand(of: [found.key]) { throw wanted }
        return isStored(found)
    }

    private func isStored(_ found: FoundResponse) -> Bool {
        let key = found.key
        guard let item = store.see(key.span).item else { return false }
        return StoredMetadata.recency(of: item.metadata)?.order == found.metadata.order
    }
}
