// Settings for the fields that describe the origin of a forwarded request (RFC 9110 §7.6.3, RFC 7239).

/// How a client's `Forwarded` and `X-Forwarded-*` are handled.
public enum ForwardedPolicy: String, Sendable, CaseIterable {
    /// The client's fields are dropped, and Cistern's are set. The default, because clients may write anything into them.
    case replace
    /// Cistern's values are appended to the client's.
    case add
    /// The client's fields are forwarded unchanged, because a trusted proxy has set them. If there are none, Cistern's are set.
    case trust
    /// Neither the client's fields nor Cistern's are forwarded.
    case off
}

public struct ForwardingSettings: Sendable {
    public var forwarded = ForwardedPolicy.replace
    /// Name in `Via` and `Cache-Status`: the name of this deployment, not of the product (RFC 9209 §2).
    public var name = "cistern"
    /// Whether `Via` is added to requests and responses.
    public var via = true
    /// Whether stale and rescued responses have Cistern-Stale.
    public var staleField = true
    /// Whether the client's Host is forwarded instead of the upstream's. The host is then part of the key.
    public var preserveHost = false
    /// Whether the client's Host is sent in `Forwarded` and `X-Forwarded-Host`. Off by default: clients may set it to any value, and
    /// responses that depend on it must not be shared. If on, the host is part of the key.
    public var forwardHost = false
    /// Whether a `Location` of the upstream's own origin is made relative, so that clients follow redirects through this proxy.
    public var rewriteLocation = true
    /// Fields that are dropped, in lower case. Frameworks use them to select another route, host, scheme or method than that of the
    /// request. If such a field is forwarded, its response may be shared by all requests with this key.
    public var overrideFields = WellKnownNames.overrideFields
    /// Fields that give a client's address, besides X-Forwarded-For and X-Real-IP, in lower case. An upstream behind a CDN or a load
    /// balancer may trust them, so they are handled like `X-Forwarded-For`.
    public var addressFields = WellKnownNames.addressFields

    /// Fields in which proxies name the authenticated user, in lower case. A trailing `*` matches any ending. They are dropped unless they
    /// come from a trusted proxy.
    public var identityFields = WellKnownNames.identityFields
    /// Whether proxies are trusted by address. Their statements about users are then forwarded, regardless of `forwarded`.
    public var trustsProxies = false

    /// Where a request ID is sent.
    public var requestID = RequestIDUse.off

    public init() {}

    /// Converts names that an operator has written to lower case.
    public mutating func lowercaseNames() {
        overrideFields = overrideFields.map { $0.lowercased() }
        addressFields = addressFields.map { $0.lowercased() }
        identityFields = identityFields.map { $0.lowercased() }
    }

    /// Fields that are never forwarded with the client's value, in lower case: they are dropped, or Cistern sets them.
    public var fieldsSetAnew: [String] {
        guard forwarded == .trust else { return overrideFields + Self.forwardingFields }
        return overrideFields.filter { !$0.hasPrefix("x-forwarded-") }
    }

    /// Whether Forwarded of a client, or of a proxy in front, may be forwarded unchanged.
    public var passesForwarded: Bool { forwarded == .trust || forwarded == .add }

    /// Fields in which a client, or a proxy in front, states the requested host, path or scheme.
    private static let forwardingFields = [
        "x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix", "x-forwarded-proto", "x-forwarded-scheme", "x-forwarded-server",
    ]

    /// Whether the client's Host is forwarded in any field.
    public var sendsClientHost: Bool { preserveHost || (forwardHost && forwarded != .off) }
}
