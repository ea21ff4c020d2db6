// Builds the fields of forwarded requests. Removes hop-by-hop fields and fields that could redirect the request, sets Host, and adds Via
// and forwarding fields. No other file drops untrusted claims of clients.

import HTTPCore

/// A class, so that passing it along copies nothing.
public final class UpstreamRequestFields {
    public let settings: ForwardingSettings
    /// Host and port of the upstream, as in a Host field.
    public let authority: [UInt8]
    /// Identifies this process in Via, to detect loops.
    private let instance: String
    private let overrides: Overrides
    /// Overrides for requests without a trusted proxy.
    private let overridesOfStrangers: Overrides
    /// Fields of every forwarded request.
    private let constant: Fields
    private let via10: [UInt8]
    private let via11: [UInt8]
    private let via2: [UInt8]

    public init(settings: ForwardingSettings, authority: [UInt8], instance: String) {
        self.settings = settings
        self.authority = authority
        self.instance = instance
        overrides = Overrides(settings, settings.forwarded, isTrusted: settings.trustsProxies || settings.forwarded == .trust)
        overridesOfStrangers = Overrides(settings, .replace, isTrusted: false)
        var constant = Fields()
        if !settings.preserveHost { constant.append(.host, authority) }
        self.constant = constant
        via10 = Array("1.0 \(settings.name) (\(instance))".utf8)
        via11 = Array("1.1 \(settings.name) (\(instance))".utf8)
        via2 = Array("2 \(settings.name) (\(instance))".utf8)
    }

    /// Dropped fields, from `ForwardingSettings.overrideFields`, `addressFields` and `identityFields`.
    private final class Overrides {
        /// Dropped fields in `KnownField`; all others are in `names`.
        private(set) var known: KnownFieldSet = []
        /// Names, indexed by the low bits of their first character.
        private var names: [[[UInt8]]] = Array(repeating: [], count: 32)
        /// Prefixes of names, indexed by the low bits of their first character.
        private var prefixes: [[[UInt8]]] = Array(repeating: [], count: 32)

        /// - Parameter isTrusted: whether the sender's statements about users are trusted.
        init(_ settings: ForwardingSettings, _ policy: ForwardedPolicy, isTrusted isSenderTrusted: Bool) {
            // A trusted proxy reports its own changes in X-Forwarded-*.
            let isTrusted = { (name: String) in policy == .trust && name.hasPrefix("x-forwarded-") }
            let overrides = settings.overrideFields.filter { !isTrusted($0) }
            let addresses = policy == .trust ? [] : settings.addressFields
            for name in overrides + addresses + (isSenderTrusted ? [] : settings.identityFields) {
                let name = Array(name.utf8)
                guard let first = name.first else { continue }
                if name.last == UInt8(ascii: "*") {
                    prefixes[Self.index(first)].append(name.dropLast())
                } else if let field = KnownField(name.span) {
                    known.insert(field)
                } else {
                    names[Self.index(first)].append(name)
                }
            }
        }

        private static func index(_ byte: UInt8) -> Int { Int(byte & 0x1f) }

        /// Returns whether a field outside `KnownField` is dropped, in any spelling that an upstream may read as a dropped name.
        func holdsOther(_ name: Span<UInt8>) -> Bool {
            guard !name.isEmpty else { return false }
            let index = Self.index(name[0])
            for other in names[index] where name.isReadAsName(other.span) { return true }
            for prefix in prefixes[index] where name.count > prefix.count {
                if name.extracting(0..<prefix.count).isReadAsName(prefix.span) { return true }
            }
            return false
        }
    }

    /// The origin of a request, for the forwarding fields.
    public struct Client: Sendable {
        /// Address as text; empty for a Unix socket.
        public var address: [UInt8]
        public var isIPv6: Bool
        /// Host field, or the authority of an absolute target.
        public var host: ArraySlice<UInt8>
        /// Whether the client used https.
        public var isSecure = false
        /// Whether the request came through a trusted proxy. If not, its forwarding fields are ignored, whatever the policy is.
        public var isTrusted = true

        public init(address: [UInt8], isIPv6: Bool, host: ArraySlice<UInt8>) {
            self.address = address
            self.isIPv6 = isIPv6
            self.host = host
        }
    }

    private static let forwarding: KnownFieldSet = [
        .forwarded, .xForwardedFor, .xForwardedHost, .xForwardedPort, .xForwardedPrefix, .xForwardedProto, .xForwardedScheme,
        .xForwardedServer,
        .xRealIP,
    ]

    /// Fields in which clients name another method.
    public static let methodOverrides: KnownFieldSet = [.xHTTPMethod, .xHTTPMethodOverride, .xMethodOverride]

    /// - Parameters:
    ///   - head: the client's request.
    ///   - keepsMethodOverride: whether the upstream receives fields in which the client names another method. False if the response may be
    ///     stored.
    ///   - rules: the operator's changes for the request's path.
    public func make(
        from head: RequestHead, client: Client, keepsMethodOverride: Bool = false, _ rules: UpstreamFieldRules
    ) -> Fields {
        let overrides = client.isTrusted ? overrides : overridesOfStrangers
        var fields = constant
        fields.reserve(bytes: head.fields.bytes.count + 256, lines: head.fields.count + 8)
        if settings.preserveHost { fields.append(.host, client.host.span) }
        let source = head.fields.removingHopByHop()
        fields.append(contentsOf: source) { entry in
            if keepsMethodOverride, let known = entry.known, Self.methodOverrides.contains(known) { return true }
            return entry.known.map { !isDropped($0, overrides) }
                ?? !isOtherOverride(source.bytes.span.extracting(entry.nameRange), overrides)
        }
        switch client.isTrusted || settings.forwarded == .off ? settings.forwarded : .replace {
        case .off: break
        case .trust where source.containsAny(of: Self.forwarding):
            for entry in source.entries {
                guard let known = entry.known, Self.forwarding.contains(known) else { continue }
                fields.append(known, source.bytes.span.extracting(entry.valueRange))
            }
        case .trust, .replace: addOwn(to: &fields, client: client)
        case .add:
            for field in [KnownField.forwarded, .xForwardedFor] {
                for value in source.all(field) { fields.append(field, Array(value)) }
            }
            addOwn(to: &fields, client: client)
        }
        addCertificate(to: &fields, source: source)
        if let count = RequestRefusal.countedDown(head) { fields.set(.maxForwards, count) }
        if settings.via { fields.append(.via, viaValue(head.version)) }
        rules.apply(to: &fields)
        return fields
    }

    /// Returns whether `make` removes a field in which the client names another method, unless it keeps these fields.
    public func removesMethodOverride(from head: RequestHead) -> Bool {
        guard head.fields.containsAny(of: Self.methodOverrides) else { return false }
        return head.fields.entries.contains { Self.methodOverrides.holds($0) && overrides.known.holds($0) }
    }

    /// Adds the client certificate, if it is forwarded (RFC 9440 §2.2). Fields of clients with this name were removed.
    private func addCertificate(to fields: inout Fields, source: Fields) {
        guard let value = source.all(named: Self.certificateName.span).first, let space = value.firstIndex(of: 0x20) else { return }
        fields.append(name: "Client-Cert", value: String(decoding: value[(space + 1)...], as: UTF8.self))
    }

    private static let certificateName = Array(ConnectionField.certificate.utf8)

    /// Returns the request without a client's untrusted statements about its origin and about other routes.
    public func withoutClaims(_ head: RequestHead) -> RequestHead {
        let fields = head.fields
        let isClaim = { [self] (entry: Fields.Entry) in
            if let known = entry.known {
                return Self.forwarding.contains(known) || overridesOfStrangers.known.contains(known) && !overrides.known.contains(known)
            }
            let name = fields.bytes.span.extracting(entry.nameRange)
            return isOtherOverride(name, overridesOfStrangers) && !isOtherOverride(name, overrides)
        }
        guard fields.entries.contains(where: isClaim) else { return head }
        return head.replacing(fields: Fields(bytes: fields.bytes, entries: fields.entries.filter { !isClaim($0) }))
    }

    private func isDropped(_ field: KnownField, _ overrides: Overrides) -> Bool {
        switch field {
        // Content-Length and Transfer-Encoding are derived from the framing, Expect has been handled already, and Cistern's own fields are
        // not forwarded.
        case .host, .contentLength, .transferEncoding, .expect, .cisternKey, .cisternMode, .cisternWhy: true
        default:
            overrides.known.contains(field) || Self.forwarding.contains(field)
        }
    }

    /// Returns whether a field outside `KnownField` is dropped. Many upstreams read a name with other separators as the field itself
    /// (`isReadAsName`).
    private func isOtherOverride(_ name: Span<UInt8>, _ overrides: Overrides) -> Bool {
        if overrides.holdsOther(name) || Self.isCertificateField(name) || ConnectionField.isName(name) { return true }
        guard name.indices.contains(where: { name[$0] != UInt8(ascii: "-") && name[$0].asFieldNameByte == UInt8(ascii: "-") }) else {
            return false
        }
        let hyphenated = name.indices.map { name[$0].asFieldNameByte }
        return KnownField(hyphenated.span).map { Self.ofContent.contains($0) || isDropped($0, overrides) } ?? false
    }

    /// Fields that describe the content. Other spellings of their names are dropped, so that the upstream does not read two of them.
    private static let ofContent: KnownFieldSet = [.contentType, .contentEncoding, .contentRange]

    /// Returns whether a field states the client's identity or origin. Such a field cannot be removed by a Connection option.
    public func isClaim(_ name: Span<UInt8>) -> Bool {
        if let known = KnownField(name) { return overridesOfStrangers.known.contains(known) }
        return overridesOfStrangers.holdsOther(name) || Self.isCertificateField(name)
    }

    /// Returns whether upstreams treat a field as set by a proxy that has verified a client certificate.
    private static func isCertificateField(_ name: Span<UInt8>) -> Bool {
        guard name.count >= clientCert.count else { return false }
        let isExact = name.isReadAsName(clientCert.span) || name.isReadAsName(clientCertChain.span)
        return isExact || name.count > proxyPrefix.count && name.extracting(0..<proxyPrefix.count).isReadAsName(proxyPrefix.span)
    }

    private static let clientCert = Array("client-cert".utf8)
    private static let clientCertChain = Array("client-cert-chain".utf8)
    private static let proxyPrefix = Array("x-ssl-client-".utf8)

    /// Via entry such as `1.1 cistern (a1b2c3d4)` (RFC 9110 §7.6.3). The comment distinguishes this process from others with this name.
    private func viaValue(_ version: HTTPVersion) -> [UInt8] {
        switch version {
        case .http10: via10
        case .http11: via11
        case .http2: via2
        }
    }

    /// Returns whether this process has already forwarded the request.
    public func isLoop(_ head: RequestHead) -> Bool {
        guard head.contains(.via) else { return false }
        let own = Array("(\(instance))".utf8)
        return head.fields.all(.via).contains { Self.contains($0, own) }
    }

    /// The first byte of the text is rare in Via, so this is a single pass.
    private static func contains(_ value: ArraySlice<UInt8>, _ text: [UInt8]) -> Bool {
        value.indices.contains { value[$0] == text.first && value[$0...].starts(with: text) }
    }

    private static let (http, https) = (Array("http".utf8), Array("https".utf8))
    /// Upper bound for the fixed parts of Forwarded, in bytes.
    private static let forwardedBytes = 64

    /// Adds Forwarded, and the X-Forwarded fields that most frameworks read.
    private func addOwn(to fields: inout Fields, client: Client) {
        let scheme: StaticString = client.isSecure ? "https" : "http"
        fields.append(.forwarded, atMost: client.address.count + client.host.count + Self.forwardedBytes) { value in
            value.put("for=")
            if client.isIPv6 { value.put("\"[") }
            if client.address.isEmpty { value.put("unknown") } else { value.put(client.address) }
            if client.isIPv6 { value.put("]\"") }
            if settings.forwardHost {
                value.put(";host=\"")
                value.put(client.host.span)
                value.put("\"")
            }
            value.put(";proto=")
            value.put(scheme)
        }
        if !client.address.isEmpty { fields.append(.xForwardedFor, client.address) }
        if settings.forwardHost { fields.append(.xForwardedHost, client.host.span) }
        fields.append(.xForwardedProto, client.isSecure ? Self.https : Self.http)
    }
}
