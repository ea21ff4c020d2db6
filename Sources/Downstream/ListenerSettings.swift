// Settings of one listener: its address and its protocols.

import Addresses

public struct ListenerSettings: Sendable, Equatable {
    public var address: ListenAddress
    /// Whether every connection must come from a trusted proxy and begin with a PROXY protocol header.
    public var takesProxyHeader = false
    /// Rules for the client addresses of requests, which replace the general rules; empty to apply those.
    public var access = AddressRules()
    /// Whether cleartext connections that begin with the HTTP/2 preface use HTTP/2.
    public var takesClearHTTP2 = false
    public var isTLS = false
    /// Whether clients can select HTTP/2 in the TLS handshake (ALPN).
    public var offersHTTP2 = true
    /// Whether this listener requests client certificates; nil to use each certificate's setting.
    public var verification: ClientVerification?

    public init(_ address: ListenAddress) { self.address = address }

    /// Whether the two listeners have different rules for accepting connections, apart from certificates.
    func admitsOthers(than other: ListenerSettings) -> Bool {
        access != other.access || isTLS != other.isTLS || takesProxyHeader != other.takesProxyHeader
    }

    /// The name of the listener as a client must specify it, at its actual address.
    public func name(at address: ListenAddress) -> String { (isTLS ? "https://" : "") + address.description }

    /// The base URL of the listener for clients, at its actual address.
    public func url(at address: ListenAddress) -> String {
        if case .unix = address { return address.description }
        return "\(isTLS ? "https" : "http")://\(address)"
    }

    /// Parses the forms of `ListenAddress`, optionally with `http://` or `https://` in front.
    public init?(_ text: String) {
        var rest = text[...]
        for scheme in ["http://", "https://"] where text.lowercased().hasPrefix(scheme) {
            rest = text.dropFirst(scheme.count)
            isTLS = scheme == "https://"
            // A trailing slash of a URL is ignored.
            if rest.hasSuffix("/") { rest.removeLast() }
        }
        guard let address = ListenAddress(String(rest)), rest.startIndex == text.startIndex || !rest.hasPrefix("unix:") || isTLS else {
            return nil
        }
        self.address = address
    }
}
