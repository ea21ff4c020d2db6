// Where a client is, and as whom it counts where each client has a limit.

public enum ClientAddress: Sendable, Equatable {
    case known(IPAddress)
    /// At the other end of a Unix socket, whose file says who may use it.
    case local
    /// A trusted proxy said something of it that cannot be read.
    case unknown

    public var address: IPAddress? { if case .known(let address) = self { address } else { nil } }

    /// Whom a limit for each client counts it as: an address, of IPv6 a /64 network; all that are unknown are one. nil where it does not count: a
    /// trusted proxy speaks for many clients, and those of a Unix socket nobody can tell apart.
    public func counted(besides trustedProxies: NetworkList) -> UInt128? {
        switch self {
        case .known(let address): trustedProxies.contains(address) ? nil : address.client
        case .local: nil
        case .unknown: .max
        }
    }
}
