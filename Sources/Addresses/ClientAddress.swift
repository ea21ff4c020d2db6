// The address of a client, and its identity for limits per client.

public enum ClientAddress: Sendable, Equatable {
    case known(IPAddress)
    /// Client of a Unix socket. The file's permissions determine who may use it.
    case local
    /// A trusted proxy gave an address that cannot be parsed.
    case unknown

    public var address: IPAddress? { if case .known(let address) = self { address } else { nil } }

    /// Number for the client (`IPAddress.clientNumber`); 0 if the address is unknown.
    public var number: UInt64 { address?.clientNumber ?? 0 }

    /// Identity for limits per client: the address, or the /64 network for IPv6. All unknown clients share one identity. Returns nil if no
    /// limit applies: a trusted proxy represents many clients, and clients of a Unix socket are indistinguishable.
    public func counted(besides trustedProxies: NetworkList) -> UInt128? {
        switch self {
        case .known(let address): trustedProxies.contains(address) ? nil : address.client
        case .local: nil
        case .unknown: .max
        }
    }
}
