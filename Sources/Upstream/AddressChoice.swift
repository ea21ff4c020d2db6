// The addresses of one upstream, in the operator's order, and which of them is asked: the first that can be reached as far as is known. Pure.

struct AddressChoice: Equatable {
    /// At each place, whether the address is known to be out of reach.
    private(set) var isDown: [Bool]

    /// - Parameter count: one at least.
    init(count: Int) { isDown = Array(repeating: false, count: count) }

    /// The place of the one that is asked: the first one where none can be reached.
    var current: Int { isDown.firstIndex(of: false) ?? 0 }

    var areAllDown: Bool { isDown.allSatisfy { $0 } }

    /// For a request that could not reach one of them, which is known by now: the place of the next to ask.
    /// - Parameter moves: how often it has gone on to another already.
    func next(moves: Int) -> Int? { moves + 1 < isDown.count ? isDown.firstIndex(of: false) : nil }

    /// - Returns: whether that is news.
    mutating func note(_ place: Int, isDown: Bool) -> Bool {
        guard self.isDown[place] != isDown else { return false }
        self.isDown[place] = isDown
        return true
    }
}
