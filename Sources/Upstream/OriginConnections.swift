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
    /// Being made for a request, in use, and idle.
    private var count = 0
    private var waiting: ConnectionQueue<Transfer>
    /// The attempt that no request waits for, and those who are notified of its end.
    private var attempt: ConnectionAttempt?
    private var attemptCompletions: [(UpstreamError?) -> Void] = []
    private var isServing = false
    private var isClosed = false

    init(client: UpstreamClient, curl: CurlMulti) {
        self.client = client
        self.curl = curl
        settings = client.settings
        writer = RequestWriter(basePath: Array(settings.basePath.utf8))
        waiting = ConnectionQueue(limit: settings.queueLimit)
    }

    deinit { readBuffer.deallocate() }

    var loop: EventLoop { client.loop }

    /// - Returns: false where the request would have to wait, and too many wait already.
    func start(_ transfer: Transfer) -> Bool {
        if hasRoom, waiting.take(transfer.request.shares) {
            transfer.holdsShares = true
            isServing = true
            serve(transfer)
            isServing = false
            serveWaiting()
            return true
        }
        guard waiting.mayEnter(transfer.request.shares) else { return false }
        enterQueue(transfer)
        return true
    }

    /// For a request whose kept connection turned out to be dead.
    func startAgain(_ transfer: Transfer) {
        transfer.isQueuedAgain()
        enterQueue(transfer)
        serveWaiting()
    }

    func close() {
        isClosed = true
        for connection in idle { connection.close() }
        attempt?.end()
        attemptCompletions = []
    }

    // MARK: Waiting

    /// Whether the next request finds a connection, or one may be made for it.
    private var hasRoom: Bool { count < settings.maximumConnections || !idle.isEmpty }

    private func enterQueue(_ transfer: Transfer) {
        transfer.carrier = self
        transfer.queuePlace = waiting.enter(transfer, transfer.request.shares)
    }

    /// To be called after whatever may have made room. A dead connection that is found while one is served makes room for that one.
    private func serveWaiting() {
        guard !isServing else { return }
        isServing = true
        defer { isServing = false }
        while !isClosed, !waiting.isReadyEmpty, hasRoom, let next = waiting.next() {
            next.queuePlace = nil
            next.holdsShares = true
            serve(next)
        }
    }

    private func serve(_ transfer: Transfer) {
        if !transfer.needsNewConnection, let connection = takeIdle() { return connection.begin(transfer) }
        if count >= settings.maximumConnections, !idle.isEmpty { idle.removeFirst().close() }
        count += 1
        guard let attempt = ConnectionAttempt(curl, self, transfer) else {
            return loop.atEndOfBatch { [self] in
                isGone(nil)
                client.end(transfer, .proxyInternalError)
            }
        }
        transfer.carrier = attempt
    }

    /// The request has done with its connection: what it held of the shares is free.
    func releaseShares(of transfer: Transfer) {
        guard transfer.holdsShares else { return }
        transfer.holdsShares = false
        waiting.release(transfer.request.shares)
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

    /// Its exchange is over, and it may be used again.
    func isFree(_ connection: OriginConnection) {
        connection.idleSince = client.coarseNow
        idle.append(connection)
        serveWaiting()
    }

    /// It is gone, or was never made: there is room for another.
    func isGone(_ connection: OriginConnection?) {
        count -= 1
        if let connection { idle.removeAll { $0 === connection } }
        serveWaiting()
    }

    // MARK: Attempts

    /// Makes a connection that no request waits for. One at a time: who asks meanwhile is notified of the same end.
    func attemptConnection(_ completion: @escaping (UpstreamError?) -> Void) {
        attemptCompletions.append(completion)
        guard attempt == nil else { return }
        attempt = ConnectionAttempt(curl, self, nil)
        if attempt == nil { loop.atEndOfBatch { [self] in notifyOfAttempt(.proxyInternalError) } }
    }

    private func notifyOfAttempt(_ error: UpstreamError?) {
        attempt = nil
        let completions = attemptCompletions
        attemptCompletions = []
        for completion in completions { completion(error) }
    }

    fileprivate func ended(_ attempt: ConnectionAttempt, _ result: Result<(socket: Int32, times: TransferTimes), UpstreamError>) {
        let isCounted = attempt !== self.attempt
        switch result {
        case .success(let (socket, times)):
            client.counters.connectionsOpened += 1
            client.notifyOfAttempt(nil)
            use(socket, times, for: attempt.transfer, isCounted: isCounted)
            if !isCounted { notifyOfAttempt(nil) }
        case .failure(let error):
            client.notifyOfAttempt(error)
            if let transfer = attempt.transfer { releaseShares(of: transfer) }
            if isCounted { isGone(nil) } else { notifyOfAttempt(error) }
            if let transfer = attempt.transfer { client.end(transfer, error) }
        }
    }

    private func use(_ socket: Int32, _ times: TransferTimes, for transfer: Transfer?, isCounted: Bool) {
        guard settings.isPlainHTTP1, isCounted || count < settings.maximumConnections else { return closeDescriptor(socket) }
        if !isCounted { count += 1 }
        let connection = OriginConnection(socket, times, self)
        if let transfer { connection.begin(transfer) } else { isFree(connection) }
    }
}

/// Carries those that wait for a connection.
extension OriginConnections: TransferCarrier {
    var hasResolved: Bool { false }

    func goOn(_ transfer: Transfer) {}

    func abandon(_ transfer: Transfer) {
        guard let place = transfer.queuePlace else { return }
        transfer.queuePlace = nil
        waiting.leave(place)
        serveWaiting()
    }
}

/// Has libcurl make a connection, and takes it over. It goes on where the request that it is for is given up: so clients that come and go do
/// not have connections begun over and over, and its end is known.
private final class ConnectionAttempt: CurlTask, TransferCarrier {
    private(set) var transfer: Transfer?
    private let connections: OriginConnections
    private var timer: LoopTimer?

    /// - Returns: nil where there is no memory.
    init?(_ multi: CurlMulti, _ connections: OriginConnections, _ transfer: Transfer?) {
        guard let easy = multi.takeHandle() else { return nil }
        self.transfer = transfer
        self.connections = connections
        super.init(easy, multi)
        cistern_easy_set_long(pointer, CURLOPT_CONNECT_ONLY, 1)
        timer = connections.loop.schedule(after: connections.client.settings.connectTimeout) { [weak self] in
            guard let self else { return }
            ended(hasResolved ? .connectionTimeout : .dnsTimeout)
        }
        multi.add(self)
    }

    func goOn(_ transfer: Transfer) {}

    func abandon(_ transfer: Transfer) {
        guard self.transfer === transfer else { return }
        self.transfer = nil
        connections.releaseShares(of: transfer)
    }

    override func connectionBegins() { transfer?.connectionBegins() }

    override func ended(_ code: CURLcode, isConnectionKept: Bool) {
        guard code == CURLE_OK else { return ended(UpstreamError(connecting: code)) }
        let times = connectionTimes
        // A number of our own: libcurl closes its one when it lets go of the handle.
        let socket = takeSocket()
        guard end() else { return closeDescriptor(socket) }
        connections.ended(self, socket >= 0 ? .success((socket, times)) : .failure(.proxyInternalError))
    }

    private func ended(_ error: UpstreamError) {
        if end() { connections.ended(self, .failure(error)) }
    }

    /// - Returns: false where it had ended before.
    @discardableResult
    func end() -> Bool {
        timer?.cancel()
        return multi.release(self)
    }

    private func takeSocket() -> Int32 {
        var socket: curl_socket_t = -1
        guard cistern_easy_get_socket(pointer, &socket) == CURLE_OK, socket >= 0 else { return -1 }
        return csystem_duplicate(socket)
    }
}
