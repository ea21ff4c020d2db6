// Failover between the addresses of one upstream, in the configured order. Requests use the first address that is not known to be
// unreachable. Pure.

struct AddressChoice: Equatable {
    /// For each address, whether it is known to be unreachable.
    private(set) var isDown: [Bool]

    /// - Parameter count: number of addresses, at least one.
    init(count: Int) { isDown = Array(repeating: false, count: count) }

    /// Index of the address for new requests: the first reachable one, or the first one if none is reachable.
    var current: Int { isDown.firstIndex(of: false) ?? 0 }

    var areAllDown: Bool { isDown.allSatisfy { $0 } }

    /// Returns the index of the next address for a request that could not reach one; nil if none is left. The failure must have been noted
    /// before.
    /// - Parameter moves: number of addresses that the request has already moved from.
    func next(moves: Int) -> Int? { moves + 1 < isDown.count ? isDown.firstIndex(of: false) : nil }

    /// Records whether an address is unreachable.
    /// - Returns: whether the state has changed.
    mutating func note(_ index: Int, isDown: Bool) -> Bool {
        guard self.isDown[index] != isDown else { return false }
        self.isDown[index] = isDown
        return true
    }
}
