// Closing a descriptor, under a name that does not collide with the methods called `close`; ending a connection that others still hold.

import Glibc

func closeDescriptor(_ descriptor: Int32) { _ = close(descriptor) }

/// 0 where it has none, as a Unix socket.
func localPort(of descriptor: Int32) -> Int {
    var address = sockaddr_in6()
    var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
    let result = withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
    }
    guard result == 0, address.sin6_family == sa_family_t(AF_INET6) || address.sin6_family == sa_family_t(AF_INET) else { return 0 }
    // The port lies at the same place in both families' addresses.
    return Int(UInt16(bigEndian: address.sin6_port))
}

/// Both directions are over, and what arrived is thrown away: whoever reads next finds the end.
func endConnection(_ descriptor: Int32) {
    shutdown(descriptor, Int32(SHUT_RDWR))
    withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: 1) { space in
        while recv(descriptor, space.baseAddress, space.count, Int32(MSG_DONTWAIT)) > 0 {}
    }
}
