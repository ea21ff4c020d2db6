// `cistern status --check`: requests /healthz from a running Cistern, for containers without curl.

import Administration
import Downstream
import ReverseProxy
import Settings

struct HealthCheck {
    /// The only address to query; nil for those of the settings.
    let address: String?
    let config: String?
    let cacheDir: String?

    /// Timeout per address.
    private static let patienceSeconds = 3

    func run() throws {
        let addresses = try self.addresses()
        guard !addresses.contains(where: Self.isHealthy) else { return }
        throw AdminFailure("no healthy Cistern responds on \(addresses.map(\.address.description).joined(separator: ", "))")
    }

    private func addresses() throws -> [ListenerSettings] {
        let texts: [String]
        if let address {
            texts = [address]
        } else {
            let settings = try AdminOptions.reachingSettings(config: config, cacheDir: cacheDir, isPlaceKnown: true)
            let own = settings.proxy.listening.servesOwnPages ? settings.listen.map(\.address) : []
            let socket = settings.admin.socket == "off" ? [] : ["unix:" + AdminSettings.socketPath(settings)]
            texts = (settings.adminListen.isEmpty ? own : settings.adminListen.map(\.address)) + socket
        }
        return try texts.map { text in
            guard let address = ListenerSettings(text) else { throw AdminFailure(AddressMistake.sentence(text) ?? "no address") }
            return address
        }
    }

    /// Sends the check without TLS. A TLS listener that rejects it with 400 is healthy.
    private static func isHealthy(_ listener: ListenerSettings) -> Bool {
        let request = Array("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
        let response = PlainHTTP.exchange(request, with: listener.address, patienceSeconds: patienceSeconds)
        return response?.starts(with: Array("HTTP/1.1 \(listener.isTLS ? "400" : "200")".utf8)) ?? false
    }
}
