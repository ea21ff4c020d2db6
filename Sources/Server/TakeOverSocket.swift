// The connection between two processes during a take-over. It carries messages in order, and file descriptors with them. Reading and
// writing block, so each is done on its own thread or queue.

import CSystem
import Downstream
import Glibc
import Reactor
import TakeOver

import struct Synchronization.Atomic

/// `@unchecked Sendable` because only `ended` changes after `init`; one thread reads, and one writes.
final class TakeOverSocket: @unchecked Sendable {
    private let socket: Descriptor
    private let ended = Atomic(false)

    /// Why no message was received.
    enum NoMessage: Error {
        case silent, gone, garbled
    }

    /// A message with its descriptors. Descriptors that are not taken are closed.
    final class Received {
        let message: TakeOverMessage
        private var descriptors: [Int32]

        init(_ message: TakeOverMessage, _ descriptors: [Int32]) { (self.message, self.descriptors) = (message, descriptors) }

        deinit { for descriptor in descriptors { close(descriptor) } }

        var count: Int { descriptors.count }

        /// The next descriptor; not open if there is none left.
        func next() -> Descriptor { Descriptor(descriptors.isEmpty ? -1 : descriptors.removeFirst()) }
    }

    private static let lengthBytes = 4

    init(_ socket: consuming Descriptor) { self.socket = socket }

    /// - Returns: nil, with `errno` set, if the connection fails.
    convenience init?(connectingTo path: String) {
        let socket = Descriptor(Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0))
        guard socket.isOpen, path.utf8.count < 108,
            ListenAddress.unix(path: path).withSocketAddress({ connect(socket.number, $0, $1) }) == 0
        else { return nil }
        self.init(socket)
    }

    /// Whether the other side is a process of the same user.
    var isOfSameUser: Bool {
        var user: uid_t = 0
        return csystem_peer_user(socket.number, &user) == 0 && user == geteuid()
    }

    /// Ends the connection for reading and writing.
    func end() {
        ended.store(true, ordering: .relaxed)
        shutdown(socket.number, Int32(SHUT_RDWR))
    }

    var isEnded: Bool { ended.load(ordering: .relaxed) }

    /// - Parameters:
    ///   - descriptors: at most `CSYSTEM_DESCRIPTORS`.
    /// - Returns: whether the kernel accepted the whole message. Each write may wait for `TakeOverMessage.patienceMilliseconds`.
    func send(_ message: TakeOverMessage, _ descriptors: [Int32] = []) -> Bool {
        let patience = TakeOverMessage.patienceMilliseconds
        let content = message.bytes
        guard content.count <= TakeOverMessage.limitBytes, wait(for: POLLOUT, Int32(clamping: patience)) else { return false }
        var time = timeval(tv_sec: patience / 1_000, tv_usec: patience % 1_000 * 1_000)
        setsockopt(socket.number, SOL_SOCKET, SO_SNDTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
        let bytes = withUnsafeBytes(of: UInt32(content.count).littleEndian) { Array($0) } + content
        return bytes.withUnsafeBytes { bytes in
            WholeWrite.perform(bytes) { left, taken in
                csystem_send_descriptors(
                    socket.number, left.baseAddress, left.count, descriptors, taken == 0 ? Int32(descriptors.count) : 0)
            } == bytes.count
        }
    }

    struct Deadline: Sendable {
        private let end: Int64

        /// Five seconds from now.
        static var patience: Deadline { Deadline(end: now + Int64(TakeOverMessage.patienceMilliseconds)) }

        var leftMilliseconds: Int32 { Int32(clamping: max(0, end - Self.now)) }

        private static var now: Int64 { SystemTime.shared.monotonicMilliseconds }
    }

    /// - Parameters:
    ///   - deadline: for the whole message. nil: no limit for its first byte, then `Deadline.patience` for the rest of the message.
    ///   - limit: maximum length of the message in bytes.
    func receive(within deadline: Deadline?, limit: Int = TakeOverMessage.limitBytes) throws(NoMessage) -> Received {
        var descriptors: [Int32] = []
        guard wait(for: POLLIN, deadline?.leftMilliseconds ?? -1) else { throw .silent }
        let deadline = deadline ?? .patience
        do throws(NoMessage) {
            let length = try read(Self.lengthBytes, deadline, &descriptors).reversed().reduce(0) { $0 << 8 | Int($1) }
            guard length <= limit else { throw .garbled }
            let content = try read(length, deadline, &descriptors)
            guard let message = TakeOverMessage(content) else { throw .garbled }
            return Received(message, descriptors)
        } catch {
            for descriptor in descriptors { close(descriptor) }
            throw error
        }
    }

    private func read(_ count: Int, _ deadline: Deadline, _ descriptors: inout [Int32]) throws(NoMessage) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var got = 0
        while got < count {
            guard wait(for: POLLIN, deadline.leftMilliseconds) else { throw .silent }
            var came = [Int32](repeating: -1, count: Int(CSYSTEM_DESCRIPTORS))
            var number: Int32 = 0
            let part = bytes.withUnsafeMutableBytes {
                csystem_receive_descriptors(socket.number, $0.baseAddress! + got, count - got, &came, &number)
            }
            descriptors += came.prefix(Int(number))
            if part < 0, errno == EINTR { continue }
            guard part > 0 else { throw .gone }
            got += part
        }
        return bytes
    }

    private func wait(for event: Int32, _ milliseconds: Int32) -> Bool {
        var waiting = pollfd(fd: socket.number, events: Int16(event), revents: 0)
        while true {
            let ready = poll(&waiting, 1, milliseconds)
            if ready < 0, errno == EINTR { continue }
            return ready > 0
        }
    }
}
