// The connection of two processes of which one takes over from the other: messages in their order, and descriptors beside them. Whoever reads or writes here
// waits, on a thread of its own.

import CSystem
import Descriptors
import Downstream
import Glibc
import TakeOver

/// `@unchecked Sendable` because nothing changes after `init`; one thread reads, and one writes.
final class TakeOverSocket: @unchecked Sendable {
    private let socket: Descriptor

    /// What came instead of a message.
    enum NoMessage: Error {
        case silent, gone, garbled
    }

    /// What came, and the descriptors beside it; what is not taken of these is closed.
    final class Received {
        let message: TakeOverMessage
        private var descriptors: [Int32]

        init(_ message: TakeOverMessage, _ descriptors: [Int32]) { (self.message, self.descriptors) = (message, descriptors) }

        deinit { for descriptor in descriptors { close(descriptor) } }

        var count: Int { descriptors.count }

        /// The next one; not open where there is none left.
        func next() -> Descriptor { Descriptor(descriptors.isEmpty ? -1 : descriptors.removeFirst()) }
    }

    private static let lengthBytes = 4

    init(_ socket: consuming Descriptor) { self.socket = socket }

    /// - Returns: nil, with `errno`, where nobody listens there.
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

    /// The other side reads no more, and hears no more.
    func end() { shutdown(socket.number, Int32(SHUT_RDWR)) }

    /// - Parameters:
    ///   - descriptors: `CSYSTEM_DESCRIPTORS` at most.
    ///   - patience: in milliseconds, for as long as nothing is taken.
    /// - Returns: whether the kernel took all of it.
    func send(_ message: TakeOverMessage, _ descriptors: [Int32] = [], patience: Int = 5_000) -> Bool {
        let content = message.bytes
        guard content.count <= TakeOverMessage.limitBytes, wait(for: POLLOUT, patience) else { return false }
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

    /// - Parameter patience: in milliseconds, for as long as nothing comes; nil: for ever.
    func receive(patience: Int?) throws(NoMessage) -> Received {
        var descriptors: [Int32] = []
        do throws(NoMessage) {
            let length = try read(Self.lengthBytes, patience, &descriptors).reversed().reduce(0) { $0 << 8 | Int($1) }
            guard length <= TakeOverMessage.limitBytes else { throw .garbled }
            let content = try read(length, patience ?? Self.restPatience, &descriptors)
            guard let message = TakeOverMessage(content) else { throw .garbled }
            return Received(message, descriptors)
        } catch {
            for descriptor in descriptors { close(descriptor) }
            throw error
        }
    }

    /// For what has begun to come.
    private static let restPatience = 5_000

    private func read(_ count: Int, _ patience: Int?, _ descriptors: inout [Int32]) throws(NoMessage) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var got = 0
        while got < count {
            guard wait(for: POLLIN, patience) else { throw .silent }
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

    private func wait(for event: Int32, _ patience: Int?) -> Bool {
        var waiting = pollfd(fd: socket.number, events: Int16(event), revents: 0)
        while true {
            let ready = poll(&waiting, 1, patience.map { Int32(clamping: $0) } ?? -1)
            if ready < 0, errno == EINTR { continue }
            return ready > 0
        }
    }
}
