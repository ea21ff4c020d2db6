// Establishes connections with libcurl: to addresses, Unix sockets, through SOCKS, and tunnels through forward proxies. libcurl only
// connects (`CURLOPT_CONNECT_ONLY`). Its socket is duplicated and its handle released, so libcurl does not use the connection afterwards.
// The shard's epoll watches libcurl's sockets; there is no second event loop.

import CLibcurl
import CSystem
import Glibc
import Reactor

/// Belongs to one event loop and is used on it only.
final class CurlConnector {
    /// A connection that libcurl has established. Closed on deinitialization, unless a caller has taken the socket.
    final class Connected {
        private var socket: Descriptor
        /// End of libcurl's name resolution in microseconds since the start of the task.
        let resolved: Int32

        fileprivate init(_ socket: consuming Descriptor, resolved: Int32) {
            self.socket = socket
            self.resolved = resolved
        }

        var number: Int32 { socket.number }

        /// Transfers ownership of the socket to the caller.
        func takeSocket() -> Descriptor {
            var taken = Descriptor(-1)
            swap(&taken, &socket)
            return taken
        }
    }

    typealias Completion = (Result<Connected, UpstreamError>) -> Void

    let settings: UpstreamSettings
    private let loop: EventLoop
    private let multi: UnsafeMutableRawPointer
    /// The active tasks, by libcurl's handle.
    private var tasks: [UnsafeMutableRawPointer: Task] = [:]
    var taskCount: Int { tasks.count }
    private var sockets: [Int32: WatchedSocket] = [:]
    private var timer: LoopTimer?
    private var isKickQueued = false
    /// Whether the next kick concerns all tasks, not only those with an expired timer.
    private var kicksAll = false
    /// Whether libcurl closes sockets because a task has ended.
    private var isReleasing = false
    private var isClosed = false

    private static let initialised: Bool = curl_global_init(cistern_global_all()) == CURLE_OK

    init(loop: EventLoop, settings: UpstreamSettings) {
        precondition(Self.initialised, "cannot initialize libcurl")
        guard let multi = curl_multi_init() else { preconditionFailure("no memory for libcurl") }
        self.loop = loop
        self.settings = settings
        self.multi = multi
        let user = Unmanaged.passUnretained(self).toOpaque()
        cistern_multi_set_pointer(multi, CURLMOPT_SOCKETDATA, user)
        cistern_multi_set_pointer(multi, CURLMOPT_TIMERDATA, user)
        cistern_multi_set_socket(multi) { _, socket, what, user, _ in
            CurlConnector.from(user).want(socket, what)
            return 0
        }
        cistern_multi_set_timer(multi) { _, milliseconds, user in
            CurlConnector.from(user).wantTimer(milliseconds)
            return 0
        }
    }

    private static func from(_ user: UnsafeMutableRawPointer?) -> CurlConnector {
        Unmanaged<CurlConnector>.fromOpaque(user!).takeUnretainedValue()
    }

    func close() {
        isClosed = true
        for task in tasks.values { release(task) }
        timer?.cancel()
        curl_multi_cleanup(multi)
    }

    // MARK: Tasks

    /// One connection that is being established.
    final class Task {
        fileprivate let pointer: UnsafeMutableRawPointer
        fileprivate var easy: EasyHandle?
        fileprivate let completion: Completion
        /// errno of the last socket(2); 0 if it succeeded. libcurl writes it.
        private let socketError = UnsafeMutablePointer<Int32>.allocate(capacity: 1)

        fileprivate init(_ easy: consuming EasyHandle, _ completion: @escaping Completion) {
            pointer = easy.pointer
            self.easy = consume easy
            self.completion = completion
            socketError.initialize(to: 0)
            cistern_easy_note_socket_error(pointer, socketError)
        }

        deinit { socketError.deallocate() }

        /// Whether the name has been resolved.
        var hasResolved: Bool { easy != nil && time(CURLINFO_NAMELOOKUP_TIME_T) != 0 }

        /// errno of the last failed connect(2) or socket(2); 0 if none failed.
        fileprivate var systemError: Int32 {
            socketError.pointee == 0 ? Int32(clamping: number(CURLINFO_OS_ERRNO)) : socketError.pointee
        }

        fileprivate func number(_ info: CURLINFO) -> Int {
            var number = 0
            cistern_easy_get_long(pointer, info, &number)
            return number
        }

        fileprivate func time(_ info: CURLINFO) -> Int32 {
            var time: curl_off_t = 0
            cistern_easy_get_offset(pointer, info, &time)
            return Int32(clamping: time)
        }
    }

    /// Starts a connection at the end of this batch of events.
    /// - Parameters:
    ///   - address: an address of the host; nil to let libcurl resolve it.
    ///   - completion: called once, never during this call, and not after `release`.
    /// - Returns: nil if memory is exhausted.
    func connect(to address: NamedAddress?, _ completion: @escaping Completion) -> Task? {
        loop.assertOnLoop()
        guard !isClosed, let easy = EasyHandle(settings, address) else { return nil }
        let task = Task(easy, completion)
        cistern_easy_set_pointer(task.pointer, CURLOPT_CLOSESOCKETDATA, Unmanaged.passUnretained(self).toOpaque())
        cistern_easy_set_close(task.pointer) { user, socket in
            CurlConnector.from(user).closed(socket)
            return 0
        }
        tasks[task.pointer] = task
        curl_multi_add_handle(multi, task.pointer)
        queueKick()
        return task
    }

    /// Ends a task and releases its handle. The completion of a cancelled task is not called.
    func release(_ task: Task) {
        guard let easy = task.easy.take() else { return }
        tasks[task.pointer] = nil
        isReleasing = true
        curl_multi_remove_handle(multi, easy.pointer)
        isReleasing = false
    }

    private func result(of task: Task, _ code: CURLcode) -> Result<Connected, UpstreamError> {
        guard code == CURLE_OK else {
            return .failure(
                UpstreamError(
                    connecting: code, tunnel: task.number(CURLINFO_HTTP_CONNECTCODE), errno: task.systemError))
        }
        var socket: curl_socket_t = -1
        cistern_easy_get_socket(task.pointer, &socket)
        // A separate descriptor, because libcurl closes its own one when the handle is released.
        let ours = Descriptor(socket >= 0 ? csystem_duplicate(socket) : -1)
        guard ours.isOpen else { return .failure(.proxyInternalError) }
        return .success(Connected(ours, resolved: task.time(CURLINFO_NAMELOOKUP_TIME_T)))
    }

    // MARK: Sockets and timers of libcurl

    private func act(_ socket: curl_socket_t, _ events: Int32) {
        guard !isClosed else { return }
        var running: Int32 = 0
        if kicksAll {
            kicksAll = false
            cistern_multi_act_on_all(multi, &running)
        }
        curl_multi_socket_action(multi, socket, events, &running)
        var left: Int32 = 0
        while !isClosed, let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let pointer = message.pointee.easy_handle, let task = tasks[pointer] else {
                continue
            }
            let result = result(of: task, cistern_message_result(message))
            release(task)
            task.completion(result)
        }
    }

    private func queueKick() {
        guard !isKickQueued else { return }
        isKickQueued = true
        loop.atEndOfBatch { [self] in
            isKickQueued = false
            act(CURL_SOCKET_TIMEOUT, 0)
        }
    }

    private func wantTimer(_ milliseconds: Int) {
        timer?.cancel()
        timer = nil
        if milliseconds == 0 { return queueKick() }
        guard milliseconds > 0 else { return }
        timer = loop.schedule(after: .milliseconds(milliseconds)) { self.act(CURL_SOCKET_TIMEOUT, 0) }
    }

    private func want(_ socket: curl_socket_t, _ what: Int32) {
        let wanted: ReadyEvents =
            switch what {
            case CURL_POLL_IN: .readable
            case CURL_POLL_OUT: .writable
            case CURL_POLL_INOUT: [.readable, .writable]
            default: []
            }
        // Must happen at once, because libcurl closes the sockets of its resolver threads without notice and the kernel reuses their
        // descriptors.
        if wanted.isEmpty { return forget(socket) }
        if sockets[socket] != nil { return loop.modify(socket, wanted) }
        let new = WatchedSocket { [unowned self] in act(socket, $0) }
        sockets[socket] = new
        loop.add(socket, wanted, new)
    }

    /// libcurl tries the next address of a forward proxy after it has closed the socket of a failed one. Some versions (7.88) then set
    /// neither a socket nor a timer, so they must be called.
    private func closed(_ socket: curl_socket_t) {
        forget(socket)
        _ = Glibc.close(socket)
        guard settings.proxy != nil, !isReleasing, !tasks.isEmpty else { return }
        kicksAll = true
        queueKick()
    }

    private func forget(_ socket: curl_socket_t) {
        guard sockets.removeValue(forKey: socket) != nil else { return }
        loop.remove(socket)
    }
}

/// A socket of libcurl.
private final class WatchedSocket: EventHandler {
    private let act: (Int32) -> Void

    init(_ act: @escaping (Int32) -> Void) { self.act = act }

    func ready(_ events: ReadyEvents) {
        var action: Int32 = 0
        if events.isReadable || events.isBroken { action |= CURL_CSELECT_IN }
        if events.isWritable { action |= CURL_CSELECT_OUT }
        if events.contains(.failed) { action |= CURL_CSELECT_ERR }
        act(action)
    }
}
