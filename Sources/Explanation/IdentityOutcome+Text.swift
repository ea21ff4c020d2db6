// Texts for the result of identifying a request's user, and the setting that would change it.

import CachePolicy

extension IdentityOutcome {
    public var sentence: String {
        switch self {
        case .verified: "The request's token was verified: the copies are those of its user, whatever token was sent for them."
        case .expired: "The request's token has expired, so it has a partition to itself."
        case .refused(let reason): "The request's token was not verified (\(reason.sentence)), so it has a partition to itself."
        case .lookedUp: "The upstream identified the user of the request's credentials: the copies are those of that user."
        case .lookedUpBefore: "The upstream identified the user of these credentials too long ago, so they have a partition to themselves."
        case .notIdentified: "The upstream has not identified the user of these credentials, so they have a partition to themselves."
        }
    }

    /// nil if no setting changes the result.
    public var advice: WhyAdvice? {
        switch self {
        case .verified, .lookedUp: nil
        case .lookedUpBefore: WhyAdvice("credentials.identity.lookup.keep", "is how long the upstream's word counts")
        case .notIdentified:
            WhyAdvice(
                "credentials.identity.lookup.identity", "and credentials.identity.lookup.fields name what must be in its response")
        case .expired:
            WhyAdvice(
                "credentials.identity.jwt.rescue_expired",
                "is how long after its end a token has its user's copies while the upstream fails")
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
        case .tooLong: "it is longer than 8 KiB"
        case .malformed: "it is no signed JSON Web Token"
        case .forbiddenHeader: "its head wants to say how it is checked: crit, jku, x5u, jwk or x5c"
        case .duplicateMember: "it has a name twice"
        case .algorithm: "its algorithm is none of RS, PS and ES with 256, 384 or 512, and EdDSA"
        case .type: "its typ is another"
        case .unknownKey: "no key of the set is the one that it names, or it is unclear which one is"
        case .signature: "its signature is wrong"
        case .issuer: "its issuer is another"
        case .audience: "it is for another audience"
        case .subject: "it does not say whom it belongs to"
        case .noExpiry: "it does not say when it ends"
        case .notYetValid: "it is not valid yet"
        case .bound: "it is bound to a key of its client (cnf or DPoP)"
        case .tooMany: "too many tokens were new in this second"
        }
    }

    fileprivate var advice: WhyAdvice? {
        switch self {
        case .unknownKey: WhyAdvice("credentials.identity.jwt.keys", "is where the keys are; an unknown one is looked for once in 30 s")
        case .type: WhyAdvice("credentials.identity.jwt.type", "names the types of tokens that are taken")
        case .issuer: WhyAdvice("credentials.identity.jwt.issuer", "names the issuers of accepted tokens")
        case .audience: WhyAdvice("credentials.identity.jwt.audience", "names those for whom the tokens are that are taken")
        case .subject: WhyAdvice("credentials.identity.jwt.subject", "is the claim that says whom a token belongs to")
        case .notYetValid: WhyAdvice("credentials.identity.jwt.leeway", "is how far the clocks may be apart")
        case .noBearer, .severalFields, .tooLong, .malformed, .forbiddenHeader, .duplicateMember, .algorithm, .signature, .noExpiry, .bound,
            .tooMany:
            nil
        }
    }
}
