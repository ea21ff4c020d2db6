// A table of bounded size that drops entries that were not used recently. It has two halves. Used entries move to the young half; when
// that is full, the old half is dropped. Each operation needs one lookup, and no order by age is kept.

import HTTPCore

/// Keys are hashes with a secret seed (`RequestScopes`).
struct RecentTable<Value: Sendable>: Sendable {
    private var young: [SeededHash: Value] = [:]
    private var old: [SeededHash: Value] = [:]
    private let limit: Int
    /// Selects values that survive the drop of the old half, up to a quarter of the limit.
    private let isKept: @Sendable (Value) -> Bool

    init(limit: Int, keeping isKept: @escaping @Sendable (Value) -> Bool) {
        self.limit = limit
        self.isKept = isKept
    }

    var count: Int { young.count + old.count }

    func contains(_ number: UInt64) -> Bool {
        let key = SeededHash(number)
        return young.index(forKey: key) != nil || old.index(forKey: key) != nil
    }

    func contains(where fits: (Value) -> Bool) -> Bool { young.values.contains(where: fits) || old.values.contains(where: fits) }

    subscript(_ number: UInt64) -> Value? {
        let key = SeededHash(number)
        return young[key] ?? old[key]
    }

    /// - Parameter change: changes the value; setting it to nil removes it.
    @discardableResult
    mutating func change<Result>(_ number: UInt64, _ change: (inout Value?) -> Result) -> Result {
        let key = SeededHash(number)
        if !old.isEmpty, young.index(forKey: key) == nil, let value = old.removeValue(forKey: key) { young[key] = value }
        let result = change(&young[key])
        if young.count > limit / 2 { turn() }
        return result
    }

    private mutating func turn() {
        var kept: [SeededHash: Value] = [:]
        for (key, value) in old where kept.count < limit / 4 && isKept(value) { kept[key] = value }
        old = young
        young = kept
    }

    var entries: [(key: UInt64, value: Value)] { (Array(young) + Array(old)).map { ($0.key.value, $0.value) } }
}
