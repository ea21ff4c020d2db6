// Results of the verification of a request's token (`credentials.identity`), as labels for metrics and explanations.

/// Why a request's token does not identify a user. The request then keeps the partition of its plain credentials.
public enum TokenRefusal: String, Error, CaseIterable {
    /// There is not exactly one Authorization field of the form `Bearer TOKEN`.
    case noBearer = "no_bearer"
    case severalFields = "several_fields"
    case tooLong = "too_long"
    /// Not a JWT with three parts: a JWE, or something else.
    case malformed
    /// The header contains `crit`, `jku`, `x5u`, `jwk` or `x5c`.
    case forbiddenHeader = "forbidden_header"
    case duplicateMember = "duplicate_member"
    case algorithm
    case type
    case unknownKey = "unknown_key"
    case signature
    case issuer
    case audience
    case subject
    /// `exp` is missing or not a time.
    case noExpiry = "no_expiry"
    case notYetValid = "not_yet_valid"
    /// Bound to a key of the client (`cnf`, or a DPoP field): possession of the token alone does not identify the user.
    case bound
    /// More tokens than may be verified per second.
    case tooMany = "too_many"
}

public enum IdentityOutcome: Sendable, Equatable {
    case verified
    case expired
    case refused(TokenRefusal)
    /// The upstream identified the credentials' user; or did so before, but the result has expired; or did not.
    case lookedUp, lookedUpBefore, notIdentified
    /// An unsafe request may have changed the credentials' user, and the upstream has not been asked since.
    case unclearAfterWrite

    public var label: String {
        switch self {
        case .verified: "verified"
        case .expired: "expired"
        case .refused(let reason): reason.rawValue
        case .lookedUp: "told"
        case .lookedUpBefore: "told_before"
        case .notIdentified: "untold"
        case .unclearAfterWrite: "after_write"
        }
    }
}
