// An IP address to which a name resolves, or to which a connection is established.

import Glibc

public struct NamedAddress: Hashable, Sendable {
    /// The address in network byte order; an IPv4 address occupies the first four bytes.
    private var high: UInt64 = 0
    private var low: UInt64 = 0
    private let isIPv6: Bool

    private init?(_ family: Int32, _ fill: (UnsafeMutableRawBufferPointer) -> Bool) {
        isIPv6 = family == AF_INET6
        var words = (UInt64(0), UInt64(0))
        guard withUnsafeMutableBytes(of: &words, fill) else { return nil }
        (high, low) = words
    }

    /// nil for another address family.
    public init?(_ address: UnsafePointer<sockaddr>) {
        let family = Int32(address.pointee.sa_family)
        self.init(family) { bytes in
            switch family {
            case AF_INET:
                address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                    bytes.storeBytes(of: $0.pointee.sin_addr.s_addr, as: UInt32.self)
                }
            case AF_INET6:
                address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
                    bytes.storeBytes(of: $0.pointee.sin6_addr, as: in6_addr.self)
                }
            default: return false
            }
            return true
        }
    }

    /// nil if the text is no address.
    public init?(_ text: String) {
        let family = text.utf8.contains(UInt8(ascii: ":")) ? AF_INET6 : AF_INET
        self.init(family) { inet_pton(family, text, $0.baseAddress) == 1 }
    }

    /// The remote address of a connected socket; nil if it has no IP address.
    init?(peerOf socket: Int32) {
        var storage = sockaddr_storage()
        var count = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let found = withUnsafeMutablePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                getpeername(socket, address, &count) == 0 ? NamedAddress(UnsafePointer(address)) : nil
            }
        }
        guard let found else { return nil }
        self = found
    }

    /// The address as in a URL: IPv6 in brackets.
    var text: String {
        var words = (high, low)
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        _ = withUnsafeBytes(of: &words) { bytes in
            inet_ntop(isIPv6 ? AF_INET6 : AF_INET, bytes.baseAddress, &text, socklen_t(text.count))
        }
        let plain = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return isIPv6 ? "[\(plain)]" : plain
    }
}
