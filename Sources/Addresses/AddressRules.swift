// Which addresses may come in.

/// The longest prefix that has an address decides. Where no list has it, everybody may come in, unless an `allow` list says who may.
package struct AddressRules: Sendable, Equatable {
    private var table = NetworkTable<Bool>()
    private var rest = true

    package init() {}

    /// - Throws: a network that both lists have.
    package init(allow: [IPNetwork], deny: [IPNetwork]) throws(Ambiguity) {
        for network in allow { table[network] = true }
        for network in deny {
            if table[network] == true { throw Ambiguity(network: network) }
            table[network] = false
        }
        rest = allow.isEmpty
    }

    package struct Ambiguity: Error, Sendable, Equatable {
        package let network: IPNetwork
    }

    package var isEmpty: Bool { table.isEmpty }

    /// Of whom nothing is known, nobody says that he may.
    package func allow(_ client: ClientAddress) -> Bool {
        switch client {
        case .known(let address): table.value(of: address) ?? rest
        case .local: true
        case .unknown: isEmpty
        }
    }
}
