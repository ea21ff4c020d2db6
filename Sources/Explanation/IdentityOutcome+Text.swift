// Texts for the result of identifying a request's user, and the setting that would change it.

import CachePolicy

extension IdentityOutcome {
    public var sentence: String {
        switch self {
        case .verified: "The request's token was verified. All verified tokens of its user share stored responses."
        case .expired: "The request's token has expired, so it has a separate partition."
        case .refused(let reason): "The request's token was not verified (\(reason.sentence)), so it has a separate partition."
        case .lookedUp:
            "The upstream identified the user of the request's credentials. All credentials of this user share stored responses."
        case .lookedUpBefore: "The upstream identified the user of these credentials too long ago, so they have a separate partition."
        case .notIdentified:
            "The upstream has not identified the user of these credentials, or names that user without the token too, so they have a "
                + "separate partition."
        case .unclearAfterWrite:
            "An unsafe request may have changed the user of these credentials, so they have a separate partition until a lookup succeeds."
        }
    }

    /// nil if no setting changes the result.
    public var advice: WhyAdvice? {
        switch self {
        case .verified, .lookedUp, .unclearAfterWrite: nil
        case .lookedUpBefore: WhyAdvice("credentials.identity.lookup.keep", "is how long the lookup result is cached")
        case .notIdentified:
            WhyAdvice(
                "credentials.identity.lookup.identity",
                "and credentials.identity.lookup.fields select the values that the lookup's response must contain")
        case .expired:
            WhyAdvice(
                "credentials.identity.jwt.rescue_expired",
                "is the time for which an expired token gets its user's stored responses while the upstream fails")
        case .refused(let reason): reason.advice
        }
    }
}

extension TokenRefusal {
    /// Text for use within a sentence.
    fileprivate var sentence: String {
        switch self {
        case .noBearer: "there is no Authorization field of the form Bearer TOKEN"
        case .severalFields: "there is more than one Authorization field"
        case .tooLong: "the token is longer than 8 KiB"
        case .malformed: "it is not a signed JSON Web Token"
        case .forbiddenHeader: "the token's header has a member that is not allowed: crit, jku, x5u, jwk or x5c"
        case .duplicateMember: "the token contains a JSON member twice"
        case .algorithm: "the token's algorithm is not RS, PS or ES with 256, 384 or 512, nor EdDSA"
        case .type: "the token's typ is not accepted"
        case .unknownKey: "no key, or more than one, of the key set matches the token"
        case .signature: "the token's signature is invalid"
        case .issuer: "the token's issuer is not accepted"
        case .audience: "the token's audience is not accepted"
        case .subject: "the token has no subject claim"
        case .noExpiry: "the token has no exp"
        case .notYetValid: "the token is not valid yet (nbf)"
        case .bound: "the token is bound to a key of its client (cnf or DPoP)"
        case .tooMany: "too many new tokens arrived in this second"
        }
    }

    fileprivate var advice: WhyAdvice? {
        switch self {
        case .unknownKey:
            WhyAdvice("credentials.identity.jwt.keys", "is the key set; it is fetched again for an unknown key, at most every 30 s")
        case .type: WhyAdvice("credentials.identity.jwt.type", "names the accepted types of tokens")
        case .issuer: WhyAdvice("credentials.identity.jwt.issuer", "names the issuers of accepted tokens")
        case .audience: WhyAdvice("credentials.identity.jwt.audience", "names the accepted audiences of tokens")
        case .subject: WhyAdvice("credentials.identity.jwt.subject", "is the claim that identifies the user")
        case .notYetValid: WhyAdvice("credentials.identity.jwt.leeway", "is the maximum difference between the clocks")
        case .noBearer, .severalFields, .tooLong, .malformed, .forbiddenHeader, .duplicateMember, .algorithm, .signature, .noExpiry, .bound,
            .tooMany:
            nil
        }
    }
}
