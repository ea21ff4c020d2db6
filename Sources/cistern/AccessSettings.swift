// Checks access control and client addresses, and converts their settings to the types of the listeners and the request flow.

import Addresses
import Downstream
import ReverseProxy
import Settings

enum AccessCheck {
    static func check(_ reader: inout SettingsReader) {
        let settings = reader.settings
        checkNetworks(settings.trustedProxies.filter { $0 != NetworkList.local }, "trusted_proxies", &reader)
        check(settings.access, "access", &reader)
        for (name, listeners) in [("listen", settings.listen), ("admin_listen", settings.adminListen)] {
            for listener in listeners { check(listener.access, name, &reader) }
        }
        for route in settings.routes { check(route.access, "routes.\(route.name)", &reader) }
        for (path, names) in [("forwarding.names", settings.servedNames), ("admin.names", settings.admin.names)] {
            for name in names where !ServedNames.isName(name) {
                reader.add(about: path, "\(path): \"\(name)\" is not \(ServedNames.form)")
            }
        }
        for (name, listeners) in [("listen", settings.listen), ("admin_listen", settings.adminListen)] {
            for listener in listeners where listener.proxyProtocol && settings.trustedProxies.isEmpty && !isUnix(listener) {
                reader.add(
                    about: name,
                    "\(name): \(listener.address) expects the PROXY protocol, but trusted_proxies is empty: add the load balancer's address to it"
                )
            }
        }
    }

    private static func check(_ access: CisternSettings.Access, _ name: String, _ reader: inout SettingsReader) {
        checkNetworks(access.allow, name, &reader)
        checkNetworks(access.deny, name, &reader)
        do throws(AddressRules.Ambiguity) {
            _ = try AddressRules(allow: .checked(access.allow), deny: .checked(access.deny))
        } catch {
            reader.add(about: name, "\(name): \(error.network) is both allowed and denied")
        }
    }

    /// Warnings about permitted settings that may not have the intended effect.
    static func warnings(_ settings: CisternSettings) -> [String] {
        let limits = [
            ("connections_per_address", settings.proxy.downstream.connectionsPerAddress),
            ("requests_per_address", settings.proxy.access.requestsPerAddress),
        ].filter { $0.1 > 0 }
        let everybody = settings.trustedProxies.filter { $0.hasSuffix("/0") }
        if let all = everybody.first {
            return ["trusted_proxies has \(all): every client can claim any address, so limits by address have no effect"]
        }
        guard settings.trustedProxies.isEmpty else { return [] }
        return limits.map { name, _ in
            "limits.\(name) is set without trusted_proxies: behind a load balancer, all clients count as one address"
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
    /// - Parameter texts: checked networks.
    init(checked texts: [String]) { self.init(.checked(texts), hasLocal: texts.contains(Self.local)) }
}

extension [IPNetwork] {
    /// - Parameter texts: checked networks.
    static func checked(_ texts: [String]) -> [IPNetwork] { texts.compactMap { try? IPNetwork($0) } }
}

extension AddressRules {
    /// - Parameter settings: checked settings.
    init(_ settings: CisternSettings.Access) {
        self = (try? AddressRules(allow: .checked(settings.allow), deny: .checked(settings.deny))) ?? AddressRules()
    }
}

extension ListenerSettings {
    init?(_ settings: CisternSettings.Listener) {
        self.init(settings.address)
        takesProxyHeader = settings.proxyProtocol
        access = AddressRules(settings.access)
        takesClearHTTP2 = settings.h2c
        offersHTTP2 = settings.http2
        verification = settings.clientVerify
    }
}
