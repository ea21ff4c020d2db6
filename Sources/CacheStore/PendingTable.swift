// What waits to be written, by key: in the same parts as the index, so that going through a part holds nobody up, however much waits.

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

    /// Those of one part of the index.
    func items(ofPart part: Int) -> [PendingItem] { Array(parts[part].values) }

    /// All of them.
    var items: [PendingItem] { parts.flatMap(\.values) }
}

extension [KeyHash: PendingItem] {
    /// Returns what was there.
    fileprivate mutating func updateOrRemove(_ item: PendingItem?, _ hash: KeyHash) -> PendingItem? {
        guard let item else { return removeValue(forKey: hash) }
        return updateValue(item, forKey: hash)
    }
}
