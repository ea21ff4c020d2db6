// A whole response goes in: one that the upstream sends now, and one that was archived, by the same rules. What is stored of it is made here,
// and where it lies; `put` holds it against what lies there.

import CachePolicy
import CacheStore
import Forwarding
import HTTPCore
import Identity

/// A request, as far as the store needs to know it, with where it was looked up and what was found there. A class, since each step of storing
/// is given it.
public final class PlacedRequest {
    public let head: RequestHead
    public let directives: RequestCacheControl
    public let keys: TargetKeys
    public let found: FoundResponse?
    /// Whose the request was when it was looked up; nil if its credentials are its user.
    let identity: RequestIdentity?
    /// A number for its client.
    let client: UInt64

    public init(
        _ head: RequestHead, _ directives: RequestCacheControl = RequestCacheControl(), keys: TargetKeys, found: FoundResponse?,
        _ identity: RequestIdentity? = nil, client: UInt64 = 0
    ) {
        self.identity = identity
        self.client = client
        self.head = head
        self.directives = directives
        self.keys = keys
        self.found = found
    }

    /// Whether its token has belonged to one user since. Otherwise its response may be another user's.
    var isUserUnchanged: Bool { identity?.isUnchanged ?? true }
}

/// A final response with all of its content.
public struct WholeResponse {
    /// Without its hop-by-hop fields.
    public let head: ResponseHead
    /// What the head says of caching.
    let control: ResponseCacheControl
    /// Decoded, where `isDecoded`.
    public let content: [UInt8]
    public let isDecoded: Bool
    /// The content as it came, where it came with a coding that clients know.
    public var coded: (content: [UInt8], coding: ContentCoding)?
    /// The entity tag of its data, where it came without a validator.
    public let ownTag: [UInt8]?
    public let recency: Recency
    /// It came to a POST, and answers later GETs (RFC 9110 §9.3.3).
    public let isOfPOST: Bool
    /// It was archived, and its request had Authorization, which the archive does not hold.
    let isAuthorized: Bool
    /// JSON that RFC 8259 refuses, and that readers may take.
    public var isLenient = false

    public init(
        _ head: ResponseHead, _ control: ResponseCacheControl, _ content: [UInt8], isDecoded: Bool, ownTag: [UInt8]? = nil,
        _ recency: Recency, isOfPOST: Bool = false, isAuthorized: Bool = false
    ) {
        self.head = head
        self.control = control
        self.content = content
        self.isDecoded = isDecoded
        self.ownTag = ownTag
        self.recency = recency
        self.isOfPOST = isOfPOST
        self.isAuthorized = isAuthorized
    }
}

/// A response as it is to lie in the store.
struct NewResponse {
    /// The stored head, and what the rules know of it: also how recent it is.
    var head: [UInt8]
    var metadata: StoredMetadata
    var body: ItemBody
    /// Which coding it gets there; 0 for none.
    var wantedCoding: UInt8 = 0
    /// The names of the fields by which it is selected, and where their values are.
    var names: [[UInt8]]
    var request: Fields
    /// When its request was sent. For a response to POST, which is later than what the POST itself makes invalid, that is not what the metadata
    /// say.
    var sentAt: Timestamp
    /// What it says is in its fields, whatever its status and type.
    var isPreflight = false
}

extension ResponseCache {
    /// RFC 9111 §3, and what the operator calls good.
    public func decideStoring(
        _ response: ResponseHead, for request: PlacedRequest, good: GoodResponse = GoodResponse()
    ) -> StorageDecision {
        decideStoring(
            response, control(response), to: request.head, request.directives, isPartitioned: request.keys.isPartitioned,
            beside: request.found, good: good)
    }

    /// - Parameters:
    ///   - control: what the head says of caching.
    ///   - isPartitioned: whether its key holds the request's credentials.
    ///   - found: what was found for it.
    ///   - good: what its route calls good.
    ///   - kept: what its route demands of what is kept.
    public func decideStoring(
        _ response: ResponseHead, _ control: ResponseCacheControl, to head: RequestHead, _ directives: RequestCacheControl,
        isPartitioned: Bool, beside found: FoundResponse?, good: GoodResponse, kept: GoodResponse = GoodResponse()
    ) -> StorageDecision {
        if good.faultOfHead(response) != nil { return .forbidden(.notGood) }
        if kept.faultOfHead(response) != nil { return .forbidden(.notKept) }
        let policy = policy(for: head)
        // An error that would be kept for a moment lies beside what is good, or nowhere.
        if let found, !found.metadata.isNegative, policy.settings.freshness.negativeLifetime(of: response.status, said: nil) != nil {
            return .forbidden(.status)
        }
        let decision = policy.decide(response, control, to: storable(head, directives, isPartitioned: isPartitioned))
        guard decision == .allowed, let found, head.method != .options else { return decision }
        let copy = LastGood.Copy(found.metadata, head: found.head, beside: response)
        return LastGood.obstacle(response, inPlaceOf: copy, strictness: strictness).map { .forbidden($0) } ?? .allowed
    }

    func storable(_ head: RequestHead, _ directives: RequestCacheControl, isPartitioned: Bool) -> StorableRequest {
        let rules = settings.credentials.specialRules(for: head)
        return StorableRequest(
            head, directives, isPartitioned: isPartitioned, isForAll: rules?.areIgnored ?? false, isShared: rules?.sharesPublic ?? false)
    }

    /// What a head says of caching, read once for all that is decided by it.
    public func control(_ response: ResponseHead) -> ResponseCacheControl {
        ResponseCacheControl(response.fields, targeted: settings.policy.targetedFields)
    }

    /// Stores a response that may be.
    /// - Returns: how it went, and the response as it is stored.
    public func store(
        _ response: WholeResponse, for request: PlacedRequest, at time: CacheTime
    ) -> (result: StoringResult, head: [UInt8], metadata: StoredMetadata) {
        let new = make(response, for: request)
        let result =
            isKnownAlready(new, response, beside: request.found) ? .stored : put(new, response, for: request, now: time.wall)
        if result == .stored, request.head.method != .options { noteCookies(setBy: response.head.fields, to: request.head, at: time) }
        return (result, new.head, new.metadata)
    }

    func make(_ response: WholeResponse, for request: PlacedRequest) -> NewResponse {
        guard request.head.method != .options else { return makePreflight(response, for: request) }
        let settings = policy(for: request.head).settings
        var recency = response.recency
        // A POST has made invalid what was there before; its own response is later than that.
        if response.isOfPOST {
            recency.requestTime = shared.timeOfRequest(at: Timestamp(milliseconds: recency.responseTime.milliseconds + 1))
        }
        var received = ReceivedResponse(
            keepingReferences(response.head), control: response.control, contentBytes: response.content.count,
            requestTime: recency.requestTime, responseTime: recency.responseTime)
        (received.isDecoded, received.ownTag) = (response.isDecoded, response.ownTag)
        received.via = addedVia(response.head, isImported: recency.isImported)
        var (head, metadata) = StoredHead.make(received, settings: settings)
        (metadata.order, metadata.likeness) = (recency.order, Self.likeness(of: request, isForAll: metadata.flags.contains(.forAllFields)))
        if recency.isImported { metadata.flags.insert(.imported) }
        let isForAll = self.settings.credentials.areIgnored(for: request.head)
        let isShared = Storing.isShared(request.head, isPartitioned: request.keys.isPartitioned, settings: settings)
        if !isForAll, response.isAuthorized || isShared { metadata.flags.insert(.authorized) }
        let sentAt = response.recency.requestTime
        if response.isOfPOST { metadata.ageValue += (recency.responseTime.milliseconds - sentAt.milliseconds) / 1000 }
        if isOpen(response, to: request) { metadata.flags.insert(.isOpen) }
        if response.isLenient { metadata.flags.insert(.isLenient) }
        let (body, wantedCoding) = form(of: response, metadata, for: request.head)
        return NewResponse(
            head: head, metadata: metadata, body: body, wantedCoding: wantedCoding,
            names: selectingNames(response.head.fields, of: request.head),
            request: request.head.fields, sentAt: sentAt)
    }

    /// Whether nothing in a response is anybody's secret.
    private func isOpen(_ response: WholeResponse, to request: PlacedRequest) -> Bool {
        !response.isAuthorized && isOpen(response.head.fields, to: request.head, isPartitioned: request.keys.isPartitioned)
    }

    /// The same of a response that is not stored.
    public func isOpen(_ response: Fields, to request: RequestHead, isPartitioned: Bool) -> Bool {
        guard !isPartitioned, !response.contains(.setCookie), !request.fields.contains(.authorization) else { return false }
        // Where keys have no partitions, credentials say nothing by being in one.
        return concealed.isEmpty || !keyMaker.hasCredentials(request.fields)
    }

    /// In which form the content goes into the store: as it came, where it came with a coding; else the writer puts one on where that makes it
    /// shorter. What is short stays as it is.
    private func form(of response: WholeResponse, _ metadata: StoredMetadata, for head: RequestHead) -> (ItemBody, wantedCoding: UInt8) {
        let count = response.content.count
        guard let compression = compression(of: count, metadata, for: head) else { return (.bytes(response.content), 0) }
        if let (content, coding) = response.coded, content.count < count {
            return (.coded(content, ContentForm(coding: coding.number, plainBytes: count)), 0)
        }
        return (.bytes(response.content), wantedCoding(compression, response.head.fields))
    }

    /// nil where content stays as it is.
    private func compression(of count: Int, _ metadata: StoredMetadata, for head: RequestHead) -> Compression? {
        let compression = settings.compression.rules(for: head.pathAndQuery)
        guard compression.covers(count, from: settings.compressFromBytes), !metadata.flags.contains(.coded) else { return nil }
        return compression
    }

    private func wantedCoding(_ compression: Compression, _ fields: Fields) -> UInt8 {
        MediaType(of: fields)?.isText == true ? compression.coding.number : 0
    }

    /// The same of a copy that is confirmed: it may not have been coded yet.
    func wantedCoding(of found: FoundResponse, _ metadata: StoredMetadata, _ fields: Fields, for head: RequestHead) -> UInt8 {
        guard found.coding == .identity, let compression = compression(of: found.contentBytes, metadata, for: head) else { return 0 }
        return wantedCoding(compression, fields)
    }

    /// The names of the fields by which a response varies.
    func selectingNames(_ response: Fields, of head: RequestHead) -> [[UInt8]] {
        SelectingFields.names(
            response: response, request: head.fields, settings: policy(for: head).settings,
            isForAll: settings.credentials.areIgnored(for: head))
    }

    /// What is kept of the response to a preflight: fields, and no content.
    private func makePreflight(_ response: WholeResponse, for request: PlacedRequest) -> NewResponse {
        let recency = response.recency
        let received = ReceivedResponse(
            Preflight.kept(of: response.head), control: ResponseCacheControl(), contentBytes: 0, requestTime: recency.requestTime,
            responseTime: recency.responseTime)
        var (head, metadata) = StoredHead.make(received, settings: settings.policy)
        metadata.order = recency.order
        metadata.freshnessLifetime = Preflight.lifetime(response.head.fields)
        metadata.lifetimeSource = .response
        return NewResponse(
            head: head, metadata: metadata, body: .bytes([]), names: [], request: request.head.fields, sentAt: recency.requestTime,
            isPreflight: true)
    }

    /// References within the upstream made relative, so that the client stays here.
    func keepingReferences(_ response: ResponseHead) -> ResponseHead {
        let upstream = settings.upstream
        let location = LocationRewriting(
            isOn: settings.rewritesLocation, origin: upstream.bytes, basePath: upstream.basePath, strippedPath: upstream.strippedPath,
            others: upstream.others.map { ($0.bytes, $0.basePath) })
        guard let fields = location.kept(response.fields) else { return response }
        var response = response
        response.fields = fields
        return response
    }

    /// Our entry in Via. What was archived may have come through here.
    private func addedVia(_ response: ResponseHead, isImported: Bool) -> [UInt8]? {
        guard isImported, let name = settings.via else { return via(of: response) }
        let isThere = FieldLists.members(of: .via, in: response.fields).last.map { $0.suffix(name.count + 1) == [0x20] + name } ?? false
        return isThere ? nil : via(of: response)
    }

    func via(of response: ResponseHead) -> [UInt8]? {
        settings.via.map { Array("\(response.version.receivedProtocol) ".utf8) + $0 }
    }

    /// Puts a response where its own fields say that it belongs. What others may have only as long as it is validated lies in its user's
    /// partition too, whose rescue it is.
    private func put(_ new: NewResponse, _ response: WholeResponse, for request: PlacedRequest, now: Timestamp) -> StoringResult {
        let fields = response.head.fields
        let sharing = request.keys.common == nil || new.metadata.isNegative ? .own : sharing(of: fields, response.control, to: request.head)
        if sharing != .everybody {
            let isForAll = new.metadata.flags.contains(.forAllFields)
            guard
                var place = place(fields, of: request.head, lookedUpAt: request.keys, isForAll: isForAll, new.metadata.recency, now: now)
            else { return .outdated }
            place.identity = request.identity
            let result = put(new, at: place)
            if result == .stored { noteStored(place.unknownFields, at: place.key, by: request.client) }
            if sharing == .whileValidated, result == .stored {
                _ = putCommon(new, fields, for: request, isOnlyThere: false, now: now)
            }
            return result
        }
        return putCommon(new, fields, for: request, isOnlyThere: true, now: now)
    }

    /// Who may have it, by what it says; and by what is left of that where the operator ignores some: what may not go out stale must be marked so.
    func sharing(of fields: Fields, _ control: ResponseCacheControl, to head: RequestHead) -> AuthorizedSharing {
        guard AuthorizedSharing(fields, control) != .own else { return .own }
        return AuthorizedSharing(fields, policy(for: head).settings.freshness.applied(to: control))
    }

    private func putCommon(
        _ new: NewResponse, _ fields: Fields, for request: PlacedRequest, isOnlyThere: Bool, now: Timestamp
    ) -> StoringResult {
        let recency = new.metadata.recency
        // It says `public`, or that it is for shared caches.
        let isForAll = new.metadata.flags.contains(.forAllFields)
        guard
            var place = place(
                fields, of: request.head, lookedUpAt: request.keys, isForAll: isForAll, isCommon: true, recency, now: now)
        else { return .outdated }
        if isOnlyThere { place.others.append((isForAll ? request.keys.forAllFields : request.keys).own) }
        var new = new
        new.metadata.flags.insert(.authorized)
        return put(new, at: place)
    }

    // MARK: What has to be at hand

    /// What storing a response looks at and has to be brought in first; nil where all of it is at hand.
    /// - Parameter isUpdate: whether it brings up to date what is stored, which is looked up for that.
    public func firstNotAtHand(
        storing response: Fields, for request: PlacedRequest, isUpdate: Bool = false, now: Timestamp
    ) -> NotAtHand? {
        let (head, keys) = (request.head, request.keys)
        var others = cookieKeys(setBy: response, to: head, now: now) + (request.found.map { [$0.key] } ?? [])
        var places = keys.common == nil ? [keys] : [keys, keys.inCommon]
        if head.method == .get, let variances, !variances.isEmpty {
            let target = Array(head.pathAndQuery)
            let path = pathKey(of: target[...], for: head)
            others.append(SearchVarianceMemory.key(path))
            if let wanted = firstNotAtHand(of: others) { return wanted }
            let unknown = keys.unknownFields
            places.append(self.keys(for: head, target: target, nil, unknown: unknown))
            if let variance = variances.variance(of: path) {
                places.append(self.keys(for: head, target: target, variance, unknown: unknown))
            }
        }
        if keys.unknownFields != nil { places += places.map(\.forAllFields) }
        if let wanted = firstNotAtHand(storing: response, at: places, others, for: head) { return wanted }
        guard isUpdate else { return nil }
        do throws(NotAtHand) {
            _ = try find(head, at: keys)
            return nil
        } catch {
            return error
        }
    }

    /// - Parameter others: more keys that are looked at.
    private func firstNotAtHand(
        storing response: Fields, at places: [TargetKeys], _ others: [[UInt8]], for head: RequestHead
    ) -> NotAtHand? {
        if let wanted = firstNotAtHand(of: others) { return wanted }
        for place in places {
            if let wanted = notAtHand(place.own) ?? notAtHand(Self.invalidationKey(place.shared)) { return wanted }
        }
        if let collection = collectionKey(of: head), let wanted = notAtHand(Self.collectionKey(collection)) { return wanted }
        for group in CacheTags.groups(of: response, named: "cache-groups") ?? [] {
            if let wanted = notAtHand(groupKey(group)) { return wanted }
        }
        for place in places {
            guard let marker = store.see(place.own.span).item, StoredMetadata.kind(of: marker.metadata) == .varyMarker,
                let variant = variant(of: marker, place.own, head.fields)
            else { continue }
            if let wanted = notAtHand(variant.key) { return wanted }
        }
        return nil
    }
}
