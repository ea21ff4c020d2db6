// What the operator says of the tokens of a route (`credentials.identity.jwt`).

/// The same, with the keys.
public struct TokenRules: Sendable {
    public let settings: TokenSettings
    public let keys: KeySource

    public init(_ settings: TokenSettings, _ keys: KeySource) { (self.settings, self.keys) = (settings, keys) }
}

public struct TokenSettings: Sendable, Equatable {
    /// Who may have made them, and for whom they are: a token must name one of each.
    public var issuers: [String] = []
    public var audiences: [String] = []
    /// The claim that tells whom a token belongs to.
    public var subject = "sub"
    /// What `typ` must be (RFC 8725 §3.11); empty for anything.
    public var types: [String] = []
    /// Claims that a refresh changes, beside those that always count as such.
    public var volatileClaims: [String] = []
    /// How far the clocks may be apart, in seconds.
    public var leeway: Int64 = 60
    /// How long after its end a token may still have its own user's copy while the upstream is away, in seconds.
    public var rescuesExpired: Int64 = 0

    /// Claims that two tokens of one user differ in, whatever their rights.
    public static let alwaysVolatile = ["exp", "iat", "nbf", "jti", "auth_time", "nonce", "at_hash", "sid"]

    public init() {}

    public init(issuers: [String], audiences: [String]) {
        (self.issuers, self.audiences) = (issuers, audiences)
    }

    /// Whether a claim is left out of an identity. Never those that say who, by whom and for whom.
    func isVolatile(_ claim: [UInt8]) -> Bool {
        let name = String(decoding: claim, as: UTF8.self)
        guard name != subject, !Self.alwaysIdentity.contains(name) else { return false }
        return Self.alwaysVolatile.contains(name) || volatileClaims.contains(name)
    }

    /// Claims that no setting can leave out.
    public static let alwaysIdentity = ["iss", "sub", "aud"]
}
