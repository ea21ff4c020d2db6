// Decides whether a stored response without credentials may rescue a request with credentials that has no stored response in its partition.
// Other partitions are never searched. Such a response contains no user's data (RFC 9111 §3.5 covers requests with Authorization; their
// responses are in partitions). But it may mislead: an app may take "not logged in" for a logout. By default it must therefore be public,
// or the cookies must have come with it.

import HTTPCore

public enum SharedRescueMode: String, Sendable, CaseIterable {
    /// A response with `public` or `s-maxage`, or one sent to this client before it had the cookies that the upstream set in it.
    case own
    /// Only a response with `public` or `s-maxage`.
    case publicOnly = "public"
    /// Any response.
    case always
    case never
}

extension SharedRescueMode: PathRules {
    /// From the strictest to the most permissive value.
    private static let byStrictness: [SharedRescueMode] = [.never, .publicOnly, .own, .always]

    public func stricter(_ other: SharedRescueMode) -> SharedRescueMode { Self.byStrictness.first { $0 == self || $0 == other } ?? .never }
}

/// What permitted the stored response to be served. The raw value is the label in metrics and Cache-Status.
public enum SharedRescuePermission: String, Sendable, CaseIterable {
    case isPublic = "public"
    case ownCookies = "own_cookies"
    case always
    /// The response belongs to the request's own user; the token has just expired.
    case expiredToken = "expired_token"
    /// The response belongs to the user to whom the upstream last attributed the credentials; the upstream cannot be asked now.
    case lookedUpBefore = "told_before"
}

extension SharedRescuePermission {
    /// True if the response belongs to the request's own user rather than to requests without credentials.
    public var isOfSameUser: Bool {
        switch self {
        case .expiredToken, .lookedUpBefore: true
        case .isPublic, .ownCookies, .always: false
        }
    }
}

/// Why the stored response may not be served. The raw value appears in `why`.
public enum NoSharedRescueReason: String, Sendable, CaseIterable {
    case never
    /// The response depends on the credentials, according to its Vary (RFC 9111 §4.1).
    case varies
    case notPublic = "not_public"
    /// Not public, and the cookies are not those that the upstream gave to a client without cookies.
    case otherCookies = "other_cookies"
    /// The target is gone for requests without credentials.
    case gone
}

public enum SharedRescueDecision: Sendable, Equatable {
    case allowed(SharedRescuePermission)
    case forbidden(NoSharedRescueReason)
}

public enum SharedRescue {
    /// Decides whether the response may be served to a request with these credentials. `Reuse.rescue` decides whether it may serve as a
    /// rescue at all.
    /// - Parameters:
    ///   - varies: whether the response's Vary names one of the request's credential fields.
    ///   - hasOwnCookies: whether the request's only credentials are cookies, and the upstream gave all of them to a client that had
    ///     requested this target without any. Used for `own` only.
    public static func decide(
        _ setting: SharedRescueMode, stored: StoredMetadata, varies: Bool, hasOwnCookies: Bool, strictness: Strictness
    ) -> SharedRescueDecision {
        guard setting != .never else { return .forbidden(.never) }
        guard !varies || strictness == .rescue else { return .forbidden(.varies) }
        if !varies, !stored.flags.isDisjoint(with: [.isPublic, .sharedMaxAge]) { return .allowed(.isPublic) }
        switch setting {
        case .always: return .allowed(.always)
        case .own: return hasOwnCookies ? .allowed(.ownCookies) : .forbidden(varies ? .varies : .otherCookies)
        case .publicOnly, .never: return .forbidden(varies ? .varies : .notPublic)
        }
    }
}
