// Whether the store has anything to do with a request (RFC 9111 §4, first paragraphs).

import HTTPCore

/// Why the store has nothing to do with a request.
public enum BypassReason: String, Sendable, CaseIterable {
    case method, content, range, precondition
    /// The operator says that responses of its route are streams.
    case stream
    /// It changes to another protocol.
    case upgrade
    /// The upstream knows a user by the connection (NTLM, Negotiate, Kerberos).
    case connectionUser = "connection_user"
    /// Responses to it are kept by its content: that is longer than its route keeps any by.
    case longContent = "long_content"
    /// The same: that changes something, or may for all that can be told.
    case changingContent = "changing_content"
    /// The same: others' content takes so much memory or work that this was not looked through.
    case unreadContent = "unread_content"

    /// RFC 9211 §2.2.
    public var forwardToken: StaticString {
        switch self {
        case .method, .changingContent: "method"
        case .content, .range, .precondition, .stream, .upgrade, .connectionUser, .longContent, .unreadContent: "bypass"
        }
    }

    /// Why the response to such a request is not stored.
    public var notStored: NotStoredReason {
        switch self {
        case .method: .methodNotCacheable
        case .content: .requestContent
        case .range: .rangeRequest
        case .precondition: .preconditions
        case .stream, .upgrade: .stream
        case .connectionUser: .connectionUser
        case .longContent: .longContent
        case .changingContent: .changingContent
        case .unreadContent: .unreadContent
        }
    }
}

public enum RequestUse: Sendable, Equatable {
    /// The store is looked into, and a good response to GET is kept.
    case lookUp
    case bypass(BypassReason)
    /// A part of what is stored; where nothing fresh is, the upstream is asked for the part, and its response not kept.
    case lookUpPart

    /// What decides about most of the rest.
    private static let telling: KnownFieldSet = [.range, .ifMatch, .ifUnmodifiedSince, .ifRange]

    public init(_ head: borrowing RequestHead, content: ContentFraming) {
        guard head.method.isRead else {
            self = .bypass(.method)
            return
        }
        guard content != .none || head.hasAny(of: Self.telling) else {
            self = .lookUp
            return
        }
        let fields = head.fields
        let hasOtherConditions = fields.contains(.ifMatch) || fields.contains(.ifUnmodifiedSince)
        if content != .none && content != .length(0) {
            // What content means for GET nobody has defined (RFC 9110 §9.3.1): the response is for this request alone.
            self = .bypass(.content)
        } else if fields.contains(.range), !hasOtherConditions, head.method == .get {
            self = .lookUpPart
        } else if hasOtherConditions || (fields.contains(.ifRange) && !fields.contains(.range)) {
            self = .bypass(.precondition)
        } else {
            self = .lookUp
        }
    }
}
