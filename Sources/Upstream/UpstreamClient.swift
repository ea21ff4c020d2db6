// Asks the origin through libcurl's multi interface, with libcurl's sockets on the shard's own epoll: no thread, no second event loop.
// Measured: through dispatch sources a request cost half as much again. A socket that libcurl lets go between two requests stays
// registered until it is used again or says something, so a kept connection costs no epoll call at all.

import CLibcurl
import HTTPCore
import Reactor

package struct UpstreamCounters: Sendable {
    package var active = 0
    package var connectionsOpened = 0
    package var requests = 0
    /// Not sent, since too many waited.
    package var turnedAway = 0
    /// Sent for the second time.
    package var retries = 0
}

/// Belongs to one loop and is used on it only.
package final class UpstreamClient {
    package let settings: UpstreamSettings
    package private(set) var counters = UpstreamCounters()
    /// Milliseconds of the loop's clock, as of the last sweep or start.
    private(set) var coarseNow: Int64

    private let loop: EventLoop
    private let multi: UnsafeMutableRawPointer
    private var pool: [PooledHandle] = []
    private var active: [UnsafeMutableRawPointer: Transfer] = [:]
    private var sockets: [WatchedSocket?] = []
    /// By descriptor: whether it is a connection, and not one of the sockets by which libcurl's resolving threads wake it.
    private var isConnection: [Bool] = []
    private var timer: LoopTimer?
    /// Whether libcurl has closed a socket since transfers were last collected: seldom, and only then it is asked whose.
    private var hasClosedSockets = false
    private var isKickQueued = false
    private var isSweeping = false
    private var callbackDepth = 0
    private var isClosed = false
    /// Whether the upstream has spoken HTTP/2: then an idle connection may say something.
    private var speaksHTTP2 = false
    private var retryBudget: RetryBudget

    /// Handles kept for the next requests.
    private static let poolLimit = 64
    /// How exactly time-outs are kept.
    private static let sweepInterval = Duration.milliseconds(50)
    private static let initialised: Bool = curl_global_init(cistern_global_all()) == CURLE_OK

    private final class PooledHandle {
        var easy: EasyHandle?
        init(_ easy: consuming EasyHandle) { self.easy = consume easy }
    }

    package init(loop: EventLoop, settings: UpstreamSettings) {
        precondition(Self.initialised, "libcurl cannot be initialised")
        guard let multi = curl_multi_init() else { preconditionFailure("no memory for libcurl") }
        self.loop = loop
        self.settings = settings
        self.multi = multi
        coarseNow = loop.time.monotonicMilliseconds
        retryBudget = RetryBudget(percent: settings.retryBudget)
        let user = Unmanaged.passUnretained(self).toOpaque()
        cistern_multi_set_pointer(multi, CURLMOPT_SOCKETDATA, user)
        cistern_multi_set_pointer(multi, CURLMOPT_TIMERDATA, user)
        cistern_multi_set_socket(multi) { _, socket, what, user, _ in
            UpstreamClient.from(user).socketWanted(socket, what)
            return 0
        }
        cistern_multi_set_timer(multi) { _, milliseconds, user in
            UpstreamClient.from(user).timerWanted(milliseconds)
            return 0
        }
        cistern_multi_set_long(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, settings.maximumConnections)
        cistern_multi_set_long(multi, CURLMOPT_MAXCONNECTS, settings.maximumConnections)
    }

    deinit {
        precondition(isClosed, "an upstream client was dropped without being closed")
    }

    private static func from(_ user: UnsafeMutableRawPointer?) -> UpstreamClient {
        Unmanaged<UpstreamClient>.fromOpaque(user!).takeUnretainedValue()
    }

    /// Starts to ask. The receiver is held until the end; callbacks come from the loop, never from within this call.
    /// - Returns: nil where too many requests wait already.
    package func start(_ request: UpstreamRequest, receiver: any TransferReceiver) -> Transfer? {
        guard counters.active < settings.maximumConnections + settings.queueLimit else {
            counters.turnedAway += 1
            return nil
        }
        guard !isClosed, var easy = takeHandle() else { return nil }
        if !request.usesNewConnection { retryBudget.earn() }
        coarseNow = loop.time.monotonicMilliseconds
        easy.set(request)
        let pointer = easy.pointer
        let transfer = Transfer(client: self, request: request, receiver: receiver, easy: easy, now: coarseNow)
        cistern_easy_set_pointer(pointer, CURLOPT_PRIVATE, Unmanaged.passUnretained(transfer).toOpaque())
        let user = Unmanaged.passUnretained(transfer).toOpaque()
        for option in [
            CURLOPT_HEADERDATA, CURLOPT_WRITEDATA, CURLOPT_READDATA, CURLOPT_PREREQDATA, CURLOPT_RESOLVER_START_DATA, CURLOPT_SOCKOPTDATA,
        ] {
            cistern_easy_set_pointer(pointer, option, user)
        }
        active[pointer] = transfer
        counters.active += 1
        counters.requests += 1
        curl_multi_add_handle(multi, pointer)
        queueKick()
        startSweeping()
        return transfer
    }

    /// Sends a request for the second time, on a new connection, where the budget allows it.
    package func retry(_ request: UpstreamRequest, receiver: any TransferReceiver) -> Transfer? {
        guard settings.retries, retryBudget.spend() else { return nil }
        var again = request
        again.usesNewConnection = true
        counters.retries += 1
        return start(again, receiver: receiver)
    }

    private func takeHandle() -> EasyHandle? {
        if let pooled = pool.popLast() { return pooled.easy.take() }
        guard let easy = EasyHandle(settings) else { return nil }
        let pointer = easy.pointer
        cistern_easy_set_data(pointer, CURLOPT_HEADERFUNCTION) { bytes, size, count, user in
            let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return Transfer.from(user).headLine(Span(_unsafeBytes: line)) ? size * count : 0
        }
        cistern_easy_set_data(pointer, CURLOPT_WRITEFUNCTION) { bytes, size, count, user in
            let content = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return Transfer.from(user).content(Span(_unsafeBytes: content))
        }
        cistern_easy_set_data(pointer, CURLOPT_READFUNCTION) { bytes, size, count, user in
            Transfer.from(user).readContent(into: UnsafeMutableRawBufferPointer(start: bytes, count: size * count))
        }
        cistern_easy_set_prereq(pointer) { user, _, _, _, _ in
            Transfer.from(user).requestBegins() ? Int32(CURL_PREREQFUNC_OK) : Int32(CURL_PREREQFUNC_ABORT)
        }
        cistern_easy_set_resolver_start(pointer) { _, _, user in
            Transfer.from(user).connectionBegins()
            return 0
        }
        cistern_easy_set_socket_options(pointer) { user, socket, _ in
            let transfer = Transfer.from(user)
            transfer.connectionBegins()
            transfer.client.socketOpens(socket)
            return CURL_SOCKOPT_OK
        }
        cistern_easy_set_pointer(pointer, CURLOPT_CLOSESOCKETDATA, Unmanaged.passUnretained(self).toOpaque())
        cistern_easy_set_close(pointer) { user, socket in
            UpstreamClient.from(user).socketCloses(socket)
            return 0
        }
        return easy
    }

    /// Ends everything; receivers hear nothing more.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        for transfer in active.values {
            transfer.receiver = nil
            release(transfer)
        }
        timer?.cancel()
        pool = []
        curl_multi_cleanup(multi)
    }

    // MARK: Transfers

    func cancel(_ transfer: Transfer) {
        guard transfer.phase != .ended else { return }
        transfer.phase = .ended
        afterCallbacks { [self] in release(transfer) }
    }

    func unpause(_ transfer: Transfer) {
        afterCallbacks { [self] in
            guard !isClosed, transfer.phase != .ended else { return }
            inCallbacks { _ = curl_easy_pause(transfer.pointer, CURLPAUSE_CONT) }
            collectFinished()
        }
    }

    /// libcurl must not be called from within its own callbacks in every way: what must wait, waits.
    func afterCallbacks(_ action: @escaping () -> Void) {
        if callbackDepth == 0 { action() } else { loop.atEndOfBatch(action) }
    }

    private func inCallbacks(_ action: () -> Void) {
        callbackDepth += 1
        action()
        callbackDepth -= 1
    }

    /// Takes the handle out of libcurl and back into the pool.
    private func release(_ transfer: Transfer) {
        guard let easy = transfer.easy.take() else { return }
        let pointer = easy.pointer
        guard active.removeValue(forKey: pointer) != nil else { return }
        counters.active -= 1
        inCallbacks { _ = curl_multi_remove_handle(multi, pointer) }
        if EasyHandle.mayBeReused, pool.count < Self.poolLimit, !isClosed { pool.append(PooledHandle(easy)) }
    }

    private func collectFinished() {
        guard callbackDepth == 0 else { return }
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let pointer = message.pointee.easy_handle else { continue }
            let code = cistern_message_result(message)
            guard let transfer = active[pointer] else { continue }
            countConnection(pointer)
            if code == CURLE_OK, hasClosedSockets, transfer.easy?.isConnectionKept == false { transfer.connectionWasClosed() }
            let wasEnded = transfer.phase == .ended
            release(transfer)
            if !wasEnded { transfer.finished(code) }
        }
        hasClosedSockets = false
    }

    private func countConnection(_ pointer: UnsafeMutableRawPointer) {
        var opened = 0
        cistern_easy_get_long(pointer, CURLINFO_NUM_CONNECTS, &opened)
        counters.connectionsOpened += opened
        guard opened > 0, settings.http2 != .off else { return }
        var version = 0
        cistern_easy_get_long(pointer, CURLINFO_HTTP_VERSION, &version)
        if version == CURL_HTTP_VERSION_2_0 { speaksHTTP2 = true }
    }

    // MARK: Sockets and timers, as libcurl wants them

    private func act(_ socket: curl_socket_t, _ events: Int32) {
        guard !isClosed else { return }
        var running: Int32 = 0
        inCallbacks { _ = curl_multi_socket_action(multi, socket, events, &running) }
        collectFinished()
    }

    private func queueKick() {
        guard !isKickQueued else { return }
        isKickQueued = true
        loop.atEndOfBatch { [self] in
            isKickQueued = false
            act(CURL_SOCKET_TIMEOUT, 0)
        }
    }

    private func timerWanted(_ milliseconds: Int) {
        timer?.cancel()
        timer = nil
        if milliseconds == 0 { return queueKick() }
        guard milliseconds > 0 else { return }
        timer = loop.schedule(after: .milliseconds(milliseconds)) { self.act(CURL_SOCKET_TIMEOUT, 0) }
    }

    private func socketWanted(_ socket: curl_socket_t, _ what: Int32) {
        let index = Int(socket)
        makeRoom(for: index)
        let wanted: ReadyEvents =
            switch what {
            case CURL_POLL_IN: .readable
            case CURL_POLL_OUT: .writable
            case CURL_POLL_INOUT: [.readable, .writable]
            default: []
            }
        if let known = sockets[index] {
            known.isWanted = !wanted.isEmpty
            // A resolver's socket is closed without a word, and its number is free then.
            guard known.isWanted || isConnection[index] else { return forget(socket) }
            // Not wanted now: it stays registered, since the next request will want the same.
            if known.isWanted { loop.modify(socket, wanted) }
        } else if !wanted.isEmpty {
            let new = WatchedSocket(socket, client: self)
            sockets[index] = new
            loop.add(socket, wanted, new)
        }
    }

    private func makeRoom(for index: Int) {
        guard index >= sockets.count else { return }
        let more = index + 64 - sockets.count
        sockets.append(contentsOf: repeatElement(nil, count: more))
        isConnection.append(contentsOf: repeatElement(false, count: more))
    }

    fileprivate func socketOpens(_ socket: curl_socket_t) {
        makeRoom(for: Int(socket))
        isConnection[Int(socket)] = true
    }

    /// Its number is free for others at once.
    private func socketCloses(_ socket: curl_socket_t) {
        hasClosedSockets = true
        let index = Int(socket)
        if index < sockets.count {
            isConnection[index] = false
            if sockets[index] != nil { forget(socket) }
        }
        closeDescriptor(socket)
    }

    private func forget(_ socket: curl_socket_t) {
        sockets[Int(socket)] = nil
        loop.remove(socket)
    }

    fileprivate func ready(_ socket: WatchedSocket, _ events: ReadyEvents) {
        guard socket.isWanted else {
            forget(socket.descriptor)
            // A kept connection that ends, or speaks unasked. libcurl would take what it said for the next answer (RFC 9112 §9.2): so it
            // must find the connection ended when it looks at it before it uses it again.
            if !speaksHTTP2, isIdle(socket.descriptor) { endConnection(socket.descriptor) }
            return
        }
        var action: Int32 = 0
        if events.isReadable || events.isBroken { action |= CURL_CSELECT_IN }
        if events.isWritable { action |= CURL_CSELECT_OUT }
        if events.contains(.failed) { action |= CURL_CSELECT_ERR }
        act(socket.descriptor, action)
    }

    /// No transfer is on this connection, not even a paused one. libcurl tells connections apart by their local port only.
    private func isIdle(_ socket: curl_socket_t) -> Bool {
        let port = localPort(of: socket)
        return !active.keys.contains { pointer in
            var own = 0
            cistern_easy_get_long(pointer, CURLINFO_LOCAL_PORT, &own)
            return own == port
        }
    }

    // MARK: Time-outs

    private func startSweeping() {
        guard !isSweeping else { return }
        isSweeping = true
        loop.schedule(after: Self.sweepInterval) { self.sweep() }
    }

    private func sweep() {
        isSweeping = false
        guard !isClosed else { return }
        coarseNow = loop.time.monotonicMilliseconds
        var overdue: [(Transfer, UpstreamError)] = []
        for transfer in active.values {
            if let error = transfer.overdue(at: coarseNow) { overdue.append((transfer, error)) }
        }
        for (transfer, error) in overdue where transfer.phase != .ended {
            release(transfer)
            transfer.failure = error
            transfer.finished(CURLE_OPERATION_TIMEDOUT)
        }
        if !active.isEmpty { startSweeping() }
    }
}

extension Transfer {
    static func from(_ user: UnsafeMutableRawPointer?) -> Transfer {
        Unmanaged<Transfer>.fromOpaque(user!).takeUnretainedValue()
    }
}

/// One of libcurl's sockets.
private final class WatchedSocket: EventHandler {
    let descriptor: Int32
    /// Whether libcurl waits for it now.
    var isWanted = true
    private unowned let client: UpstreamClient

    init(_ descriptor: Int32, client: UpstreamClient) {
        self.descriptor = descriptor
        self.client = client
    }

    func ready(_ events: ReadyEvents) { client.ready(self, events) }
}
