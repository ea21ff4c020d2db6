// What the operator decides about the fields that tell the upstream where a request came from (RFC 9110 §7.6.3, RFC 7239).

import WellKnownNames

/// How `Forwarded` and `X-Forwarded-*` of a client are treated.
public enum ForwardedPolicy: String, Sendable, CaseIterable {
    /// Those of the client are dropped, our own are set. The default: a client may write anything into them.
    case replace
    /// Ours are appended to the client's.
    case add
    /// The client's pass as they are: something trusted in front of us has set them. Where there are none, ours are set.
    case trust
    /// Neither the client's nor ours.
    case off
}

public struct ForwardingSettings: Sendable {
    public var forwarded = ForwardedPolicy.replace
    /// The name in `Via` and `Cache-Status`: of this deployment, not of the product (RFC 9209 §2).
    public var name = "cistern"
    /// Whether `Via` is added to requests and responses.
    public var via = true
    /// Send the client's Host instead of the upstream's own. The host is part of the key then.
    public var preserveHost = false
    /// Tell the upstream the client's Host in `Forwarded` and `X-Forwarded-Host`. Off by default: a client may write anything into it, and
    /// responses that depend on it must not be shared; where it is on, the host is part of the key.
    public var forwardHost = false
    /// Make a `Location` of the upstream's own origin relative, so that a redirect stays on this proxy.
    public var rewriteLocation = true
    /// Drop fields of untrusted clients that re-route or override.
    public var dropOverrides = true
    /// Which those are, in lower case: fields by which frameworks take another route, host, scheme or method than the request says. What we
    /// do not drop, the upstream may answer by, and all who share the key get that response.
    public var overrideFields = WellKnownNames.overrideFields
    /// Fields beside X-Forwarded-For and X-Real-IP that tell where a request came from, in lower case. Whatever of them a client writes, an
    /// upstream behind a content network or a load balancer may believe: so they go the same way as `X-Forwarded-For`.
    public var addressFields = WellKnownNames.addressFields

    /// Fields by which proxies say who has logged in, in lower case; `*` at the end stands for any rest. From anybody but a trusted proxy they are a
    /// claim, and are dropped.
    public var identityFields = WellKnownNames.identityFields
    /// Whether some proxies are trusted by their addresses: then what those say of users is passed on, whatever `forwarded` is.
    public var trustsProxies = false

    /// Who is told a request's name.
    public var requestID = RequestIDUse.off

    public init() {}

    /// Fields that the upstream never gets as a client sent them, in lower case: they are dropped, or Cistern sets them.
    public var fieldsSetAnew: [String] {
        let overrides = dropOverrides ? overrideFields : []
        guard forwarded == .trust else { return overrides + Self.forwardingFields }
        return overrides.filter { !$0.hasPrefix("x-forwarded-") }
    }

    /// Whether Cistern may pass on Forwarded as a client, or a proxy in front, sent it.
    public var passesForwarded: Bool { forwarded == .trust || forwarded == .add }

    /// What a client, or a proxy in front, says of the host, the path or the scheme that it was asked for.
    private static let forwardingFields = [
        "x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix", "x-forwarded-proto", "x-forwarded-scheme", "x-forwarded-server",
    ]

    /// Whether the upstream gets to see the client's Host in any way.
    public var sendsClientHost: Bool { preserveHost || (forwardHost && forwarded != .off) }
}
