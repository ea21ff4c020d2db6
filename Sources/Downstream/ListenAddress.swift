// Listening addresses: an IPv4 or IPv6 address with port, a path of a Unix socket, or a listening socket that the service manager passes.

import Addresses
import CSystem
import Glibc
import HTTPCore

public enum ListenAddress: Sendable, Equatable, CustomStringConvertible {
    /// Maximum length of a Unix socket's path in bytes: `sun_path` of unix(7) without the terminating zero.
    public static let unixPathLimit = 107

    case ipv4(host: String, port: UInt16)
    case ipv6(host: String, port: UInt16)
    case unix(path: String)
    /// A socket passed by systemd. Its address is known from the socket only; the descriptor is -1 until the socket is received.
    case activated(name: String, descriptor: Int32)

    /// Parses `HOST:PORT`, `:PORT` (every IPv4 address), `[ADDRESS]:PORT`, `unix:PATH` or `systemd:NAME`.
    public init?(_ text: String) {
        if text.hasPrefix("systemd:") {
            let name = String(text.dropFirst(8))
            guard !name.isEmpty, !name.contains(":") else { return nil }
            self = .activated(name: name, descriptor: -1)
            return
        }
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst(5))
            guard !path.isEmpty, path.utf8.count <= Self.unixPathLimit else { return nil }
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

    public var description: String {
        switch self {
        case .ipv4(let host, let port): "\(host):\(port)"
        case .ipv6(let host, let port): "[\(host)]:\(port)"
        case .unix(let path): "unix:\(path)"
        case .activated(let name, _): "systemd:\(name)"
        }
    }

    /// Whether only users of this machine can connect.
    public var isLocal: Bool {
        switch self {
        case .ipv4(let host, _): host.hasPrefix("127.")
        case .ipv6(let host, _): host == "::1"
        case .unix: true
        case .activated: false
        }
    }

    /// nil for a Unix socket, and for a passed socket with an unknown address.
    public var port: UInt16? {
        switch self {
        case .ipv4(_, let port), .ipv6(_, let port): port
        case .unix, .activated: nil
        }
    }

    /// Whether the address stands for all addresses of the machine.
    public var isWildcard: Bool {
        switch self {
        case .ipv4(let host, _): host == "0.0.0.0"
        case .ipv6(let host, _): host == "::"
        case .unix, .activated: false
        }
    }

    /// Whether one of the two is a wildcard address and the other is not, with equal family and port.
    public func overlaps(_ other: ListenAddress) -> Bool {
        port != nil && port != 0 && port == other.port && family == other.family && isWildcard != other.isWildcard
    }

    public func withPort(_ port: UInt16) -> ListenAddress {
        switch self {
        case .ipv4(let host, _): .ipv4(host: host, port: port)
        case .ipv6(let host, _): .ipv6(host: host, port: port)
        case .unix, .activated: self
        }
    }

    public var family: Int32 {
        switch self {
        case .ipv4: AF_INET
        case .ipv6: AF_INET6
        case .unix: AF_UNIX
        case .activated: AF_UNSPEC
        }
    }

    /// Calls `body` with the address in the kernel's form.
    public func withSocketAddress<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
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
        case .activated: length = 0
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

extension ListenAddress {
    /// Returns the address of a bound socket; nil for an unsupported address family.
    init?(boundTo descriptor: Int32) {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let result = withUnsafeMutableBytes(of: &storage) {
            getsockname(descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!, &length)
        }
        guard result == 0 else { return nil }
        switch Int32(storage.ss_family) {
        case AF_INET:
            let address = PeerAddress(storage)
            self = .ipv4(host: String(decoding: address.address?.text ?? [], as: UTF8.self), port: address.port)
        case AF_INET6:
            var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
            let port = withUnsafeBytes(of: storage) { bytes in
                inet_ntop(AF_INET6, bytes.baseAddress! + 8, &text, socklen_t(text.count))
                return UInt16(bytes[2]) << 8 | UInt16(bytes[3])
            }
            self = .ipv6(host: String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self), port: port)
        case AF_UNIX:
            let path = withUnsafeBytes(of: storage) { Array($0[2..<Int(length)]) }
            // The name of an abstract socket begins with a zero byte.
            let name = path.first == 0 ? [UInt8(ascii: "@")] + path.dropFirst() : Array(path.prefix { $0 != 0 })
            self = .unix(path: String(decoding: name, as: UTF8.self))
        default: return nil
        }
    }
}

/// The remote address of a connection.
public struct PeerAddress: Sendable {
    /// nil for a Unix socket, and if the address is unknown.
    public let address: IPAddress?
    public let port: UInt16
    /// Whether a load balancer sent a PROXY protocol header without an address.
    private let isUnknown: Bool

    public var clientAddress: ClientAddress { address.map { .known($0) } ?? (isUnknown ? .unknown : .local) }

    public init(_ address: IPAddress?, port: UInt16) { (self.address, self.port, isUnknown) = (address, port, false) }

    private init() { (address, port, isUnknown) = (nil, 0, true) }

    static let unknown = PeerAddress()

    init(_ storage: sockaddr_storage) {
        let (start, count) =
            switch Int32(storage.ss_family) {
            case AF_INET: (4, 4)
            case AF_INET6: (8, 16)
            default: (2, 0)
            }
        isUnknown = false
        (address, port) = withUnsafeBytes(of: storage) { raw in
            (IPAddress(bytes: raw[start..<(start + count)]), count == 0 ? 0 : UInt16(raw[2]) << 8 | UInt16(raw[3]))
        }
    }
}
