// Targets with responses that were not stored recently. Normally the first request for a target is forwarded without the client's
// preconditions. For these targets that would cost a complete response each time.

import CachePolicy
import HTTPCore

/// Used on its loop only. The number of slots is fixed: a newer target overwrites an older one in its slot.
final class UnstorableTargets {
    private var slots = [UInt64](repeating: 0, count: UnstorableTargets.limit)

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

    private static func number(_ keys: TargetKeys) -> UInt64 { ContentHash.number(of: keys.own.span) }
    private static func slot(_ number: UInt64) -> Int { Int(number % UInt64(limit)) }
}
