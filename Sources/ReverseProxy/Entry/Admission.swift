// Resolves the client of a request, decides whether the request is refused, and removes or adds fields so that no later stage depends on
// what an untrusted client claims.

import Addresses
import CachePolicy
import Downstream
import Forwarding
import HTTPCore
import Upstream

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
}

struct Admission {
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
    /// Whether an upstream URL has a path. Request paths must not leave it.
    private let hasBasePath: Bool
    /// Whether cache keys contain the scheme, and whether connections add any fields to requests.
    private let marksScheme: Bool
    private let mayMark: Bool
    private let credentials: CredentialNames
    private let requestFields: UpstreamRequestFields

    init(_ settings: ProxySettings, _ routes: PathTable<AddressRules>, certified: PathTable<Bool>, _ requestFields: UpstreamRequestFields) {
        self.settings = settings.access
        trustedProxies = settings.downstream.trustedProxies
        self.routes = routes
        authority = Array(settings.upstream.authority.utf8)
        hasBasePath = settings.upstream.atEachAddress.contains { !$0.basePath.isEmpty }
        marksScheme = settings.policy.keyFields.contains(ConnectionField.scheme)
        mayMark = marksScheme || settings.policy.credentials.fields.contains(ConnectionField.certificate)
        credentials = settings.policy.credentials.names
        self.requestFields = requestFields
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

    /// Attributes the request to its client. Removes and adds fields, if the request is not refused.
    /// - Parameters:
    ///   - isOfNoAPI: whether no API serves the request.
    ///   - servesOwnPages: whether clients may request the proxy's own pages.
    /// - Returns: why the request is refused; nil if it is admitted.
    func admit(
        _ request: inout ReceivedRequest, isOfNoAPI: Bool, servesOwnPages: Bool, on stream: any ClientStream
    ) -> AccessRefusal? {
        // Removes the fields that the Connection field names, except credentials, and fields in which proxies describe the client.
        if request.head.contains(.connection) {
            let head = request.head.removingNamed { credentials.contains($0) || requestFields.isClaim($0) }
            request = ReceivedRequest(head: head, framing: request.framing, bytes: request.bytes)
        }
        if hasBasePath, PathReadings(request.head.pathAndQuery)?.mayLeaveRoot == true { return .outside }
        if !isIdle || request.head.target.first != UInt8(ascii: "/"),
            let refusal = refusal(of: request.head, isOfNoAPI: isOfNoAPI, on: stream)
        {
            // The proxy's own pages are not data of the upstream. Health checks may name Cistern by its address.
            let isPermitted = refusal == .misdirected && (isOfNoAPI || servesOwnPages && OwnPage(request.head) != nil)
            guard isPermitted else { return refusal }
        }
        // Untrusted claims are removed after the client address has been resolved.
        if !trustedProxies.isEmpty { removeClaims(from: &request, on: stream) }
        if mayMark { mark(&request, of: stream) }
        return nil
    }

    /// Whether this client may receive the repeated hit too.
    func mayRepeat(_ head: RequestHead, on stream: any ClientStream) -> Bool {
        (isIdle || refusal(of: head, isOfNoAPI: false, on: stream) == nil) && hasNoCertificateMark(stream)
    }

    /// Whether responses to this client may differ from those by http.
    func countsAsSecure(_ client: RequestClient) -> Bool { marksScheme && client.isSecure }

    /// Attributes the request to its client, and returns the reason if it is refused.
    /// - Parameter isOfNoAPI: no API serves the request, so no route applies.
    private func refusal(of head: RequestHead, isOfNoAPI: Bool, on stream: any ClientStream) -> AccessRefusal? {
        let peer = stream.peer.clientAddress
        if trustedProxies.contains(peer) {
            let client = ForwardedClient(head.fields, from: peer, settings.clientField, trusted: trustedProxies)
            let own = stream.client
            stream.attribute(
                to: RequestClient(client.address, isSecure: client.isSecure ?? own.isSecure, subject: own.subject, tls: own.tls))
        }
        let own = stream.listener.settings.access
        let client = stream.client.clientAddress
        guard (own.isEmpty ? settings.rules : own).allow(client) else { return .address }
        if hasRoutes, !isOfNoAPI, routes.holdsForAny(head.pathAndQuery, { !$0.allow(client) }) { return .address }
        if let security = stream.security, !security.mayServe(String(decoding: head.host, as: UTF8.self)) { return .otherCertificate }
        if hasCertified, !isOfNoAPI, stream.security?.certificate == nil, certified.holdsForAny(head.pathAndQuery, { $0 }) {
            return .noCertificate
        }
        return misdirection(head, isOfNoAPI: isOfNoAPI, on: stream)
    }

    /// Returns what is forwarded to the upstream about a client. What the request says about its origin is trusted if it comes from a
    /// trusted proxy, or if no trusted proxy is configured.
    func upstreamClient(of stream: any ClientStream, _ head: RequestHead) -> UpstreamRequestFields.Client {
        let isTrusted = trustedProxies.isEmpty || trustedProxies.contains(stream.peer.clientAddress)
        return UpstreamRequestFields.Client(stream.client, head, isTrusted: isTrusted)
    }

    /// Returns why the request target is not served here; nil if it is served.
    private func misdirection(_ head: RequestHead, isOfNoAPI: Bool, on stream: any ClientStream) -> AccessRefusal? {
        if settings.isForwardProxy, let named = ForwardProxyTarget.authority(of: head) {
            guard isOfNoAPI || proxiedNames.contains(named[...]) else { return .notProxied }
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

    // MARK: Fields

    /// Removes what an untrusted client says about its origin. The upstream does not receive these fields, and no key or variant depends
    /// on them. Also removes the raw bytes, because equal bytes have another meaning if a trusted proxy sent them.
    private func removeClaims(from request: inout ReceivedRequest, on stream: any ClientStream) {
        let head = trustedProxies.contains(stream.peer.clientAddress) ? request.head : requestFields.withoutClaims(request.head)
        request = ReceivedRequest(head: head, framing: request.framing, bytes: nil)
    }

    /// Adds fields for what the connection reveals about the client (`ConnectionField`), so that keys and credentials include it.
    private func mark(_ request: inout ReceivedRequest, of stream: any ClientStream) {
        let marks = marks(of: stream)
        guard !marks.isEmpty else { return }
        // With a certificate, the request's bytes do not identify it. The memo of hits takes the scheme into account (`countsAsSecure`).
        let bytes = hasNoCertificateMark(stream) ? request.bytes : nil
        request = ReceivedRequest(head: request.head.adding(marks), framing: request.framing, bytes: bytes)
    }

    private func hasNoCertificateMark(_ stream: any ClientStream) -> Bool { !mayMark || stream.security?.certificateField == nil }

    private func marks(of stream: any ClientStream) -> [(name: String, value: [UInt8])] {
        var marks: [(name: String, value: [UInt8])] = []
        if countsAsSecure(stream.client) { marks.append((ConnectionField.scheme, Array("https".utf8))) }
        if let value = stream.security?.certificateField { marks.append((ConnectionField.certificate, value)) }
        return marks
    }
}
