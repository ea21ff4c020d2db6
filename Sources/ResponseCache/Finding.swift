// The result of a lookup.

import CachePolicy
import CacheStore
import Identity

/// The result of a lookup, the keys that were looked up, and everything that the result depends on.
public struct Finding {
    public let keys: TargetKeys
    public var result: LookUpResult
    public let basis: FindingBasis
}

/// What a result depends on: every key that was looked up, including absent ones, because a mark stored there later invalidates the
/// response.
public struct FindingBasis: Sendable {
    public internal(set) var lookUps = LookUpBasis()
    /// Names of the selecting fields, if the response is one of several variants.
    public internal(set) var selecting: [ArraySlice<UInt8>] = []
    /// Identity derived from the request's token; nil if tokens are not examined.
    public internal(set) var identity: RequestIdentity?

    /// A response for requests without unknown fields is stored, but does not apply to this request.
    var isStoredForPlainOnly = false

    /// When the response was stored or confirmed, which limits its use while purges of other nodes cannot be seen. nil if nothing is
    /// shared.
    var confirmed: Timestamp?

    /// Outcome of `identity` for metrics and explanations.
    public var identityOutcome: IdentityOutcome? { identity?.outcome }

    /// Time until which the result does not change, in milliseconds since 1970.
    public var ends: Int64 { identity?.ends ?? .max }

    /// The identity to look up at the upstream; nil if none is due.
    public var lookUpDue: LookedUpIdentity? {
        guard case .lookedUp(let lookedUp)? = identity, lookedUp.isDue else { return nil }
        return lookedUp
    }

    /// Whether the keys are still based on the current identity.
    var isIdentityCurrent: Bool { identity?.isUnchanged ?? true }
}

public enum LookUpResult {
    case found(FoundResponse)
    case nothing
    /// A response is stored for this key, but for other values of the selecting fields. With the key of the request's variant.
    case otherVariant([UInt8])

    public var found: FoundResponse? {
        if case .found(let found) = self { found } else { nil }
    }

    /// Whether there is a stored response which declares for which requests it may be used (`StoredFlags.forAllFields`).
    public var declaresUse: Bool { found?.metadata.flags.contains(.forAllFields) == true }

    /// Returns the key under which requests that can share a response are collapsed.
    public func flightKey(_ keys: TargetKeys) -> [UInt8] {
        let key =
            switch self {
            // A response to one user's request may be for that user only. So users do not share a fetch, even if the stored response is
            // shared.
            case .found(let found): keys.isCommon(found.key) ? keys.own + found.key : found.key
            case .otherVariant(let variant): keys.isCommon(variant) ? keys.own + variant : variant
            case .nothing: keys.own
            }
        guard let unknown = keys.unknownFields, unknown.isOtherSpelling || !declaresUse else { return key }
        // It is unknown which fields the upstream uses, so fields that are left out of the hash count too.
        return key + [1] + unknown.exact
    }
}
