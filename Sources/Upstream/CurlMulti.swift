// libcurl's multi interface with its sockets on the shard's own epoll: no thread, no second event loop. Measured: through dispatch sources a
// request cost half as much again. A socket that libcurl lets go between two requests stays registered until it is used again or says
// something, so a kept connection costs no epoll call at all.

import CLibcurl
import CSystem
import HTTPCore
import Reactor

/// Something that libcurl does with one handle. libcurl's callbacks get it as their user's pointer, so it is held until it has ended.
class CurlTask {
    let multi: CurlMulti
    /// The handle's, for as long as `easy` is there.
    let pointer: UnsafeMutableRawPointer
    fileprivate var easy: EasyHandle?
    /// Whether a connection was begun for it: it does not go over a kept one then.
    fileprivate(set) var opensConnection = false

    init(_ easy: consuming EasyHandle, _ multi: CurlMulti) {
        self.multi = multi
        pointer = easy.pointer
        self.easy = consume easy
    }

    /// A name is looked up, or a socket is there.
    func connectionBegins() {}

    /// It is out of libcurl's hands when this is called.
    /// - Parameter isConnectionKept: false where its connection was closed already.
    func ended(_ code: CURLcode, isConnectionKept: Bool) {}

    /// The name has been looked up.
    var hasResolved: Bool { time(CURLINFO_NAMELOOKUP_TIME_T) != 0 }

    private func time(_ info: CURLINFO) -> Int32 {
        var time: curl_off_t = 0
        cistern_easy_get_offset(pointer, info, &time)
        return Int32(clamping: time)
    }

    /// When the connection's phases ended, in microseconds from the start of the task.
    var connectionTimes: TransferTimes {
        var times = TransferTimes()
        times.resolved = time(CURLINFO_NAMELOOKUP_TIME_T)
        times.connected = time(CURLINFO_CONNECT_TIME_T)
        times.secured = time(CURLINFO_APPCONNECT_TIME_T)
        return times
    }

    static func from(_ user: UnsafeMutableRawPointer?) -> CurlTask { Unmanaged<CurlTask>.fromOpaque(user!).takeUnretainedValue() }
}

/// Belongs to one loop and is used on it only.
final class CurlMulti {
    let settings: UpstreamSettings
    private let loop: EventLoop
    private let multi: UnsafeMutableRawPointer
    private var pool: [PooledHandle] = []
    /// Those that libcurl has.
    private var tasks: [UnsafeMutableRawPointer: CurlTask] = [:]
    /// First come, first served.
    private var waiting: [CurlTask] = []
    private var sockets: [WatchedSocket?] = []
    /// By descriptor: whether it is a connection, and not one of the sockets by which libcurl's resolving threads wake it.
    private var isConnection: [Bool] = []
    /// By descriptor: a connection's local port, as soon as it was looked up; else 0.
    private var localPorts: [Int] = []
    private var timer: LoopTimer?
    /// Whether libcurl has closed a socket since ended tasks were last collected: seldom, and only then it is asked whose.
    private var hasClosedSockets = false
    private var isKickQueued = false
    private var callbackDepth = 0
    private var isClosed = false
    /// Whether the upstream has spoken HTTP/2: then an idle connection may say something.
    var speaksHTTP2 = false

    /// Handles kept for the next requests.
    private static let poolLimit = 64
    private static let initialised: Bool = curl_global_init(cistern_global_all()) == CURLE_OK

    private final class PooledHandle {
        var easy: EasyHandle?
        init(_ easy: consuming EasyHandle) { self.easy = consume easy }
    }

    init(loop: EventLoop, settings: UpstreamSettings) {
        precondition(Self.initialised, "libcurl cannot be initialised")
        guard let multi = curl_multi_init() else { preconditionFailure("no memory for libcurl") }
        self.loop = loop
        self.settings = settings
        self.multi = multi
        let user = Unmanaged.passUnretained(self).toOpaque()
        cistern_multi_set_pointer(multi, CURLMOPT_SOCKETDATA, user)
        cistern_multi_set_pointer(multi, CURLMOPT_TIMERDATA, user)
        cistern_multi_set_socket(multi) { _, socket, what, user, _ in
            CurlMulti.from(user).socketWanted(socket, what)
            return 0
        }
        cistern_multi_set_timer(multi) { _, milliseconds, user in
            CurlMulti.from(user).timerWanted(milliseconds)
            return 0
        }
        cistern_multi_set_long(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, settings.maximumConnections)
        cistern_multi_set_long(multi, CURLMOPT_MAXCONNECTS, settings.maximumConnections)
    }

    private static func from(_ user: UnsafeMutableRawPointer?) -> CurlMulti {
        Unmanaged<CurlMulti>.fromOpaque(user!).takeUnretainedValue()
    }

    func close() {
        isClosed = true
        for task in tasks.values + waiting { release(task) }
        timer?.cancel()
        pool = []
        curl_multi_cleanup(multi)
    }

    // MARK: Tasks

    /// A handle with everything set that is the same for all; nil where there is no memory.
    func takeHandle() -> EasyHandle? {
        if let pooled = pool.popLast() { return pooled.easy.take() }
        guard let easy = EasyHandle(settings) else { return nil }
        let pointer = easy.pointer
        cistern_easy_set_resolver_start(pointer) { _, _, user in
            CurlTask.from(user).connectionBegins()
            return 0
        }
        cistern_easy_set_socket_options(pointer) { user, socket, _ in
            let task = CurlTask.from(user)
            task.connectionBegins()
            task.opensConnection = true
            task.multi.socketOpens(socket)
            return CURL_SOCKOPT_OK
        }
        cistern_easy_set_pointer(pointer, CURLOPT_CLOSESOCKETDATA, Unmanaged.passUnretained(self).toOpaque())
        cistern_easy_set_close(pointer) { user, socket in
            CurlMulti.from(user).socketCloses(socket)
            return 0
        }
        return easy
    }

    /// The task begins at the end of this batch of events, or when there is room for it.
    func add(_ task: CurlTask) {
        let user = Unmanaged.passUnretained(task).toOpaque()
        cistern_easy_set_pointer(task.pointer, CURLOPT_RESOLVER_START_DATA, user)
        cistern_easy_set_pointer(task.pointer, CURLOPT_SOCKOPTDATA, user)
        waiting.append(task)
        queueKick()
    }

    /// Gives libcurl no more than it has connections for: of those that it makes wait itself it does not take the first, and it would do so
    /// before the end of who had the connection is known, and what that connection's end means. Not from within its callbacks, where it
    /// takes none.
    private func giveWaiting() {
        while let task = waiting.first, speaksHTTP2 || tasks.count < settings.maximumConnections {
            waiting.removeFirst()
            tasks[task.pointer] = task
            curl_multi_add_handle(multi, task.pointer)
        }
    }

    /// Takes the task out of libcurl, and its handle back into the pool.
    /// - Returns: false where that was done before.
    @discardableResult
    func release(_ task: CurlTask) -> Bool {
        guard let easy = task.easy.take() else { return false }
        let pointer = easy.pointer
        if tasks.removeValue(forKey: pointer) == nil {
            waiting.removeAll { $0 === task }
        } else {
            inCallbacks { _ = curl_multi_remove_handle(multi, pointer) }
            if !waiting.isEmpty { queueKick() }
        }
        if EasyHandle.mayBeReused, pool.count < Self.poolLimit, !isClosed { pool.append(PooledHandle(easy)) }
        return true
    }

    func unpause(_ task: CurlTask) {
        afterCallbacks { [self] in
            guard !isClosed, task.easy != nil else { return }
            inCallbacks { _ = curl_easy_pause(task.pointer, CURLPAUSE_CONT) }
            collectEnded()
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

    private func collectEnded() {
        guard callbackDepth == 0 else { return }
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let pointer = message.pointee.easy_handle else { continue }
            let code = cistern_message_result(message)
            guard let task = tasks[pointer] else { continue }
            let isConnectionKept = !hasClosedSockets || task.easy?.isConnectionKept != false
            task.ended(code, isConnectionKept: isConnectionKept)
        }
        hasClosedSockets = false
    }

    // MARK: Sockets and timers, as libcurl wants them

    private func act(_ socket: curl_socket_t, _ events: Int32) {
        guard !isClosed else { return }
        var running: Int32 = 0
        inCallbacks { _ = curl_multi_socket_action(multi, socket, events, &running) }
        collectEnded()
    }

    private func queueKick() {
        guard !isKickQueued else { return }
        isKickQueued = true
        loop.atEndOfBatch { [self] in
            isKickQueued = false
            guard !isClosed else { return }
            giveWaiting()
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
            let new = WatchedSocket(socket, multi: self)
            sockets[index] = new
            loop.add(socket, wanted, new)
        }
    }

    private func makeRoom(for index: Int) {
        guard index >= sockets.count else { return }
        let more = index + 64 - sockets.count
        sockets.append(contentsOf: repeatElement(nil, count: more))
        isConnection.append(contentsOf: repeatElement(false, count: more))
        localPorts.append(contentsOf: repeatElement(0, count: more))
    }

    private func socketOpens(_ socket: curl_socket_t) {
        makeRoom(for: Int(socket))
        isConnection[Int(socket)] = true
        localPorts[Int(socket)] = 0
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

    /// No task is on this connection, not even a paused one. libcurl tells connections apart by their local port only.
    private func isIdle(_ socket: curl_socket_t) -> Bool {
        let port = localPort(of: socket)
        return !tasks.keys.contains { long(CURLINFO_LOCAL_PORT, of: $0) == port }
    }

    private func long(_ info: CURLINFO, of pointer: UnsafeMutableRawPointer) -> Int {
        var value = 0
        cistern_easy_get_long(pointer, info, &value)
        return value
    }

    /// Whether the kept connection that a task is about to use has said something that nobody read: libcurl would take it for the answer
    /// (RFC 9112 §9.2). It hands a connection to one that waits for it before any event tells of such bytes.
    func hasSurplus(_ task: CurlTask, localPort port: Int) -> Bool {
        guard !speaksHTTP2, !task.opensConnection, port > 0 else { return false }
        guard descriptors(on: port).contains(where: { csystem_is_quiet($0) == 0 }) else { return false }
        // In HTTP/2 others may be on the connection, and what comes is theirs.
        return !tasks.keys.contains { $0 != task.pointer && long(CURLINFO_LOCAL_PORT, of: $0) == port }
    }

    /// Of connections. More than one where they are to different addresses.
    private func descriptors(on port: Int) -> [curl_socket_t] {
        isConnection.indices.compactMap { index in
            guard isConnection[index] else { return nil }
            if localPorts[index] == 0 { localPorts[index] = localPort(of: curl_socket_t(index)) }
            return localPorts[index] == port ? curl_socket_t(index) : nil
        }
    }
}

/// One of libcurl's sockets.
private final class WatchedSocket: EventHandler {
    let descriptor: Int32
    /// Whether libcurl waits for it now.
    var isWanted = true
    private unowned let multi: CurlMulti

    init(_ descriptor: Int32, multi: CurlMulti) {
        self.descriptor = descriptor
        self.multi = multi
    }

    func ready(_ events: ReadyEvents) { multi.ready(self, events) }
}
