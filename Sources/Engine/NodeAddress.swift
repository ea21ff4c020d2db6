// Addresses of a server, and sockets connected to them.

import CSystem
import Glibc
import Reactor

struct NodeAddress: Equatable, Sendable {
    private let bytes: [UInt8]

    init(_ address: UnsafePointer<sockaddr>, _ count: Int) { bytes = [UInt8](UnsafeRawBufferPointer(start: address, count: count)) }

    init?(unixSocket path: String) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let text = Array(path.utf8)
        guard text.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: text) }
        bytes = withUnsafeBytes(of: &address) { Array($0) }
    }

    /// Returns the server's addresses; nil if there are none. Blocks, unless `isNumeric`.
    static func find(_ server: EngineServer, isNumeric: Bool) -> [NodeAddress]? {
        guard case .host(let name, let port) = server else {
            guard case .unix(let path) = server else { return nil }
            return NodeAddress(unixSocket: path).map { [$0] }
        }
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV | (isNumeric ? AI_NUMERICHOST : AI_ADDRCONFIG)
        var first: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(name, String(port), &hints, &first) == 0 else { return nil }
        defer { freeaddrinfo(first) }
        var found: [NodeAddress] = []
        var next = first
        while let one = next, found.count < addressLimit {
            if let address = one.pointee.ai_addr { found.append(NodeAddress(address, Int(one.pointee.ai_addrlen))) }
            next = one.pointee.ai_next
        }
        return found
    }

    private static let addressLimit = 8

    private func set(_ socket: Int32, _ level: Int32, _ option: Int32, _ value: Int32) {
        var value = value
        setsockopt(socket, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    func connect() -> Descriptor? {
        let number = bytes.withUnsafeBytes { raw -> Int32 in
            let address = raw.baseAddress!.assumingMemoryBound(to: sockaddr.self)
            let family = Int32(address.pointee.sa_family)
            let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
            let socket = Glibc.socket(family, type, 0)
            guard socket >= 0 else { return -1 }
            if family != AF_UNIX {
                set(socket, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
                // Detects dead idle connections before the next command is sent.
                set(socket, SOL_SOCKET, SO_KEEPALIVE, 1)
                set(socket, Int32(IPPROTO_TCP), TCP_KEEPIDLE, 30)
                set(socket, Int32(IPPROTO_TCP), TCP_KEEPINTVL, 5)
                set(socket, Int32(IPPROTO_TCP), TCP_KEEPCNT, 3)
            }
            guard Glibc.connect(socket, address, socklen_t(raw.count)) == 0 || errno == EINPROGRESS else {
                _ = close(socket)
                return -1
            }
            return socket
        }
        return number < 0 ? nil : Descriptor(number)
    }
}
