// A play runs the whole proxy in this process over real sockets. It has a scripted origin, a clock that it advances, and a temporary cache
// directory.

import Administration
import CSystem
import CacheStore
import Dispatch
import Downstream
import Figures
import Glibc
import JSON
import Logging
import Reactor
import ReverseProxy
import Server
import Sharing
import Testing
import Upstream

package final class ProxyPlay {
    /// Protocol of the play's requests.
    package enum ClientProtocol: Sendable, CaseIterable, CustomStringConvertible {
        case clear
        /// HTTP/2 without TLS.
        case http2
        /// HTTP/1.1 over TLS.
        case tls
        /// HTTP/2 over TLS.
        case http2TLS

        package var isSecured: Bool { self == .tls || self == .http2TLS }
        package var scheme: String { isSecured ? "https" : "http" }
        package var speaksHTTP2: Bool { self == .http2 || self == .http2TLS }

        package var description: String {
            switch self {
            case .clear: "HTTP/1.1"
            case .http2: "HTTP/2"
            case .tls: "HTTP/1.1 through TLS"
            case .http2TLS: "HTTP/2 through TLS"
            }
        }
    }

    package let origin: ScriptedOrigin
    package let time = ManualTime()
    /// The server's clock: `time`, or another.
    private let clock: any TimeSource
    private let temporary = TestTools.temporaryDirectory()
    package var directory: String { temporary.path }
    private let configure: (inout ProxySettings) -> Void
    private var server: ProxyServer?
    /// The previously stopped server, while anything retains it.
    package private(set) weak var formerServer: ProxyServer?
    /// Settings of the running server.
    private var settings: ProxySettings?
    package private(set) var port: UInt16 = 0
    /// Ports of all listeners.
    package private(set) var ports: [UInt16] = []
    package private(set) var adminPorts: [UInt16] = []
    private let fleet: FleetSettings?
    /// nil without an access log.
    private let accessFields: [AccessField]?
    private var accessLog: AccessLog?
    /// nil if the test does not read the log.
    private let log: CapturedLines?
    private let clientProtocol: ClientProtocol
    private let spoken = ProxyPlay.upstream
    private var connection: (any PlayClient)?

    /// Default protocol of plays. A suite with `.clientProtocols` runs with each.
    @TaskLocal package static var clientProtocol = ClientProtocol.clear
    /// Protocol of the upstream. A suite or test with `.upstreams` runs with both.
    @TaskLocal package static var upstream = SpokenProtocol.http1

    /// - Parameters:
    ///   - fleet: nil if nothing is shared with other nodes.
    ///   - accessFields: fields of the access log; nil for none.
    ///   - log: receives the log lines.
    ///   - clock: replaces the clock that the play advances.
    ///   - configure: changes the settings. Defaults are a store of 16 MiB and one shard.
    package init(
        _ origin: ScriptedOrigin, clientProtocol: ClientProtocol = ProxyPlay.clientProtocol, fleet: FleetSettings? = nil,
        accessLog accessFields: [AccessField]? = nil,
        log: CapturedLines? = nil, clock: (any TimeSource)? = nil, _ configure: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws {
        self.origin = origin
        self.clientProtocol = clientProtocol
        (self.fleet, self.accessFields, self.log) = (fleet, accessFields, log)
        self.configure = configure
        self.clock = clock ?? time
        if !self.clock.isSetByTests { RealTimeTrait.expect() }
        try start()
    }

    deinit {
        stop()
        origin.down()
    }

    package func start() throws {
        var settings = ProxySettings(upstream: UpstreamSettings(host: "127.0.0.1", port: origin.port))
        settings.listening.listeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
        settings.listening.listeners[0].takesClearHTTP2 = clientProtocol == .http2
        settings.upstream.http2 = spoken == .http2 ? .priorKnowledge : .auto
        settings.store = StoreSettings(directory: directory, capacityBytes: 16 << 20)
        settings.admin.socket = adminSocket
        if clientProtocol.isSecured { secure(&settings.listening) }
        configure(&settings)
        var logger = Logger(label: "play") { [log] _ -> any LogHandler in
            if let log { LineHandler(said: log) } else { SwiftLogNoOpLogHandler() }
        }
        logger.logLevel = log == nil ? .critical : .info
        accessLog = accessFields.flatMap { AccessLog(path: directory + "/access.log", format: .json, fields: $0) }
        let server = try ProxyServer(settings, fleet: fleet, logger: logger, accessLog: accessLog, time: clock)
        server.start()
        (self.server, self.settings) = (server, settings)
        notePorts()
    }

    private func notePorts() {
        ports = server?.addresses.compactMap(\.port) ?? []
        adminPorts = server?.adminAddresses.compactMap(\.port) ?? []
        port = ports.first ?? 0
    }

    /// - Parameter deadline: maximum time for running responses, by the play's clock.
    package func stop(deadline: Duration = .zero) {
        connection = nil
        server?.stop(deadline: deadline)
        if server != nil { formerServer = server }
        server = nil
    }

    /// Announces a later stop to the server.
    package func announceStop() { server?.announceStop() }

    /// Stops the server and starts it again with the existing directory.
    package func restart() throws {
        stop()
        try start()
    }

    package var adminSocket: String { directory + "/admin.sock" }

    /// Sends a request to the admin interface over a new connection.
    package func admin(_ method: String, _ target: String, content: String? = nil) throws -> TestResponse {
        guard let response = try TestClient(.unix(path: adminSocket)).request(method, target, content: content) else {
            throw TestClient.NoConnection("response")
        }
        return response
    }

    /// Reloads the settings.
    /// - Parameters:
    ///   - new: the new settings; nil to reload only the files that they name.
    ///   - then: called at the end of the reload, on any thread.
    package func reload(_ new: NewSettings? = nil, then: @escaping @Sendable (ReloadOutcome) -> Void) {
        if let new { server?.followSettings { () throws(SettingsMistakes) in new } }
        server?.reload(then: then)
    }

    /// Reloads the settings and waits for the result.
    /// - Parameter change: changes the current settings.
    package func reload(_ change: (inout NewSettings) -> Void) -> ReloadOutcome? {
        guard let settings else { return nil }
        var new = NewSettings(settings)
        new.changed = ["something"]
        change(&new)
        let (outcome, done) = (Mutex<ReloadOutcome?>(nil), DispatchSemaphore(value: 0))
        reload(new) { said in
            outcome.withLock { $0 = said }
            done.signal()
        }
        done.wait()
        let said = outcome.withLock { $0 }
        if case .applied = said { self.settings = new.settings }
        notePorts()
        return said
    }

    /// Waits until all stored responses are readable from their files. With one shard this covers every response that a client has
    /// received.
    package func flushStore() {
        // A client may receive its response before the exchange stores it, but the next exchange begins later.
        _ = try? get("/healthz")
        server?.flushStore()
    }

    package var adminPort: UInt16 {
        for case .ipv4(_, let port) in server?.adminAddresses ?? [] { return port }
        return 0
    }

    /// Addresses of all listeners.
    package var addresses: [ListenAddress] { server?.addresses ?? [] }

    /// An HTTP/1.1 client, with TLS if the play's protocol has it.
    /// - Parameter source: loopback address of the client; nil to let the kernel choose.
    package func client(from source: String? = nil) throws -> TestClient {
        let client = try TestClient(port: port, from: source)
        if clientProtocol.isSecured { try client.secure() }
        return client
    }

    /// A client that sends a request and does not wait for the response.
    /// - Parameter request: the request in HTTP/1.1, or its beginning.
    package func client(from source: String? = nil, sending request: String) throws -> TestClient {
        let client = try client(from: source)
        client.send(request)
        return client
    }

    /// A client that sends a GET and does not wait for the response.
    package func client(from source: String? = nil, getting target: String) throws -> TestClient {
        try client(from: source, sending: "GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n")
    }

    package func http2Client() throws -> HTTP2TestClient { try HTTP2TestClient(port: port, isSecured: clientProtocol.isSecured) }

    /// Enables TLS on all listeners, with the certificate that test clients trust.
    private func secure(_ listening: inout ListeningSettings) {
        for index in listening.listeners.indices { listening.listeners[index].isTLS = true }
        let pair = SharedCertificates.proxy
        listening.tls.certificates = [ServerTLSSettings.Certificate(file: pair.certificate, keyFile: pair.key)]
    }

    private func newClient() throws -> any PlayClient { clientProtocol.speaksHTTP2 ? try http2Client() : try client() }

    /// Sends a request over a kept connection.
    package func get(_ target: String, _ fields: [(String, String)] = []) throws -> TestResponse {
        try request("GET", target, fields)
    }

    package func request(_ method: String, _ target: String, _ fields: [(String, String)] = [], content: String? = nil) throws
        -> TestResponse
    {
        if let connection, let response = connection.request(method, target, fields, content: content) {
            if response["Connection"]?.lowercased() == "close" { self.connection = nil }
            return response
        }
        let fresh = try newClient()
        connection = fresh
        guard let response = fresh.request(method, target, fields, content: content) else { throw TestClient.NoConnection("response") }
        if response["Connection"]?.lowercased() == "close" { connection = nil }
        return response
    }

    /// The access log of a play with one shard. Must be called at the end, because it closes the log.
    package func accessLines() throws -> [JSONValue] {
        // As in flushStore().
        _ = try get("/healthz")
        accessLog?.finish()
        return try TestTools.read(directory + "/access.log").split(separator: "\n").compactMap { JSONValue(Array($0.utf8)) }
    }

    /// Value of a metric.
    /// - Parameter name: with labels.
    package func metric(_ name: String) throws -> Double? {
        let page = try get("/metrics").content
        // The page begins with a comment line, so each metric follows a line end.
        guard let line = TestTools.index(of: "\n\(name) ", in: page) else { return nil }
        return Double(String(decoding: page[(line + name.utf8.count + 2)...].prefix { $0 != 0x0a }, as: UTF8.self))
    }

    /// Polls until a metric has this value; returns whether it did.
    /// - Parameter step: advance of the clock before each poll, for a timer that may be set at any time.
    package func waitFor(_ name: String, _ value: Double, advancing step: Duration = .zero) throws -> Bool {
        for _ in 0..<5_000 {
            if step > .zero { time.advance(by: step) }
            if try metric(name) == value { return true }
        }
        return false
    }

    /// Polls until a metric has at least this value; returns whether it did.
    package func waitFor(_ name: String, atLeast value: Double) throws -> Bool {
        for _ in 0..<5_000 where try metric(name) ?? 0 >= value { return true }
        return false
    }
}

/// A client of a play.
package protocol PlayClient: AnyObject {
    func request(_ method: String, _ target: String, _ fields: [(String, String)], content: String?) -> TestResponse?
}

extension TestClient: PlayClient {}
extension HTTP2TestClient: PlayClient {}
