// Networks in the operator's notation, and tables of networks with longest-prefix matching.

import HTTPCore

public struct IPNetwork: Hashable, Sendable, CustomStringConvertible {
    public let address: IPAddress
    public let prefixBits: Int

    public enum Problem: Error, Sendable, Equatable, CustomStringConvertible {
        case address(String)
        case prefix(String, atMost: Int)
        /// Bits after the prefix are not zero. `meant` is the network with these bits cleared.
        case bitsBehindPrefix(String, meant: String)

        public var description: String {
            switch self {
            case .address(let text): "\"\(text)\" is not an address or network; examples: 192.0.2.7, 10.0.0.0/8, 2001:db8::/32"
            case .prefix(let text, let most): "the prefix length after the slash of \"\(text)\" must be a number from 0 to \(most)"
            case .bitsBehindPrefix(let text, let meant): "\"\(text)\" has non-zero bits after its prefix: use \(meant), or no prefix"
            }
        }
    }

    /// Parses `ADDRESS`, a network of one address, or `ADDRESS/BITS`.
    public init(_ text: String) throws(Problem) {
        let parts = text.utf8.split(separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = IPAddress(parts[0]) else { throw .address(text) }
        self.address = address
        guard parts.count == 2 else {
            prefixBits = address.bitCount
            return
        }
        // The prefix of an IPv4-mapped IPv6 address is counted in bits of IPv4.
        guard let digits = String(parts[1]), !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let bits = Int(digits),
            bits <= address.bitCount
        else { throw .prefix(text, atMost: address.bitCount) }
        prefixBits = bits
        let rest = UInt128(address.bitCount - bits)
        let first = bits == 0 ? 0 : (address.number >> rest) << rest
        if first != address.number {
            let network = address.isIPv6 ? IPAddress(ipv6: first) : IPAddress(ipv4: UInt32(first))
            throw .bitsBehindPrefix(text, meant: "\(network)/\(bits)")
        }
    }

    public var description: String { prefixBits == address.bitCount ? "\(address)" : "\(address)/\(prefixBits)" }
}

/// Values by network; a lookup returns the value of the longest matching prefix. It costs one step for each distinct prefix length,
/// independent of the number of networks.
public struct NetworkTable<Value: Sendable>: Sendable {
    private struct Prefix: Hashable {
        let isIPv6: Bool
        let bits: UInt128
    }

    /// Sorted by prefix length, longest first.
    private var lengths: [(bits: Int, isIPv6: Bool, values: [Prefix: Value])] = []

    public init() {}

    public var isEmpty: Bool { lengths.isEmpty }

    public subscript(network: IPNetwork) -> Value? {
        get { lengths.first { $0.bits == network.prefixBits && $0.isIPv6 == network.address.isIPv6 }?.values[Self.prefix(network)] }
        set {
            let (bits, isIPv6) = (network.prefixBits, network.address.isIPv6)
            if !lengths.contains(where: { $0.bits == bits && $0.isIPv6 == isIPv6 }) {
                lengths.append((bits, isIPv6, [:]))
                lengths.sort { $0.bits > $1.bits }
            }
            guard let index = lengths.firstIndex(where: { $0.bits == bits && $0.isIPv6 == isIPv6 }) else { return }
            lengths[index].values[Self.prefix(network)] = newValue
        }
    }

    private static func prefix(_ network: IPNetwork) -> Prefix {
        Prefix(isIPv6: network.address.isIPv6, bits: network.address.prefix(network.prefixBits))
    }

    /// Returns the value for an address; nil if no network contains it.
    public func value(of address: IPAddress) -> Value? {
        for length in lengths where length.isIPv6 == address.isIPv6 {
            if let value = length.values[Prefix(isIPv6: address.isIPv6, bits: address.prefix(length.bits))] { return value }
        }
        return nil
    }
}

extension NetworkTable: Equatable where Value: Equatable {
    public static func == (one: NetworkTable, other: NetworkTable) -> Bool {
        one.lengths.elementsEqual(other.lengths) { $0.bits == $1.bits && $0.isIPv6 == $1.isIPv6 && $0.values == $1.values }
    }
}

/// A set of networks.
public struct NetworkList: Sendable, Equatable {
    private var table = NetworkTable<Bool>()
    /// Whether clients of Unix sockets are included.
    private let hasLocal: Bool

    public init(_ networks: [IPNetwork] = [], hasLocal: Bool = false) {
        self.hasLocal = hasLocal
        for network in networks { table[network] = true }
    }

    /// The operator's notation for clients of Unix sockets.
    public static let local = "unix:"

    public var isEmpty: Bool { table.isEmpty && !hasLocal }

    public func contains(_ client: ClientAddress) -> Bool {
        switch client {
        case .known(let address): contains(address)
        case .local: hasLocal
        case .unknown: false
        }
    }

    public func contains(_ address: IPAddress) -> Bool { table.value(of: address) != nil }
}
