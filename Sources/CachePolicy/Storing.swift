// Decides which responses may be stored (RFC 9111 §3), by their heads. Rules that need the content are in `LastGood`.

import HTTPCore

/// Why a response was not stored. The raw value is the label in `cistern why`, metrics, the access log and Cache-Status. If the request
/// bypasses the store, only `cistern why` shows the reason, except `cacheOff` (`ExchangeRecord.Reasons.isBypassedStream`).
public enum NotStoredReason: String, Error, Sendable, CaseIterable {
    case methodNotCacheable = "method"
    case requestContent = "request_content"
    /// Reasons for requests that are cached by their content.
    case longContent = "long_content"
    case changingContent = "changing_content"
    case unreadContent = "unread_content"
    /// The upstream identifies the user by the connection, or wants to (NTLM, Negotiate, Kerberos).
    case connectionUser = "connection_user"
    case rangeRequest = "range"
    case preconditions = "precondition"
    case status = "status"
    case setCookie = "set_cookie"
    case noContent = "no_content"
    case partial = "partial"
    case requestNoStore = "request_no_store"
    case noStore = "no_store"
    case privateResponse = "private"
    case userUnknown = "user_unknown"
    /// No later request would find the response.
    case oneTimeCredentials = "one_time_credentials"
    case authorized = "authorized"
    case varyStar = "vary_star"
    case tooManyMembers = "too_many_members"
    case contentType = "content_type"
    case contentCoding = "content_coding"
    case tooLarge = "too_large"
    /// The memory for responses that are received was exhausted.
    case memoryLimit = "memory_limit"
    case invalidJSON = "invalid_json"
    case empty = "empty"
    case unprovenEnd = "unproven_end"
    case undecodable = "undecodable"
    /// JSON that exceeds the checked nesting depth.
    case tooDeep = "too_deep"
    case notGood = "not_good"
    /// The response violates the route's `keep_if`.
    case notKept = "keep_if"
    /// GraphQL errors without data.
    case graphQLError = "graphql_error"
    /// A response to a later request is stored.
    case outdated = "outdated"
    /// A purge or a write happened after the request was sent.
    case invalidated
    case storeRefused = "store_refused"
    /// A request field has a new value in each request, and too few values got an equal response (`EqualResponses`).
    case changingField = "changing_field"
    case stream
    /// The operator excluded the path from the cache.
    case cacheOff = "cache_off"
    /// A preflight that the upstream did not permit.
    case notAllowed = "not_allowed"
}

public enum StorageDecision: Sendable, Equatable {
    case allowed
    case forbidden(NotStoredReason)
}

/// A request with a cache key: GET, or one that is handled like GET.
public struct StorableRequest {
    fileprivate let head: RequestHead
    fileprivate let directives: RequestCacheControl
    fileprivate let isPartitioned: Bool
    fileprivate let isForAll: Bool
    fileprivate let isShared: Bool

    /// - Parameters:
    ///   - isPartitioned: whether the key contains the request's credentials, so that requests with other credentials do not find the
    ///     response.
    ///   - isForAll: whether the operator declared responses here equal for all users.
    ///   - isShared: whether shareable responses are stored for all requests with Authorization.
    public init(
        _ head: RequestHead, _ directives: RequestCacheControl, isPartitioned: Bool, isForAll: Bool = false, isShared: Bool = false
    ) {
        self.isShared = isShared
        self.head = head
        self.directives = directives
        self.isPartitioned = isPartitioned
        self.isForAll = isForAll
    }
}

public enum Storing {
    public static func decide(
        _ response: ResponseHead, _ control: ResponseCacheControl, to storable: StorableRequest, settings: CachePolicySettings
    ) -> StorageDecision {
        let isChanged = settings.isPrivate || !settings.freshness.ignored.isEmpty
        let control = isChanged ? settings.freshness.applied(to: control.asRead(by: settings)) : control
        let request = storable.head
        guard !settings.freshness.isOff else { return .forbidden(.cacheOff) }
        guard request.method != .head else { return .forbidden(.methodNotCacheable) }
        guard request.method != .options else { return decidePreflight(response, control, storable, settings) }
        if let reason = statusReason(response, control, settings) { return .forbidden(reason) }
        guard !storable.directives.noStore else { return .forbidden(.requestNoStore) }
        // §5.2.2.3: with must-understand, a cache that understands the status ignores no-store.
        let isUnderstood = CacheableStatus.isUnderstood(response.status)
        guard !control.noStore || (control.mustUnderstand && isUnderstood) else { return .forbidden(.noStore) }
        guard !control.mustUnderstand || isUnderstood else { return .forbidden(.status) }
        if let reason = sharingReason(storable, control, settings) { return .forbidden(reason) }
        if isForOneRequest(storable, control, settings) { return .forbidden(.oneTimeCredentials) }
        if settings.setCookie == .refuse, response.fields.contains(.setCookie) { return .forbidden(.setCookie) }
        guard !SelectingFields.isStar(response.fields) else { return .forbidden(.varyStar) }
        guard SelectingFields.varied(response.fields, limit: settings.memberLimit + 1).count <= settings.memberLimit,
            let groups = CacheTags.groups(of: response.fields, named: "cache-groups"), groups.count <= settings.memberLimit
        else { return .forbidden(.tooManyMembers) }
        let isNegative = settings.freshness.negativeLifetime(of: response.status, said: nil) != nil
        let isKept =
            settings.keepsAny || isNegative || settings.contentTypes.contain(MediaType(of: response.fields)) && !response.isErrorAsSuccess
        guard isKept else { return .forbidden(.contentType) }
        // Stored content is decoded, which no-transform forbids (§5.2.2.6). If every response is stored, such content is stored in its
        // coding.
        guard settings.keepsAny || !staysCoded(response, control) else { return .forbidden(.contentCoding) }
        return .allowed
    }

    /// As in browsers, Access-Control-Max-Age determines the lifetime, not Cache-Control. But no-store applies here too.
    private static func decidePreflight(
        _ response: ResponseHead, _ control: ResponseCacheControl, _ storable: StorableRequest, _ settings: CachePolicySettings
    ) -> StorageDecision {
        guard !storable.directives.noStore else { return .forbidden(.requestNoStore) }
        guard !control.noStore else { return .forbidden(.noStore) }
        let preflight = Preflight(storable.head, content: .none, credentials: settings.credentials.names)
        return preflight?.isAllowed(by: response) == true ? .allowed : .forbidden(.notAllowed)
    }

    /// A private response, or one to a request with Authorization, is for one user. The partition must identify that user with certainty.
    private static func sharingReason(
        _ storable: StorableRequest, _ control: ResponseCacheControl, _ settings: CachePolicySettings
    ) -> NotStoredReason? {
        let fields = storable.head.fields
        // §3.5. A separate partition is stricter than the three directives that permit sharing.
        let isAuthorized = fields.contains(.authorization) && !storable.isForAll
        let needsOwn = control.isPrivate || (isAuthorized && !mayShare(control))
        guard needsOwn, !settings.isPrivate else { return nil }
        if storable.isPartitioned, UserCredentials.arePresent(in: fields, settings: settings) { return nil }
        guard control.isPrivate else { return .authorized }
        return storable.isPartitioned ? .userUnknown : .privateResponse
    }

    /// Returns whether no later request can have the partition in which the response would be stored.
    private static func isForOneRequest(_ storable: StorableRequest, _ control: ResponseCacheControl, _ settings: CachePolicySettings)
        -> Bool
    {
        guard storable.isPartitioned, !storable.isForAll, settings.strictness == .rescue, !(storable.isShared && mayShare(control)) else {
            return false
        }
        return OneTimeCredentials.arePresent(in: storable.head.fields, names: settings.credentials.names)
    }

    /// Returns whether the content coding cannot or must not be removed.
    public static func staysCoded(_ response: ResponseHead, _ control: ResponseCacheControl) -> Bool {
        guard let coding = ContentCoding(response.fields) else { return true }
        return coding != .identity && control.noTransform
    }

    /// Returns whether a directive permits sharing the response to a request with Authorization (§3.5).
    public static func mayShare(_ control: ResponseCacheControl) -> Bool {
        control.isPublic || control.mustRevalidate || control.sharedMaxAge != nil
    }

    /// Returns whether the response is shared only because of such a directive.
    public static func isShared(_ request: RequestHead, isPartitioned: Bool, isPrivate: Bool) -> Bool {
        !isPartitioned && !isPrivate && request.fields.contains(.authorization)
    }

    private static func statusReason(
        _ response: ResponseHead, _ control: ResponseCacheControl, _ settings: CachePolicySettings
    ) -> NotStoredReason? {
        let status = response.status
        guard status != 206 else { return .partial }
        guard settings.freshness.negativeLifetime(of: status, said: nil) == nil else { return nil }
        guard !settings.keepsAny else { return CacheableStatus.mayKeep(response, control, settings) ? nil : .status }
        switch status {
        case 204, 205: return .noContent
        // Such a response concerns one request and not the resource, unless it gives a lifetime.
        case 201, 202: return control.maxAge ?? control.sharedMaxAge == nil ? .status : nil
        default: return status.isSuccessful && CacheableStatus.mayKeep(response, control, settings) ? nil : .status
        }
    }
}

/// What a status implies for storing (RFC 9111 §3, RFC 9110 §15.1).
public enum CacheableStatus {
    /// Returns whether the cache implements all requirements of the status. 304 and 206 are never stored as such.
    public static func isUnderstood(_ status: Status) -> Bool {
        switch status.rawValue {
        case 200...205, 300...303, 305, 307, 308, 400...417, 421...426, 428, 429, 431, 451, 500...505: true
        default: false
        }
    }

    /// Heuristically cacheable statuses (RFC 9110 §15.1).
    public static func isHeuristicallyCacheable(_ status: Status) -> Bool {
        switch status.rawValue {
        case 200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501: true
        default: false
        }
    }

    /// Errors caused by a field or by the time of a single request. They are not stored for other requests, whatever lifetime they give,
    /// unless the operator chooses so.
    static func isAboutOneRequest(_ status: Status) -> Bool {
        switch status.rawValue {
        case 400, 401, 407, 408, 411, 412, 413, 416, 417, 421, 425, 428, 429, 431: true
        default: false
        }
    }

    /// Effect of `cache.store: any` on a response with a status that is otherwise not stored.
    public enum StoredByAny: Sendable {
        /// Stored: the status is heuristically cacheable (RFC 9110 §15.1).
        case always
        /// Stored if the response has an explicit lifetime or `public`.
        case withLifetime
        /// No effect: the status is 2xx or a server error, concerns one request, or depends on another response.
        case never
    }

    public static func storedByAny(_ status: Status) -> StoredByAny {
        guard (200..<500).contains(status.rawValue), status != 304, status != 206, !isAboutOneRequest(status) else { return .never }
        if isHeuristicallyCacheable(status) { return .always }
        // Other 2xx responses with a lifetime are stored without `cache.store: any`.
        return status.isSuccessful ? .never : .withLifetime
    }

    /// §3: a final status and a permission: explicit freshness, `public`, or a heuristically cacheable status.
    static func mayKeep(_ response: ResponseHead, _ control: ResponseCacheControl, _ settings: CachePolicySettings) -> Bool {
        guard response.status.rawValue >= 200, response.status != 304, settings.keepsAnyError || !isAboutOneRequest(response.status) else {
            return false
        }
        return control.maxAge != nil || control.sharedMaxAge != nil || control.isPublic || (settings.isPrivate && control.isPrivate)
            || (!control.hidesExpires && response.fields.contains(.expires)) || isHeuristicallyCacheable(response.status)
    }
}
