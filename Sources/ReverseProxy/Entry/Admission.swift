// Determines the client of a request, and whether the request is refused. Applied before all other steps, also before a stored response is
// served.

import Addresses
import CachePolicy
import Decisions
import Downstream
import Forwarding
import HTTPCore

/// The operator's access rules.
public struct AccessSettings: Sendable {
    /// The field in which trusted proxies name the client.
    public var clientField = ForwardedField.auto
    /// The hosts that requests may name; empty allows any host.
    public var names = ServedNames()
    /// Whether clients may use Cistern as a forward proxy for what it serves.
    public var isForwardProxy = false
    /// Address rules of listeners that configure none.
    public var rules = AddressRules()
    /// Maximum number of concurrent requests of one address that need the upstream; 0: no limit.
    public var requestsPerAddress = 0

    public init() {}
}

struct Admission: Sendable {
    private let settings: AccessSettings
    private let trustedProxies: NetworkList
    private let routes: PathTable<AddressRules>
    private let hasRoutes: Bool
    /// The routes that require a client certificate.
    private let certified: PathTable<Bool>
    private let hasCertified: Bool
    /// Authority of the upstream.
    private let authority: [UInt8]
    /// Names that absolute request targets may contain if Cistern is a forward proxy.
    private let proxiedNames: ServedNames
    /// Whether no rule applies to a request with a path as its target.
    let isIdle: Bool

    init(_ settings: ProxySettings, _ routes: PathTable<AddressRules>, certified: PathTable<Bool>, authority: [UInt8]) {
        self.settings = settings.access
        trustedProxies = settings.downstream.trustedProxies
        self.routes = routes
        self.authority = authority
        proxiedNames = settings.access.isForwardProxy ? settings.proxiedNames : ServedNames()
        hasRoutes = routes.contains { !$0.isEmpty }
        let hasRules = hasRoutes || !settings.access.rules.isEmpty || settings.listening.listeners.contains { !$0.access.isEmpty }
        self.certified = certified
        hasCertified = certified.contains { $0 }
        let tls = settings.listening.tls
        let hasClientRules = settings.listening.listeners.contains { $0.isTLS && tls.hasClientRules(on: $0.verification) }
        isIdle =
            !hasCertified && !hasClientRules && trustedProxies.isEmpty && settings.access.names.isEmpty && !hasRules
    }

    var trustsSome: Bool { !trustedProxies.isEmpty }

    /// Attributes the request to its client, and returns the reason if it is refused.
    /// - Parameter isForNobody: no API serves the request, so no route applies.
    func admit(_ head: RequestHead, isForNobody: Bool = false, on stream: any ClientStream) -> AccessRefusal? {
        let peer = stream.peer.place
        if trustedProxies.contains(peer) {
            let client = ForwardedClient(head.fields, from: peer, settings.clientField, trusted: trustedProxies)
            let own = stream.client
            stream.attribute(
                to: RequestClient(client.address, isSecure: client.isSecure ?? own.isSecure, subject: own.subject, tls: own.tls))
        }
        let own = stream.listener.settings.access
        let client = stream.client.place
        guard (own.isEmpty ? settings.rules : own).allow(client) else { return .address }
        if hasRoutes, !isForNobody, routes.holdsForAny(head.pathAndQuery, { !$0.allow(client) }) { return .address }
        if let security = stream.security, !security.mayServe(String(decoding: head.host, as: UTF8.self)) { return .otherCertificate }
        if hasCertified, !isForNobody, stream.security?.certificate == nil, certified.holdsForAny(head.pathAndQuery, { $0 }) {
            return .noCertificate
        }
        return place(head, isForNobody: isForNobody, on: stream)
    }

    /// Whether to trust what the request says about its origin: it comes from a trusted proxy, or none is configured.
    func isBelieved(_ stream: any ClientStream) -> Bool {
        trustedProxies.isEmpty || trustedProxies.contains(stream.peer.place)
    }

    /// Returns nil if the request target is served here.
    private func place(_ head: RequestHead, isForNobody: Bool, on stream: any ClientStream) -> AccessRefusal? {
        if settings.isForwardProxy, let named = ForwardProxyTarget.authority(of: head) {
            guard isForNobody || proxiedNames.contains(named[...]) else { return .notProxied }
            // With a forward proxy, a client may use TLS for any request target.
            let isSecure = RequestTarget(head.target, method: head.method)?.isSecure ?? false
            return isSecure && !stream.client.isSecure ? .otherScheme : nil
        }
        let isNamed = settings.names.isEmpty || settings.names.contains(head.host)
        // An absolute target (RFC 9112 §3.2.2) may name any server. A client that uses Cistern as its forward proxy must not receive this
        // upstream's data.
        guard let target = RequestTarget(head.target, method: head.method), let isSecure = target.isSecure, let named = target.authority
        else {
            return isNamed ? nil : .misdirected
        }
        guard isSecure == stream.client.isSecure else { return .otherScheme }
        if !settings.names.isEmpty || named.equalsIgnoringCase(authority[...]) { return isNamed ? nil : .misdirected }
        let usual: UInt16 = isSecure ? 443 : 80
        return ServedNames.port(of: named) ?? usual == stream.listener.port ?? usual ? nil : .misdirected
    }
}
