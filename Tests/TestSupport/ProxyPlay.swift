// A play: the whole proxy in this process, over real sockets, in front of a scripted origin, with a clock that stands still until the play
// moves it and a cache directory of its own.

import Administration
import CSystem
import CacheStore
import Dispatch
import Downstream
import Glibc
import JSON
import Locking
import Logging
import Reactor
import ReverseProxy
import Server
import Telemetry
import Testing
import Upstream

package final class ProxyPlay {
    /// How the play's own requests come in.
    package enum Door: Sendable, CaseIterable, CustomStringConvertible {
        case clear
        /// HTTP/2 in clear.
        case http2
        /// HTTP/1.1 through TLS.
        case tls
        /// HTTP/2 through TLS.
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
    /// By which the server runs: `time`, or another.
    private let clock: any TimeSource
    private let temporary = TestTools.temporaryDirectory()
    package var directory: String { temporary.path }
    private let configure: (inout ProxySettings) -> Void
    private var server: ProxyServer?
    /// The last one that was stopped, for as long as anything holds it.
    package private(set) weak var formerServer: ProxyServer?
    /// That it runs with.
    private var settings: ProxySettings?
    package private(set) var port: UInt16 = 0
    /// Of all listeners.
    package private(set) var ports: [UInt16] = []
    package private(set) var adminPorts: [UInt16] = []
    /// nil where no access log is kept.
    private let accessFields: [AccessField]?
    private var accessLog: AccessLog?
    /// nil if the test does not read the log.
    private let log: SaidLines?
    private let door: Door
    private let spoken = ProxyPlay.upstream
    private var connection: (any PlayClient)?

    /// That of plays that do not say: a suite with `.doors` goes through each.
    @TaskLocal package static var door = Door.clear
    /// What the upstream of plays speaks: a suite or test with `.upstreams` is played with both.
    @TaskLocal package static var upstream = SpokenProtocol.http1

    /// - Parameters:
    ///   - accessFields: what the access log tells; nil: there is none.
    ///   - log: receives the lines of the log.
    ///   - clock: in the place of one that stands still.
    ///   - configure: changes the settings; the store has 16 MiB and one shard runs unless it says otherwise.
    package init(
        _ origin: ScriptedOrigin, door: Door = ProxyPlay.door, accessLog accessFields: [AccessField]? = nil,
        log: SaidLines? = nil, clock: (any TimeSource)? = nil, _ configure: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws {
        self.origin = origin
        self.door = door
        (self.accessFields, self.log) = (accessFields, log)
        self.configure = configure
        self.clock = clock ?? time
        if !self.clock.isMovedByHand { RealTimeTrait.expect() }
        try start()
    }

    deinit {
        stop()
        origin.down()
    }

    package func start() throws {
        var settings = ProxySettings(upstream: UpstreamSettings(host: "127.0.0.1", port: origin.port))
        settings.listening.listeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
        settings.listening.listeners[0].takesClearHTTP2 = door == .http2
        settings.upstream.http2 = spoken == .http2 ? .priorKnowledge : .auto
        settings.store = StoreSettings(directory: directory, capacityBytes: 16 << 20)
        settings.admin.socket = adminSocket
        if door.isSecured { secure(&settings.listening) }
        configure(&settings)
        var logger = Logger(label: "play") { [log] _ -> any LogHandler in
            if let log { LineHandler(said: log) } else { SwiftLogNoOpLogHandler() }
        }
        logger.logLevel = log == nil ? .critical : .info
        accessLog = accessFields.flatMap { AccessLog(path: directory + "/access.log", format: .json, fields: $0) }
        let server = try ProxyServer(settings, logger: logger, accessLog: accessLog, time: clock)
        server.start()
        (self.server, self.settings) = (server, settings)
        notePorts()
    }

    private func notePorts() {
        ports = server?.addresses.compactMap(\.port) ?? []
        adminPorts = server?.adminAddresses.compactMap(\.port) ?? []
        port = ports.first ?? 0
    }

    /// - Parameter deadline: by the play's clock; responses that run have so long.
    package func stop(deadline: Duration = .zero) {
        connection = nil
        server?.stop(deadline: deadline)
        if server != nil { formerServer = server }
        server = nil
    }

    /// It is told that it will be stopped.
    package func announceStop() { server?.announceStop() }

    /// Stops and starts on the same directory.
    package func restart() throws {
        stop()
        try start()
    }

    package var adminSocket: String { directory + "/admin.sock" }

    /// Asks the administrator's interface, over a connection of its own.
    package func admin(_ method: String, _ target: String, content: String? = nil) throws -> TestResponse {
        guard let response = try TestClient(.unix(path: adminSocket)).request(method, target, content: content) else {
            throw TestClient.NoConnection()
        }
        return response
    }

    /// Has the settings read again.
    /// - Parameters:
    ///   - change: what is different in them; nil: only the files that they name.
    ///   - then: called when it is over, from any thread.
    package func reload(_ new: NewSettings? = nil, then: @escaping @Sendable (ReloadOutcome) -> Void) {
        if let new { server?.followSettings { () throws(SettingsMistakes) in new } }
        server?.reload(then: then)
    }

    /// The same, and waits for what comes of it.
    /// - Parameter change: what is different from the settings that hold.
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

    /// Waits until all that was stored is readable from its files. In a play with one shard this holds for every response that a client has received.
    package func flushStore() {
        // A client may have its response before the exchange has stored it, but not before the next exchange begins.
        _ = try? get("/healthz")
        server?.flushStore()
    }

    package var adminPort: UInt16 {
        for case .ipv4(_, let port) in server?.adminAddresses ?? [] { return port }
        return 0
    }

    /// All that it listens on.
    package var addresses: [ListenAddress] { server?.addresses ?? [] }

    /// A client of HTTP/1.1, in clear where the door is.
    package func client() throws -> TestClient {
        let client = try TestClient(port: port)
        if door.isSecured { try client.secure() }
        return client
    }

    package func http2Client() throws -> HTTP2TestClient { try HTTP2TestClient(port: port, isSecured: door.isSecured) }

    /// The listeners speak TLS, with the certificate that test clients trust.
    private func secure(_ listening: inout ListeningSettings) {
        for place in listening.listeners.indices { listening.listeners[place].isTLS = true }
        let pair = SharedCertificates.proxy
        listening.tls.certificates = [ServerTLSSettings.Certificate(file: pair.certificate, keyFile: pair.key)]
    }

    private func doorClient() throws -> any PlayClient { door.speaksHTTP2 ? try http2Client() : try client() }

    /// Over one kept connection.
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
        let fresh = try doorClient()
        connection = fresh
        guard let response = fresh.request(method, target, fields, content: content) else { throw TestClient.NoConnection() }
        if response["Connection"]?.lowercased() == "close" { connection = nil }
        return response
    }

    /// The lines of the access log, at the end of a play with one shard: nothing is logged after that.
    package func accessLines() throws -> [JSONValue] {
        // As in flushStore().
        _ = try get("/healthz")
        accessLog?.finish()
        return try TestTools.read(directory + "/access.log").split(separator: "\n").compactMap { JSONValue(Array($0.utf8)) }
    }

    /// The number behind a metric's name and labels.
    package func metric(_ name: String) throws -> Double? {
        let page = try get("/metrics").content
        // What the first family is comes before any number.
        guard let line = TestTools.place(of: "\n\(name) ", in: page) else { return nil }
        return Double(String(decoding: page[(line + name.utf8.count + 2)...].prefix { $0 != 0x0a }, as: UTF8.self))
    }

    /// Asks until a metric has this value; returns whether it came to that.
    package func waitFor(_ name: String, _ value: Double) throws -> Bool {
        for _ in 0..<5_000 where try metric(name) == value { return true }
        return false
    }

    /// The same until it has this value at least.
    package func waitFor(_ name: String, atLeast value: Double) throws -> Bool {
        for _ in 0..<5_000 where try metric(name) ?? 0 >= value { return true }
        return false
    }
}

/// What a play asks with.
package protocol PlayClient: AnyObject {
    func request(_ method: String, _ target: String, _ fields: [(String, String)], content: String?) -> TestResponse?
}

extension TestClient: PlayClient {}
extension HTTP2TestClient: PlayClient {}
