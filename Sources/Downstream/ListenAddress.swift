// Where to listen: an IPv4 or IPv6 address and port, or a path in the file system.

import CSystem
import Glibc
import HTTPCore

package enum ListenAddress: Sendable, Equatable, CustomStringConvertible {
    case ipv4(host: String, port: UInt16)
    case ipv6(host: String, port: UInt16)
    case unix(path: String)

    /// `HOST:PORT`, `:PORT` (every IPv4 address), `[ADDRESS]:PORT`, or `unix:PATH`.
    package init?(_ text: String) {
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst(5))
            guard !path.isEmpty, path.utf8.count < 108 else { return nil }
            self = .unix(path: path)
            return
        }
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else { return nil }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
            var address = in6_addr()
            guard inet_pton(AF_INET6, host, &address) == 1 else { return nil }
            self = .ipv6(host: host, port: port)
            return
        }
        if host.isEmpty { host = "0.0.0.0" } else if host == "localhost" { host = "127.0.0.1" }
        var address = in_addr()
        guard inet_pton(AF_INET, host, &address) == 1 else { return nil }
        self = .ipv4(host: host, port: port)
    }

    package var description: String {
        switch self {
        case .ipv4(let host, let port): "\(host):\(port)"
        case .ipv6(let host, let port): "[\(host)]:\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }

    /// Whether nobody but this machine's users can reach it.
    package var isLocal: Bool {
        switch self {
        case .ipv4(let host, _): host.hasPrefix("127.")
        case .ipv6(let host, _): host == "::1"
        case .unix: true
        }
    }

    package func withPort(_ port: UInt16) -> ListenAddress {
        switch self {
        case .ipv4(let host, _): .ipv4(host: host, port: port)
        case .ipv6(let host, _): .ipv6(host: host, port: port)
        case .unix: self
        }
    }

    package var family: Int32 {
        switch self {
        case .ipv4: AF_INET
        case .ipv6: AF_INET6
        case .unix: AF_UNIX
        }
    }

    /// Calls `body` with the address as the kernel wants it.
    package func withSocketAddress<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
        var storage = sockaddr_storage()
        let length: socklen_t
        switch self {
        case .ipv4(let host, let port):
            length = withUnsafeMutableBytes(of: &storage) { bytes in
                let address = bytes.assumingMemoryBound(to: sockaddr_in.self).baseAddress!
                address.pointee.sin_family = sa_family_t(AF_INET)
                address.pointee.sin_port = port.bigEndian
                inet_pton(AF_INET, host, &address.pointee.sin_addr)
                return socklen_t(MemoryLayout<sockaddr_in>.size)
            }
        case .ipv6(let host, let port):
            length = withUnsafeMutableBytes(of: &storage) { bytes in
                let address = bytes.assumingMemoryBound(to: sockaddr_in6.self).baseAddress!
                address.pointee.sin6_family = sa_family_t(AF_INET6)
                address.pointee.sin6_port = port.bigEndian
                inet_pton(AF_INET6, host, &address.pointee.sin6_addr)
                return socklen_t(MemoryLayout<sockaddr_in6>.size)
            }
        case .unix(let path):
            length = withUnsafeMutableBytes(of: &storage) { bytes in
                bytes.storeBytes(of: sa_family_t(AF_UNIX), as: sa_family_t.self)
                for (index, byte) in path.utf8.enumerated() { bytes[2 + index] = byte }
                return socklen_t(2 + path.utf8.count + 1)
            }
        }
        return withUnsafeBytes(of: &storage) { body($0.assumingMemoryBound(to: sockaddr.self).baseAddress!, length) }
    }
}

/// A client's address, kept small: one lies in every connection.
package struct PeerAddress: Sendable {
    private var bytes: InlineArray<16, UInt8> = .init(repeating: 0)
    package private(set) var port: UInt16 = 0
    private var family: UInt8 = 0

    package var isUnix: Bool { family == UInt8(AF_UNIX) }
    package var isIPv6: Bool { family == UInt8(AF_INET6) }

    init(_ storage: sockaddr_storage) {
        family = UInt8(truncatingIfNeeded: storage.ss_family)
        withUnsafeBytes(of: storage) { raw in
            guard family == UInt8(AF_INET) || family == UInt8(AF_INET6) else { return }
            port = UInt16(raw[2]) << 8 | UInt16(raw[3])
            let (start, count) = family == UInt8(AF_INET) ? (4, 4) : (8, 16)
            for index in 0..<count { bytes[index] = raw[start + index] }
        }
    }

    /// The address as a number, to tell clients apart. Of IPv6 the network: a client has all of a /64 at its disposal.
    var number: UInt128 {
        var number: UInt128 = 0
        for index in 0..<(isIPv6 ? 8 : 16) { number = number << 8 | UInt128(bytes[index]) }
        return isIPv6 ? number << 64 | 1 : number
    }

    /// The address as text, without the port; empty for a Unix socket.
    package var text: [UInt8] {
        guard !isUnix else { return [] }
        guard isIPv6 else {
            var out: [UInt8] = []
            out.reserveCapacity(16)
            for index in 0..<4 {
                if index > 0 { out.append(UInt8(ascii: ".")) }
                out.append(decimal: Int(bytes[index]))
            }
            return out
        }
        var out = [CChar](repeating: 0, count: 64)
        var copy = bytes
        _ = withUnsafeBytes(of: &copy) { inet_ntop(Int32(family), $0.baseAddress, &out, 64) }
        return out.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
    }
}
