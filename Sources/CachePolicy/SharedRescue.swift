// Whether the copy of those without credentials may stand in where a request with credentials has no copy of its own and the upstream fails.
// Never the other way, and never another partition's: those copies are not even looked for. RFC 9111 §3.5 is about responses to requests with
// Authorization, which lie in partitions; a copy that was asked for without credentials holds nobody's data. What it may do is mislead: an app
// may take "nobody is logged in" for a logout. So by default it must have said that it is for everyone, or the cookies must be its own.

import HTTPCore

public enum RescueWithShared: String, Sendable, CaseIterable {
    /// What says `public` or `s-maxage`, or what was sent to this client, before it had the cookies that the upstream then gave it.
    case own
    /// Only what says `public` or `s-maxage`.
    case publicOnly = "public"
    /// Any.
    case always
    case never
}

extension RescueWithShared: PathRules {
    /// Each one opens more than those before it.
    private static let byStrictness: [RescueWithShared] = [.never, .publicOnly, .own, .always]

    public func stricter(_ other: RescueWithShared) -> RescueWithShared { Self.byStrictness.first { $0 == self || $0 == other } ?? .never }
}

/// What allowed the copy to stand in. The raw value is the label in metrics and Cache-Status.
public enum SharedCopyPermission: String, Sendable, CaseIterable {
    case isPublic = "public"
    case ownCookies = "own_cookies"
    case always
    /// It is the copy of the request's own user, whose token has just ended.
    case expiredToken = "expired_token"
    /// It is the copy of the user that the upstream last said the credentials are of; it cannot be asked again now.
    case toldBefore = "told_before"
}

extension SharedCopyPermission {
    /// Whether it is no copy of those without credentials, but the request's own user's.
    public var isOfSameUser: Bool {
        switch self {
        case .expiredToken, .toldBefore: true
        case .isPublic, .ownCookies, .always: false
        }
    }
}

/// Why it may not. The raw value is told by `why`.
public enum NoSharedRescueReason: String, Sendable, CaseIterable {
    case never
    /// It depends on the credentials: it said so in Vary (RFC 9111 §4.1).
    case varies
    case notPublic = "not_public"
    /// Not public, and the cookies are not those that the upstream gave to a client without any.
    case otherCookies = "other_cookies"
    /// The target is gone for those without credentials.
    case gone
}

public enum SharedRescueDecision: Sendable, Equatable {
    case allowed(SharedCopyPermission)
    case forbidden(NoSharedRescueReason)
}

public enum SharedRescue {
    /// Whether it may stand in for one with these credentials; whether it may stand in at all is decided by `Reuse.rescue`.
    /// - Parameters:
    ///   - varies: whether the copy's Vary names one of the request's credential fields.
    ///   - hasOwnCookies: whether the request's credentials are cookies alone, and all of them were given by the upstream to a client that
    ///     had asked for this target without any; it matters for `own` only.
    public static func decide(
        _ setting: RescueWithShared, stored: StoredMetadata, varies: Bool, hasOwnCookies: Bool, strictness: Strictness
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
