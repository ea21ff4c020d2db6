// What a look-up brings.

import CachePolicy
import CacheStore
import Identity

/// What is stored for a request, where it was looked for, and what that goes by.
public struct Finding {
    public let keys: TargetKeys
    public var result: LookUpResult
    public let basis: FindingBasis
}

/// What a finding goes by. All that was looked at is in it, also where nothing lay: a mark that is set there later makes the response invalid.
public struct FindingBasis: Sendable {
    public internal(set) var lookUps = LookUpBasis()
    /// The names of the selecting fields, where the response is one of several variants.
    public internal(set) var selecting: [ArraySlice<UInt8>] = []
    /// What the request's token came to; nil where none was looked at.
    public internal(set) var identity: RequestIdentity?

    /// A copy for requests without unknown fields is stored, and is not for this request.
    var isBesidePlain = false

    /// When it was stored or confirmed: what it counts by while others' purges are not seen. nil where nothing is shared.
    var confirmed: Timestamp?

    /// The same for metrics and explanations.
    public var identityOutcome: IdentityOutcome? { identity?.outcome }

    /// Before it the same is found: milliseconds since 1970.
    public var ends: Int64 { identity?.ends ?? .max }

    /// Whom the upstream should be asked about.
    public var toldDue: ToldIdentity? {
        guard case .told(let told)? = identity, told.isDue else { return nil }
        return told
    }

    /// Whether the keys are still those that the token was looked at with.
    var isIdentityCurrent: Bool { identity?.isUnchanged ?? true }
}

public enum LookUpResult {
    case found(FoundResponse)
    case nothing
    /// Something is stored for this key, but for other values of the selecting fields; with the key that theirs would have.
    case otherVariant([UInt8])

    public var found: FoundResponse? {
        if case .found(let found) = self { found } else { nil }
    }

    /// The key under which requests that can have one response meet.
    public func flightKey(_ keys: TargetKeys) -> [UInt8] {
        let key =
            switch self {
            case .found(let found): Self.flightKey(found.key, keys)
            case .otherVariant(let variant): Self.flightKey(variant, keys)
            case .nothing: keys.own
            }
        guard let unknown = keys.unknownFields, found?.metadata.flags.contains(.forAllFields) != true else { return key }
        // Nobody knows what they select: what is left out of the hash counts too.
        return key + [1] + unknown.exact
    }

    /// What one user's request brings may be for that user alone: so nobody else waits for it, also where what was found is for others too.
    private static func flightKey(_ key: [UInt8], _ keys: TargetKeys) -> [UInt8] { keys.isCommon(key) ? keys.own + key : key }
}
