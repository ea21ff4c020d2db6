// An address that answers no connection attempt.

import CSystem
import Downstream
import Glibc
import Reactor

/// A listener with a full queue. The kernel drops further attempts, as on the way to a machine that is switched off.
package final class SilentServer: Sendable {
    private let listener: Descriptor
    /// Attempts that fill the queue.
    private let fillers: [Int32]

    package init(_ host: String, port: UInt16) {
        let address = ListenAddress.ipv4(host: host, port: port)
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        listener = Descriptor(socket(address.family, kind, 0))
        let number = listener.number
        var one: Int32 = 1
        setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        precondition(address.withSocketAddress { bind(number, $0, $1) == 0 } && listen(number, 0) == 0, "the address is in use")
        fillers = (0..<4).map { _ in
            let filler = socket(address.family, kind | Int32(SOCK_NONBLOCK.rawValue), 0)
            _ = address.withSocketAddress { connect(filler, $0, $1) }
            return filler
        }
    }

    deinit { for filler in fillers { close(filler) } }
}
