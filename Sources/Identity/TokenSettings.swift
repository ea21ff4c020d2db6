// Settings for the tokens of a route (`credentials.identity.jwt`).

/// Settings and keys for the tokens of a route.
public struct TokenRules: Sendable {
    public let settings: TokenSettings
    public let keys: KeySource

    public init(_ settings: TokenSettings, _ keys: KeySource) { (self.settings, self.keys) = (settings, keys) }
}

public struct TokenSettings: Sendable, Equatable {
    /// Accepted issuers and audiences. A token must have one of each.
    public var issuers: [String]
    public var audiences: [String]
    /// The claim that identifies the user.
    public var subject = "sub"
    /// Accepted values of `typ` (RFC 8725 §3.11); empty to accept any.
    public var types: [String] = []
    /// Claims that change when a token is renewed, in addition to `alwaysVolatile`.
    public var volatileClaims: [String] = []
    /// Maximum difference between the clocks. Fractions of a second are ignored.
    public var leeway = Duration.seconds(60)
    /// Time after its expiry for which a token may still be used for a rescue with its own user's stored responses. Fractions of a second
    /// are ignored.
    public var rescuesExpired = Duration.zero

    /// Claims in which two tokens of one user differ, whatever their rights.
    public static let alwaysVolatile = ["exp", "iat", "nbf", "jti", "auth_time", "nonce", "at_hash", "sid"]

    public init(issuers: [String] = [], audiences: [String] = []) { (self.issuers, self.audiences) = (issuers, audiences) }

    /// Whether a claim is not part of the identity. Claims of subject, issuer and audience are always part of it.
    func isVolatile(_ claim: [UInt8]) -> Bool {
        let name = String(decoding: claim, as: UTF8.self)
        guard name != subject, !Self.alwaysIdentity.contains(name) else { return false }
        return Self.alwaysVolatile.contains(name) || volatileClaims.contains(name)
    }

    /// Claims that are always part of the identity.
    public static let alwaysIdentity = ["iss", "sub", "aud"]
}
