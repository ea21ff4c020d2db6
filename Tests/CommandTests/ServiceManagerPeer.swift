// The service manager's side for tests: receives notifications, passes sockets, and ends processes.

import CSystem
import Downstream
import Glibc
import Testing

/// The notification socket of a service manager.
final class ServiceManagerPeer {
    let name: String
    private let socket: Int32

    init(_ name: String) throws {
        self.name = name
        socket = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = name.hasPrefix("@") ? [0] + name.utf8.dropFirst() : Array(name.utf8)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let bound = withUnsafeBytes(of: &address) {
            bind(socket, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!, socklen_t(2 + bytes.count))
        }
        try #require(bound == 0)
    }

    deinit { close(socket) }

    /// Waits for a notification.
    func next() -> [String] {
        var bytes = [UInt8](repeating: 0, count: 4_096)
        let count = recv(socket, &bytes, bytes.count, 0)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self).split(separator: "\n").map(String.init)
    }

    /// Waits until another process declares itself the main process, and ready.
    /// - Returns: nil if another notification arrives first.
    func nextMain() -> pid_t? {
        var said = next()
        while said == ["WATCHDOG=1"] { said = next() }
        guard let main = said.first.flatMap({ pid_t($0.dropFirst("MAINPID=".count)) }) else { return nil }
        while said.first != "READY=1" { said = next() }
        return main
    }

    /// A socket on a free port, which listens unless `listens` is false.
    static func listening(_ type: Int32 = Int32(SOCK_STREAM.rawValue), listens: Bool = true) throws -> (descriptor: Int32, port: UInt16) {
        let descriptor = Glibc.socket(AF_INET, type | Int32(SOCK_CLOEXEC.rawValue), 0)
        let bound = ListenAddress.ipv4(host: "127.0.0.1", port: 0).withSocketAddress { bind(descriptor, $0, $1) }
        try #require(bound == 0 && (!listens || listen(descriptor, 64) == 0))
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafeMutableBytes(of: &address) {
            getsockname(descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!, &length)
        }
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }

    /// Ends a process that is not a child, and waits until its cache is unlocked.
    static func stop(_ process: pid_t, cache: String) {
        let lock = csystem_open(cache + "/lock", O_RDWR | O_CLOEXEC, 0)
        defer { close(lock) }
        kill(process, SIGTERM)
        flock(lock, LOCK_EX)
    }
}
