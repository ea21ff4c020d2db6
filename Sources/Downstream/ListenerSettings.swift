// One address to listen on, and what is spoken there.

import Addresses

package struct ListenerSettings: Sendable, Equatable {
    package var address: ListenAddress
    /// Whether every connection begins with the PROXY protocol, and comes from a trusted proxy.
    package var takesProxyHeader = false
    /// Which addresses may ask here; empty: those that may everywhere.
    package var access = AddressRules()
    /// In clear, HTTP/2 is spoken with those who begin with its preface.
    package var takesClearHTTP2 = false

    package init(_ address: ListenAddress) { self.address = address }

    /// What `ListenAddress` takes; `http://` may stand before it.
    package init?(_ text: String) {
        guard let address = ListenAddress(text.hasPrefix("http://") ? String(text.dropFirst(7)) : text) else { return nil }
        self.init(address)
    }
}
