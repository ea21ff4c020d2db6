// Targets whose responses were not stored lately. A client's conditions are answered from the store, so the first request for a target goes without them;
// where its response is not stored, that would cost a whole response each time.

import CachePolicy
import HTTPCore
import Hashing

/// Touched on its loop only. A fixed number of slots: a newer target takes an older one's place.
final class UnkeptTargets {
    private var slots = [UInt64](repeating: 0, count: UnkeptTargets.limit)

    static let limit = 4_096

    func contains(_ keys: TargetKeys) -> Bool {
        let number = Self.number(keys)
        return slots[Self.slot(number)] == number
    }

    /// - Parameter isKept: whether the response was stored.
    func note(_ keys: TargetKeys, isKept: Bool) {
        let number = Self.number(keys)
        let slot = Self.slot(number)
        if !isKept { slots[slot] = number } else if slots[slot] == number { slots[slot] = 0 }
    }

    private static func number(_ keys: TargetKeys) -> UInt64 { keys.own.withUnsafeBytes(ContentHash.number) }
    private static func slot(_ number: UInt64) -> Int { Int(number % UInt64(limit)) }
}
