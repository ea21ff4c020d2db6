// A blocking HTTP request over a new connection, for commands.

import Downstream
import Glibc
import Reactor

enum PlainHTTP {
    /// Returns the bytes of the response up to the end of the connection; nil, with `errno`, if connecting or receiving fails.
    static func exchange(_ bytes: [UInt8], with address: ListenAddress, patienceSeconds: Int) -> [UInt8]? {
        let socket = Descriptor(Glibc.socket(address.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0))
        var limit = timeval(tv_sec: patienceSeconds, tv_usec: 0)
        setsockopt(socket.number, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(socket.number, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        guard address.withSocketAddress({ connect(socket.number, $0, $1) }) == 0 else { return nil }
        // A send error is ignored: a server that closed early may have sent a response that explains it.
        _ = bytes.withUnsafeBytes { WholeWrite.send($0, to: socket.number) }
        var response: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = recv(socket.number, &piece, piece.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return nil }
            if count == 0 { return response }
            response += piece[..<count]
        }
    }
}
