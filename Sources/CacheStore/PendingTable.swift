// Items that wait to be written, by key. The table has as many parts as the index, so that iterating over one part blocks other threads
// only briefly.

struct PendingTable {
    private var parts = [[KeyHash: PendingItem]](repeating: [:], count: IndexTable.partCount)
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    subscript(hash: KeyHash) -> PendingItem? {
        get { parts[IndexTable.part(hash)][hash] }
        set {
            let part = IndexTable.part(hash)
            let old = parts[part].updateOrRemove(newValue, hash)
            count += (newValue == nil ? 0 : 1) - (old == nil ? 0 : 1)
        }
    }

    /// Items in one part of the index.
    func items(ofPart part: Int) -> [PendingItem] { Array(parts[part].values) }

    /// All items.
    var items: [PendingItem] { parts.flatMap(\.values) }
}

extension [KeyHash: PendingItem] {
    /// Sets or removes the item and returns the former one; nil if there was none.
    fileprivate mutating func updateOrRemove(_ item: PendingItem?, _ hash: KeyHash) -> PendingItem? {
        guard let item else { return removeValue(forKey: hash) }
        return updateValue(item, forKey: hash)
    }
}
