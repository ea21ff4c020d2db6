// Who is there and who may come in: what of it only the settings as a whole can tell, and how it becomes what the listener's side and the flow take.

import Addresses
import Downstream
import Settings

enum AccessCheck {
    static func check(_ reader: inout SettingsReader) {
        let settings = reader.settings
        checkNetworks(settings.trustedProxies, "trusted_proxies", &reader)
        for (name, listeners) in [("listen", settings.listen), ("admin_listen", settings.adminListen)] {
            for listener in listeners where listener.proxyProtocol && settings.trustedProxies.isEmpty && !isUnix(listener) {
                reader.add(
                    about: name,
                    "\(name): \(listener.address) takes the PROXY protocol from trusted_proxies only, and there are none: name the balancer's address"
                )
            }
        }
    }

    private static func isUnix(_ listener: CisternSettings.Listener) -> Bool {
        if case .unix = ListenerSettings(listener.address)?.address { true } else { false }
    }

    private static func checkNetworks(_ texts: [String], _ name: String, _ reader: inout SettingsReader) {
        for text in texts {
            do throws(IPNetwork.Problem) {
                _ = try IPNetwork(text)
            } catch {
                reader.add(about: name, "\(name): \(error)")
            }
        }
    }
}

extension NetworkList {
    /// - Parameter texts: checked ones.
    init(_ texts: [String]) { self.init(texts.compactMap { try? IPNetwork($0) }) }
}

extension ListenerSettings {
    init?(_ settings: CisternSettings.Listener) {
        self.init(settings.address)
        takesProxyHeader = settings.proxyProtocol
        takesClearHTTP2 = settings.h2c
    }
}
