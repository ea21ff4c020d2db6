// Stores a complete response, from the upstream or from an archive, by one set of rules. Builds the stored form and determines its key.
// `put` compares the response with the existing one.

import CachePolicy
import CacheStore
import Forwarding
import HTTPCore
import Identity

/// A request with the keys of its lookup and the response that was found. A class, because each step of storing receives it.
public final class StorableExchange {
    public let head: RequestHead
    public let directives: RequestCacheControl
    public let keys: TargetKeys
    public let found: FoundResponse?
    /// Identity of the request's user at the time of the lookup; nil if the plain credentials identify the user.
    let identity: RequestIdentity?
    /// Number for the client.
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

    /// Whether the token has belonged to one user since the lookup. Otherwise the response may be another user's.
    var isUserUnchanged: Bool { identity?.isUnchanged ?? true }
}

/// A final response with its complete content.
public struct WholeResponse {
    /// Without hop-by-hop fields.
    public let head: ResponseHead
    /// Cache-Control of the head.
    let control: ResponseCacheControl
    /// The content, decoded if `isDecoded`.
    public let content: [UInt8]
    public let isDecoded: Bool
    /// The content as received, if its coding is supported by clients; nil otherwise.
    public var coded: (content: [UInt8], coding: ContentCoding)?
    /// Entity tag computed from the content, for a response without a validator; nil if there is none.
    public let ownTag: [UInt8]?
    public let recency: Recency
    /// Whether the response to a POST is stored for later GETs (RFC 9110 §9.3.3).
    public let isOfPOST: Bool
    /// Properties of an archived response that its fields do not contain.
    var origin = ArchiveOrigin()
    /// Fields that gave credentials to the client of an archived response. They are not stored.
    var recordedCredentials = Fields()
    /// JSON that violates RFC 8259 but that some parsers accept.
    public var isLenient = false

    /// Whether an archived response may contain secrets although its fields give no credential.
    fileprivate var mayConceal: Bool {
        origin.isAuthorized || origin.isConcealed || ResponseCredentials.arePresent(in: recordedCredentials)
    }

    public init(
        _ head: ResponseHead, _ control: ResponseCacheControl, _ content: [UInt8], isDecoded: Bool, ownTag: [UInt8]? = nil,
        _ recency: Recency, isOfPOST: Bool = false
    ) {
        self.head = head
        self.control = control
        self.content = content
        self.isDecoded = isDecoded
        self.ownTag = ownTag
        self.recency = recency
        self.isOfPOST = isOfPOST
    }
}

/// A response in its stored form.
struct NewResponse {
    /// The stored head, and its metadata including recency.
    var head: [UInt8]
    var metadata: StoredMetadata
    var body: ItemBody
    /// Number of the coding that the writer should apply; 0 for none.
    var wantedCoding: UInt8 = 0
    /// Names of the selecting fields, and the request fields with their values.
    var names: [[UInt8]]
    var request: Fields
    /// When the request was sent. For a response to POST, the metadata contain a later time, so that the invalidation by the POST does not
    /// apply to it.
    var sentAt: Timestamp
    /// Whether the response belongs to a preflight: only its fields matter, whatever its status and type.
    var isPreflight = false
}

extension ResponseCache {
    /// Decides by RFC 9111 §3 and the route's requirements whether a response may be stored.
    public func decideStoring(
        _ response: ResponseHead, for request: StorableExchange, good: GoodResponse = GoodResponse()
    ) -> StorageDecision {
        decideStoring(
            response, control(response), to: request.head, request.directives, isPartitioned: request.keys.isPartitioned,
            beside: request.found, good: good)
    }

    /// - Parameters:
    ///   - control: Cache-Control of the head.
    ///   - isPartitioned: whether the key contains the request's credentials.
    ///   - found: the response found for the request; nil if none.
    ///   - good: `good` of the route.
    ///   - kept: `keep_if` of the route.
    public func decideStoring(
        _ response: ResponseHead, _ control: ResponseCacheControl, to head: RequestHead, _ directives: RequestCacheControl,
        isPartitioned: Bool, beside found: FoundResponse?, good: GoodResponse, kept: GoodResponse = GoodResponse()
    ) -> StorageDecision {
        if good.faultOfHead(response) != nil { return .forbidden(.notGood) }
        if kept.faultOfHead(response) != nil { return .forbidden(.notKept) }
        let policy = policy(for: head)
        // An error that `negative` stores is stored next to a good response, or not at all.
        if let found, !found.metadata.isNegative, policy.storesError(response.status) {
            return .forbidden(.status)
        }
        let storable = storable(head, directives, isPartitioned: isPartitioned)
        let decision = policy.decide(response, control, to: storable)
        guard decision == .allowed, let found, head.method != .options else { return decision }
        let copy = LastGood.Copy(found.metadata, head: found.head.span, beside: response)
        return LastGood.obstacle(response, replacing: copy, strictness: strictness).map { .forbidden($0) } ?? .allowed
    }

    func storable(_ head: RequestHead, _ directives: RequestCacheControl, isPartitioned: Bool) -> StorableRequest {
        let rules = settings.credentials.specialRules(for: head)
        return StorableRequest(
            head, directives, isPartitioned: isPartitioned, isForAll: rules?.areIgnored ?? false, isShared: rules?.sharesPublic ?? false)
    }

    /// Returns the storing rules for a request's target.
    func policy(for head: RequestHead) -> RoutePolicy { policies.rules(for: head.pathAndQuery) }

    /// Parses Cache-Control of a head, once for all decisions.
    public func control(_ response: ResponseHead) -> ResponseCacheControl {
        ResponseCacheControl(response.fields, targeted: settings.policy.targetedFields)
    }

    /// Returns what must be loaded before the items under these keys can be read; nil if they are in memory.
    func firstNotInMemory(of keys: [[UInt8]]) -> NotInMemory? { store.onDisk(keys).map { .onDisk($0) } }

    /// Returns the first record that storing a response needs and that must be loaded; nil if all are in memory.
    /// - Parameter isUpdate: whether an existing response is updated, which requires a lookup.
    public func firstNotInMemory(
        storing response: Fields, for request: StorableExchange, isUpdate: Bool = false, now: Timestamp
    ) -> NotInMemory? {
        let (head, keys) = (request.head, request.keys)
        var others = request.found.map { [$0.key] } ?? []
        if response.contains(.setCookie) { others += cookieKeys(setBy: response, to: head, now: now) }
        var locations = keys.common == nil ? [keys] : [keys, keys.inCommon]
        if head.method == .get, let variances, !variances.isEmpty {
            let target = Array(head.pathAndQuery)
            let path = pathKey(of: target[...], for: head)
            others.append(SearchVarianceMemory.key(path))
            if let wanted = firstNotInMemory(of: others) { return wanted }
            let unknown = keys.unknownFields
            locations.append(self.keys(for: head, target: target, nil, unknown: unknown))
            if let variance = variances.variance(of: path) {
                locations.append(self.keys(for: head, target: target, variance, unknown: unknown))
            }
        }
        if keys.unknownFields != nil { locations += locations.map(\.forAllFields) }
        for location in locations { others += [location.own, Self.invalidationKey(location.credentialFree)] }
        if let collection = collectionKey(of: head) { others.append(Self.collectionKey(collection)) }
        others += (CacheTags.groups(of: response, named: "cache-groups") ?? []).map(groupKey)
        if let wanted = firstNotInMemory(of: others) { return wanted }
        for location in locations {
            guard let marker = store.see(location.own.span).item, StoredMetadata.kind(of: marker.metadata.span) == .varyMarker,
                let variant = variant(of: marker, location.own, head.fields)
            else { continue }
            if let wanted = firstNotInMemory(of: [variant.key]) { return wanted }
        }
        guard isUpdate else { return nil }
        do throws(NotInMemory) {
            _ = try findExact(head, at: keys)
            return nil
        } catch {
            return error
        }
    }

    /// Stores a response that may be stored.
    /// - Returns: the result, the response as stored, and whether it changed only the times of the stored response.
    public func store(
        _ response: WholeResponse, for request: StorableExchange, at time: CacheTime
    ) -> (result: StoringResult, head: [UInt8], metadata: StoredMetadata, changedNothing: Bool) {
        var new = make(response, for: request)
        // Equal data are those of no session.
        if new.metadata.flags.contains(.startsSession), let found = request.found, Self.isSameData(new, found) {
            new.metadata.flags.remove(.startsSession)
        }
        let recorded = recordEqualData(new, response, beside: request.found)
        let result = recorded == nil ? putByFields(new, response, for: request, now: time.wall) : .stored
        if result == .stored, request.head.method != .options, response.head.fields.contains(.setCookie) {
            noteCookies(setBy: response.head.fields, to: request.head, storedAs: new.metadata, new.head.span, at: time)
        }
        return (result, new.head, new.metadata, recorded == .times)
    }

    func make(_ response: WholeResponse, for request: StorableExchange) -> NewResponse {
        guard request.head.method != .options else { return makePreflight(response, for: request) }
        let policy = policy(for: request.head)
        var recency = response.recency
        // A POST invalidates earlier responses, so the request time of its response is moved after the invalidation.
        if response.isOfPOST {
            recency.requestTime = state.times.ofRequest(Timestamp(milliseconds: recency.responseTime.milliseconds + 1))
        }
        var received = ReceivedResponse(
            references.keeping(response.head), control: response.control, contentBytes: response.content.count,
            requestTime: recency.requestTime, responseTime: recency.responseTime)
        (received.isDecoded, received.ownTag) = (response.isDecoded, response.ownTag)
        received.via = via(of: response.head, isImported: recency.isImported)
        var (head, metadata) = policy.makeHead(received)
        if request.keys.unknownFields?.isOtherSpelling == true { metadata.flags.remove(.forAllFields) }
        metadata.order = recency.order
        metadata.likeness = likeness(of: request.head, request.keys, isForAll: metadata.flags.contains(.forAllFields))
        metadata.negotiation = RequestLikeness.negotiation(of: request.head.fields)
        if recency.isImported { metadata.flags.insert(.imported) }
        let isForAll = settings.credentials.specialRules(for: request.head)?.areIgnored ?? false
        let isShared = Storing.isShared(
            request.head, isPartitioned: request.keys.isPartitioned, isPrivate: policy.settings.isPrivate)
        if !isForAll, response.origin.isAuthorized || isShared { metadata.flags.insert(.authorized) }
        let sentAt = response.recency.requestTime
        if response.isOfPOST { metadata.ageValue += (recency.responseTime.milliseconds - sentAt.milliseconds) / 1000 }
        if isOpen(response.head.fields, to: request.head, isPartitioned: request.keys.isPartitioned), !response.mayConceal {
            metadata.flags.insert(.isOpen)
        }
        if !request.keys.isPartitioned, !metadata.isForAll, startsSession(response) { metadata.flags.insert(.startsSession) }
        if response.isLenient { metadata.flags.insert(.isLenient) }
        // The content is stored as received if it had a coding. Otherwise the writer compresses it if that makes it shorter. Short content is
        // not coded.
        var (body, wantedCoding) = (ItemBody.bytes(response.content), UInt8(0))
        let count = response.content.count
        if let compression = compression(of: count, metadata, for: request.head) {
            if let (content, coding) = response.coded, content.count < count {
                body = .coded(content, ContentForm(coding: coding.number, plainBytes: count))
            } else {
                wantedCoding = self.wantedCoding(compression, response.head.fields)
            }
        }
        return NewResponse(
            head: head, metadata: metadata, body: body, wantedCoding: wantedCoding,
            names: policy.selectingNames(response.head.fields, of: request.head, isForAll: isForAll),
            request: request.head.fields, sentAt: sentAt)
    }

    /// Hash of a request's distinguishing fields besides its key; requests with one hash count as equal. Never 0. Includes ignored
    /// credentials: if they are invalid, the upstream may respond as if the resource did not exist.
    /// - Parameter isForAll: whether the response serves requests with any unknown fields.
    func likeness(of request: RequestHead, _ keys: TargetKeys, isForAll: Bool = false) -> UInt64 {
        var bytes = RequestLikeness.bytes(of: request.fields, unknownFieldsHash: (isForAll ? keys.forAllFields : keys).unknownFieldsHash)
        if settings.credentials.specialRules(for: request)?.areIgnored == true { bytes += keyMaker.ignoredCredentials(of: request.fields) }
        return max(1, ContentHash.number(of: bytes.span))
    }

    /// Returns whether a response contains no user's secrets.
    public func isOpen(_ response: Fields, to request: RequestHead, isPartitioned: Bool) -> Bool {
        guard !isPartitioned, !ResponseCredentials.arePresent(in: response), !request.fields.contains(.authorization) else { return false }
        // If keys have no partitions, a missing partition does not prove the absence of credentials.
        return concealed.isEmpty || !keyMaker.hasCredentials(request.fields)
    }

    private func startsSession(_ response: WholeResponse) -> Bool {
        response.origin.startsSession || giveCredential(response.head.fields) || giveCredential(response.recordedCredentials)
    }

    /// Returns whether response fields give a credential that separates clients.
    private func giveCredential(_ fields: Fields) -> Bool {
        keyMaker.cookies?.areSet(by: fields) == true || ResponseCredentials.areOthersThanCookies(in: fields)
    }

    /// nil if the content is not coded.
    private func compression(of count: Int, _ metadata: StoredMetadata, for head: RequestHead) -> Compression? {
        let compression = settings.compression.rules(for: head.pathAndQuery)
        guard compression.covers(count, from: settings.compressFromBytes), !metadata.flags.contains(.coded) else { return nil }
        return compression
    }

    private func wantedCoding(_ compression: Compression, _ fields: Fields) -> UInt8 {
        MediaType(of: fields)?.isText == true ? compression.coding.number : 0
    }

    /// Returns the coding for a confirmed response, which may not have been coded yet.
    func wantedCoding(of found: FoundResponse, _ metadata: StoredMetadata, _ fields: Fields, for head: RequestHead) -> UInt8 {
        guard found.coding == .identity, let compression = compression(of: found.contentBytes, metadata, for: head) else { return 0 }
        return wantedCoding(compression, fields)
    }

    /// Builds the stored form of a preflight's response: fields without content.
    private func makePreflight(_ response: WholeResponse, for request: StorableExchange) -> NewResponse {
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

    /// Cistern's entry in Via; nil if there is none to add. An archived response may already contain it.
    func via(of response: ResponseHead, isImported: Bool = false) -> [UInt8]? {
        guard let name = settings.via else { return nil }
        let last = isImported ? FieldLists.members(of: .via, in: response.fields).last : nil
        if last?.suffix(name.count + 1) == [0x20] + name { return nil }
        var value: [UInt8] = []
        value.reserveCapacity(name.count + 4)
        value.append(response.version.receivedProtocol)
        value.append(0x20)
        value += name
        return value
    }
}

/// The storing rules for a path, combined once, because combining them for each response would cost more than applying them. A class, so
/// that passing the rules along copies nothing.
final class RoutePolicy: Sendable {
    let settings: CachePolicySettings

    init(_ settings: CachePolicySettings, _ freshness: FreshnessRules) {
        var settings = settings
        settings.freshness = freshness
        self.settings = settings
    }

    // Methods of this class that are not inlined, because the callers would copy the settings.

    @inline(never)
    func decide(_ response: ResponseHead, _ control: ResponseCacheControl, to storable: StorableRequest) -> StorageDecision {
        Storing.decide(response, control, to: storable, settings: settings)
    }

    @inline(never)
    func makeHead(_ received: ReceivedResponse) -> (bytes: [UInt8], metadata: StoredMetadata) {
        StoredHead.make(received, settings: settings)
    }

    /// Returns the names of the fields by which a response varies.
    /// - Parameter isForAll: whether the response serves all users.
    @inline(never)
    func selectingNames(_ response: Fields, of head: RequestHead, isForAll: Bool) -> [[UInt8]] {
        SelectingFields.names(response: response, request: head.fields, settings: settings, isForAll: isForAll)
    }

    /// Whether an error with this status may be stored next to a good response.
    func storesError(_ status: Status) -> Bool { settings.freshness.negativeLifetime(of: status, said: nil) != nil }
}

extension RoutePolicy: PathRules {
    func stricter(_ other: RoutePolicy) -> RoutePolicy {
        RoutePolicy(settings, settings.freshness.stricter(other.settings.freshness))
    }
}
