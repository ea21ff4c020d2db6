// Which addresses may come in.

/// The longest prefix that has an address decides. Where no list has it, everybody may come in, unless an `allow` list says who may.
public struct AddressRules: Sendable, Equatable {
    private var table = NetworkTable<Bool>()
    private var rest = true

    public init() {}

    /// - Throws: a network that both lists have.
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

    /// Of whom nothing is known, nobody says that he may.
    public func allow(_ client: ClientAddress) -> Bool {
        switch client {
        case .known(let address): table.value(of: address) ?? rest
        case .local: true
        case .unknown: isEmpty
        }
    }
}
