// What looking at a request's token came to (`credentials.identity`): words for metrics and explanations.

/// Why a request has no identity of its own, and so the partition of its credentials as they are.
public enum TokenRefusal: String, Sendable, CaseIterable {
    /// Not one Authorization field of the form `Bearer TOKEN`.
    case noBearer = "no_bearer"
    case severalFields = "several_fields"
    case tooLong = "too_long"
    /// Not three parts of JSON and a signature: a JWE, or something else.
    case malformed
    /// `crit`, `jku`, `x5u`, `jwk` or `x5c` in its head.
    case forbiddenHeader = "forbidden_header"
    case duplicateMember = "duplicate_member"
    case algorithm
    case type
    case unknownKey = "unknown_key"
    case signature
    case issuer
    case audience
    case subject
    /// No `exp`, or one that is no time.
    case noExpiry = "no_expiry"
    case notYetValid = "not_yet_valid"
    /// It is bound to a key of the client's (`cnf`, or a DPoP field): who has no more than the token is not its user.
    case bound
    /// More tokens than may be looked at in a second.
    case tooMany = "too_many"
}

public enum IdentityOutcome: Sendable, Equatable {
    case verified
    case expired
    case refused(TokenRefusal)
    /// The upstream has said whom the credentials belong to; or had, and that is over; or has not.
    case told, toldBefore, untold

    public var label: String {
        switch self {
        case .verified: "verified"
        case .expired: "expired"
        case .refused(let reason): reason.rawValue
        case .told: "told"
        case .toldBefore: "told_before"
        case .untold: "untold"
        }
    }
}
