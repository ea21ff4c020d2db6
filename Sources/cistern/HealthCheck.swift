// `cistern healthcheck`: asks a running Cistern for /healthz, for containers that have no curl.

import Administration
import ArgumentParser
import Downstream
import ReverseProxy
import Settings

struct HealthCheck: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "healthcheck", abstract: "Ask a running Cistern whether it is well; ends with 0 if so, with 1 if not.",
        discussion: """
            It is asked where the settings say that it listens for /healthz: the file, the environment and the options that it was started \
            with; then on the admin interface's socket.
            """)

    @Option(help: ArgumentHelp("Ask only this address: HOST:PORT, [IPV6]:PORT or unix:/path.", valueName: "address"))
    var address: String?

    @Option(help: ArgumentHelp("Ask only this port of this machine.", valueName: "number"))
    var port: UInt16?

    @Option(name: [.short, .long], help: "The configuration file that it was started with.")
    var config: String?

    @Option(help: "The cache directory that it was started with.")
    var cacheDir: String?

    /// For all of one address.
    private static let patienceSeconds = 3

    func run() throws {
        do {
            let addresses = try self.addresses()
            guard !addresses.contains(where: Self.isHealthy) else { return }
            StandardError.write("cistern: nothing healthy responds on \(addresses.map(\.address.description).joined(separator: ", "))\n")
        } catch let failure as AdminFailure {
            StandardError.write("cistern: \(failure)\n")
        }
        throw ExitCode.failure
    }

    private func addresses() throws -> [ListenerSettings] {
        let texts: [String]
        if let address = address ?? port.map({ "127.0.0.1:\($0)" }) {
            texts = [address]
        } else {
            let settings = try AdminOptions.reachingSettings(config: config, cacheDir: cacheDir, isPlaceKnown: true)
            let own = settings.ownPages ? settings.listen.map(\.address) : []
            let socket = settings.admin.socket == "off" ? [] : ["unix:" + AdminSettings.socketPath(settings)]
            texts = (settings.adminListen.isEmpty ? own : settings.adminListen.map(\.address)) + socket
        }
        return try texts.map { text in
            guard let address = ListenerSettings(text) else { throw AdminFailure("\(text) is not an address") }
            return address
        }
    }

    /// Where TLS is spoken, whoever says so in clear lives.
    private static func isHealthy(_ listener: ListenerSettings) -> Bool {
        let request = Array("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
        let response = PlainHTTP.exchange(request, with: listener.address, patienceSeconds: patienceSeconds)
        return response?.starts(with: Array("HTTP/1.1 \(listener.isTLS ? "400" : "200")".utf8)) ?? false
    }
}
