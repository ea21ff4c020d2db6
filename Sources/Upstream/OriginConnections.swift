// The connections to the upstream on which we speak HTTP/1.1 ourselves. libcurl makes each, with all that belongs to it (names, addresses
// tried side by side, Unix sockets, SOCKS), and hands it over. Measured: a request costs half of what it costs through libcurl.

import CLibcurl
import CSystem
import HTTPCore
import Reactor

/// Belongs to one loop and is used on it only.
final class OriginConnections {
    unowned let client: UpstreamClient
    /// What was read last: used up before anything else is read.
    let readBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 48 * 1024, alignment: 16)
    private let curl: CurlMulti
    private let settings: UpstreamSettings
    let writer: RequestWriter
    /// The last one was used last.
    private var idle: [OriginConnection] = []
    /// Being made, in use, and idle.
    private var count = 0
    /// First come, first served. Who ends is taken out: it may hold much of a request's content.
    private var waiting: [Transfer] = []
    private var isClosed = false

    init(client: UpstreamClient, curl: CurlMulti) {
        self.client = client
        self.curl = curl
        settings = client.settings
        writer = RequestWriter(basePath: Array(settings.basePath.utf8))
    }

    deinit { readBuffer.deallocate() }

    var loop: EventLoop { client.loop }

    func start(_ transfer: Transfer) {
        guard !transfer.needsNewConnection else { return makeConnection(for: transfer) }
        if let connection = takeIdle() { connection.begin(transfer) } else { makeConnection(for: transfer) }
    }

    /// For a request whose kept connection turned out to be dead.
    func startAgain(_ transfer: Transfer) {
        transfer.isQueuedAgain()
        makeConnection(for: transfer)
    }

    func close() {
        isClosed = true
        for connection in idle { connection.close() }
    }

    // MARK: Connections

    /// One that stands, has been used lately, and says nothing unasked (RFC 9112 §9.2).
    private func takeIdle() -> OriginConnection? {
        while let connection = idle.popLast() {
            if client.coarseNow - connection.idleSince < Int64(settings.idleSeconds) * 1000, connection.isQuiet { return connection }
            connection.close()
        }
        return nil
    }

    private func makeConnection(for transfer: Transfer) {
        if count >= settings.maximumConnections, !idle.isEmpty { idle.removeFirst().close() }
        guard count < settings.maximumConnections else {
            transfer.carrier = self
            return waiting.append(transfer)
        }
        guard let easy = curl.takeHandle() else {
            return loop.atEndOfBatch { [client] in client.end(transfer, .proxyInternalError) }
        }
        count += 1
        let connector = OriginConnector(transfer, easy, curl, self)
        transfer.carrier = connector
        curl.add(connector)
    }

    fileprivate func connected(_ socket: Int32, _ times: TransferTimes, for transfer: Transfer) {
        client.counters.connectionsOpened += 1
        OriginConnection(socket, times, self).begin(transfer)
    }

    /// Its exchange is over, and it may be used again.
    func isFree(_ connection: OriginConnection) {
        if let next = waiting.first {
            // Closing it makes room for a new one. Bytes that came right behind its answer are not the next one's.
            guard !next.needsNewConnection, connection.isQuiet else { return connection.close() }
            waiting.removeFirst()
            return connection.begin(next)
        }
        connection.idleSince = client.coarseNow
        idle.append(connection)
    }

    /// It is gone, or was never made: there is room for another.
    func isGone(_ connection: OriginConnection?) {
        count -= 1
        if let connection { idle.removeAll { $0 === connection } }
        if !isClosed, let next = nextWaiting() { makeConnection(for: next) }
    }

    private func nextWaiting() -> Transfer? { waiting.isEmpty ? nil : waiting.removeFirst() }
}

/// Carries those that wait for a connection.
extension OriginConnections: TransferCarrier {
    var hasResolved: Bool { false }

    func goOn(_ transfer: Transfer) {}

    func abandon(_ transfer: Transfer) { waiting.removeAll { $0 === transfer } }
}

/// Has libcurl make a connection, and takes it over.
private final class OriginConnector: CurlTask, TransferCarrier {
    private let transfer: Transfer
    private let connections: OriginConnections

    init(_ transfer: Transfer, _ easy: consuming EasyHandle, _ multi: CurlMulti, _ connections: OriginConnections) {
        self.transfer = transfer
        self.connections = connections
        super.init(easy, multi)
        cistern_easy_set_long(pointer, CURLOPT_CONNECT_ONLY, 1)
    }

    func goOn(_ transfer: Transfer) {}

    func abandon(_ transfer: Transfer) {
        multi.afterCallbacks { [self] in
            if multi.release(self) { connections.isGone(nil) }
        }
    }

    override func connectionBegins() { transfer.connectionBegins() }

    override func ended(_ code: CURLcode, isConnectionKept: Bool) {
        let times = connectionTimes
        // A number of our own: libcurl closes its one when it lets go of the handle.
        let socket = code == CURLE_OK ? takeSocket() : -1
        guard multi.release(self) else { return }
        if socket >= 0 { return connections.connected(socket, times, for: transfer) }
        connections.isGone(nil)
        transfer.client.end(transfer, code == CURLE_OK ? .proxyInternalError : UpstreamError(code))
    }

    private func takeSocket() -> Int32 {
        var socket: curl_socket_t = -1
        guard cistern_easy_get_socket(pointer, &socket) == CURLE_OK, socket >= 0 else { return -1 }
        return csystem_duplicate(socket)
    }
}
