// Whose a request is, and whether it may come in at all: asked before anything else is done with it, and before what is stored goes out.

import Addresses
import CachePolicy
import Decisions
import Downstream
import Forwarding
import HTTPCore

/// What the operator says of it.
public struct AccessSettings: Sendable {
    /// The field in which trusted proxies say whose a request is.
    public var clientField = ForwardedField.auto
    /// The hosts that requests may be for; empty for any.
    public var names = ServedNames()
    /// Whether clients may take this for their forward proxy, for what is served here.
    public var isForwardProxy = false
    /// For every listener that has no rules of its own.
    public var rules = AddressRules()
    /// Requests of one address that need the upstream at once; 0: no limit.
    public var requestsPerAddress = 0

    public init() {}
}

struct Admission: Sendable {
    private let settings: AccessSettings
    private let trustedProxies: NetworkList
    private let routes: PathTable<AddressRules>
    private let hasRoutes: Bool
    /// The routes that want a client certificate.
    private let certified: PathTable<Bool>
    private let hasCertified: Bool
    /// Of the upstream.
    private let authority: [UInt8]
    /// By which whole URIs name it, where this is a forward proxy.
    private let proxiedNames: ServedNames
    /// Whether there is nothing to ask of a request whose target is a path.
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

    /// Says whose the request is, and whether it is refused.
    /// - Parameter isForNobody: no API is for it, so no route is.
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

    /// Whether those who trust nobody else believe what the request says of itself.
    func isBelieved(_ stream: any ClientStream) -> Bool {
        trustedProxies.isEmpty || trustedProxies.contains(stream.peer.place)
    }

    /// nil where what the request asks for is here.
    private func place(_ head: RequestHead, isForNobody: Bool, on stream: any ClientStream) -> AccessRefusal? {
        if settings.isForwardProxy, let named = ForwardProxyTarget.authority(of: head) {
            guard isForNobody || proxiedNames.contains(named[...]) else { return .notProxied }
            // With a forward proxy a client may speak TLS whatever it asks for.
            let isSecure = RequestTarget(head.target, method: head.method)?.isSecure ?? false
            return isSecure && !stream.client.isSecure ? .otherScheme : nil
        }
        let isNamed = settings.names.isEmpty || settings.names.contains(head.host)
        // A whole URI (RFC 9112 §3.2.2) may name any place: a client that takes this for its forward proxy must not be given this upstream's data.
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

extension ProxyShard {
    /// nil where it may come in.
    /// - Parameter isForNobody: no API is for it.
    func refusal(of request: ReceivedRequest, isForNobody: Bool, on stream: any ClientStream) -> AccessRefusal? {
        if hasBasePath, PathReadings(request.head.pathAndQuery)?.mayLeaveRoot == true { return .outside }
        if admission.isIdle, request.head.target.first == UInt8(ascii: "/") { return nil }
        let refusal = admission.admit(request.head, isForNobody: isForNobody, on: stream)
        // Own pages are not the upstream's data: whoever asks after our health names us by our address.
        return refusal == .misdirected && ownPages != nil && OwnPage(request.head) != nil ? nil : refusal
    }

    /// The request without the fields that its Connection field takes away. Credentials and what proxies say of the client stay.
    func withoutNamed(_ request: ReceivedRequest) -> ReceivedRequest {
        guard request.head.contains(.connection) else { return request }
        let credentials = settings.policy.credentials.names
        let head = request.head.removingNamed { credentials.contains($0) || messages.requestFields.isClaim($0) }
        return ReceivedRequest(head: head, framing: request.framing, bytes: request.bytes)
    }

    /// The request as it counts from here on. What a stranger says of where it comes from is said by nobody: neither the upstream hears it, nor may
    /// a key, a variant or another client's response depend on it. The same bytes mean another thing from a trusted proxy.
    func believed(_ request: ReceivedRequest, on stream: any ClientStream) -> ReceivedRequest {
        guard admission.trustsSome else { return request }
        let head = admission.isBelieved(stream) ? request.head : messages.requestFields.withoutClaims(request.head)
        return ReceivedRequest(head: head, framing: request.framing, bytes: nil)
    }

    /// What was sent a moment ago must be this client's too.
    func mayRepeat(_ head: RequestHead, on stream: any ClientStream) -> Bool {
        admission.isIdle || admission.admit(head, on: stream) == nil
    }

    /// Its content is not waited for.
    /// - Parameter isForNobody: no API is for it.
    func refuse(
        _ request: ReceivedRequest, _ refusal: AccessRefusal, isForNobody: Bool, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        var facts = facts(request.head, on: stream)
        // It names another place by its nature.
        facts.refusal = request.head.method == .connect && refusal.isOfPlace ? .connect : .access(refusal)
        let body: RequestBody =
            request.framing == .none
            ? .none : .streamed(.unread(request.framing))
        var arrival = arrival(body)
        arrival.isForNobody = isForNobody
        return perform(facts, request.head, body, arrival, stream)
    }
}
