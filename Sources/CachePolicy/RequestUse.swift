// Decides whether a request may use the store (RFC 9111 §4, first paragraphs).

import HTTPCore

/// Why a request bypasses the store.
public enum BypassReason: String, Sendable, CaseIterable {
    case method, content, range, precondition
    /// The operator excluded the path from the cache.
    case cacheOff = "cache_off"
    /// The operator declared the route's responses to be streams.
    case stream
    /// The request changes the protocol (Upgrade).
    case upgrade
    /// The upstream identifies the user by the connection (NTLM, Negotiate, Kerberos).
    case connectionUser = "connection_user"
    /// The route caches by request content, and this content exceeds the route's limit.
    case longContent = "long_content"
    /// The route caches by request content, and this content changes data, or may change data.
    case changingContent = "changing_content"
    /// The route caches by request content, but the content was not read because of the limits on memory or work.
    case unreadContent = "unread_content"

    /// The forward reason for Cache-Status (RFC 9211 §2.2).
    public var forwardToken: StaticString {
        switch self {
        case .method, .changingContent: "method"
        case .content, .range, .precondition, .cacheOff, .stream, .upgrade, .connectionUser, .longContent, .unreadContent: "bypass"
        }
    }

    /// Why the response to this request is not stored.
    public var notStored: NotStoredReason {
        switch self {
        case .method: .methodNotCacheable
        case .content: .requestContent
        case .range: .rangeRequest
        case .precondition: .preconditions
        case .cacheOff: .cacheOff
        case .stream, .upgrade: .stream
        case .connectionUser: .connectionUser
        case .longContent: .longContent
        case .changingContent: .changingContent
        case .unreadContent: .unreadContent
        }
    }
}

public enum RequestUse: Sendable, Equatable {
    /// The store is searched, and a good response to GET is stored.
    case lookUp
    case bypass(BypassReason)
    /// A range of a stored response is served. Without a fresh response, the request is forwarded with its range, and the partial response
    /// is not stored.
    case lookUpPart

    /// Fields that can prevent or limit the use of the store.
    private static let conditionalFields: KnownFieldSet = [
        .range, .ifMatch, .ifUnmodifiedSince, .ifRange, .ifNoneMatch, .ifModifiedSince,
    ]

    public init(_ head: borrowing RequestHead, content: ContentFraming) {
        guard head.method.isRead else {
            self = .bypass(.method)
            return
        }
        guard content != .none || head.hasAny(of: Self.conditionalFields) else {
            self = .lookUp
            return
        }
        let fields = head.fields
        let hasOtherConditions = fields.contains(.ifMatch) || fields.contains(.ifUnmodifiedSince)
        if content != .none && content != .length(0) {
            // Content in GET has no defined meaning (RFC 9110 §9.3.1), so the response is for this request only.
            self = .bypass(.content)
        } else if head.hasAny(of: [.ifNoneMatch, .ifModifiedSince]), OneTimeCredentials.signConditions(in: fields) {
            // Cistern's own conditions would make the signature invalid.
            self = .bypass(.precondition)
        } else if fields.contains(.range), !hasOtherConditions, head.method == .get {
            self = .lookUpPart
        } else if hasOtherConditions || (fields.contains(.ifRange) && !fields.contains(.range)) {
            self = .bypass(.precondition)
        } else {
            self = .lookUp
        }
    }
}
