// One address to listen on, and what is spoken there.

import Addresses

public struct ListenerSettings: Sendable, Equatable {
    public var address: ListenAddress
    /// Whether every connection begins with the PROXY protocol, and comes from a trusted proxy.
    public var takesProxyHeader = false
    /// Which addresses may ask here; empty: those that may everywhere.
    public var access = AddressRules()
    /// In clear, HTTP/2 is spoken with those who begin with its preface.
    public var takesClearHTTP2 = false
    public var isTLS = false
    /// Whether clients may choose HTTP/2 in the handshake (ALPN).
    public var offersHTTP2 = true
    /// Whether clients are asked for a certificate here, whatever their certificate's settings say; nil to go by those.
    public var verification: ClientVerification?

    public init(_ address: ListenAddress) { self.address = address }

    /// Whether connections come in by other rules than there, certificates apart.
    func admitsOthers(than other: ListenerSettings) -> Bool {
        access != other.access || isTLS != other.isTLS || takesProxyHeader != other.takesProxyHeader
    }

    /// Where it listens indeed, as a client has to say it.
    public func name(at address: ListenAddress) -> String { (isTLS ? "https://" : "") + address.description }

    /// The same, as the base URL of clients.
    public func url(at address: ListenAddress) -> String {
        if case .unix = address { return address.description }
        return "\(isTLS ? "https" : "http")://\(address)"
    }

    /// What `ListenAddress` takes; `http://` or `https://` may stand before it.
    public init?(_ text: String) {
        var rest = text[...]
        for scheme in ["http://", "https://"] where text.lowercased().hasPrefix(scheme) {
            rest = text.dropFirst(scheme.count)
            isTLS = scheme == "https://"
            // A URL's last slash says nothing.
            if rest.hasSuffix("/") { rest.removeLast() }
        }
        guard let address = ListenAddress(String(rest)), rest.startIndex == text.startIndex || !rest.hasPrefix("unix:") || isTLS else {
            return nil
        }
        self.address = address
    }
}
