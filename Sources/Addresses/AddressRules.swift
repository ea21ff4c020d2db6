// Rules by client address: `allow` and `deny` lists.

/// Rules for client addresses. The longest matching prefix decides. An address in no list is allowed, unless there is an `allow` list.
public struct AddressRules: Sendable, Equatable {
    private var table = NetworkTable<Bool>()
    private var rest = true

    public init() {}

    /// - Throws: `Ambiguity`, with a network that is in both lists.
    public init(allow: [IPNetwork], deny: [IPNetwork]) throws(Ambiguity) {
        for network in allow { table[network] = true }
        for network in deny {
            if table[network] == true { throw Ambiguity(network: network) }
            table[network] = false
        }
        rest = allow.isEmpty
    }

    public struct Ambiguity: Error, Sendable, Equatable {
        public let network: IPNetwork
    }

    public var isEmpty: Bool { table.isEmpty }

    /// Returns whether a client is allowed. An unknown client is denied if there are any rules.
    public func allow(_ client: ClientAddress) -> Bool {
        switch client {
        case .known(let address): table.value(of: address) ?? rest
        case .local: true
        case .unknown: isEmpty
        }
    }
}
