// Caches the kinds of recently used field names. Most requests contain a few common names, and computing a kind checks all credential
// patterns.

import CachePolicy
import Glibc
import HTTPCore

/// Used on its cache's thread only.
final class FieldKindMemo {
    private let kinds: RequestFieldKinds
    /// One slot per hash of a name: length, kind, and bytes as sent.
    private let slots: UnsafeMutablePointer<UInt8>

    private static let slotCount = 256
    private static let slotBytes = 48
    private static let nameOffset = 2
    /// Maximum length of cached names in bytes; the kinds of longer names are computed each time.
    private static let nameLimit = slotBytes - nameOffset

    init(_ kinds: RequestFieldKinds) {
        self.kinds = kinds
        slots = .allocate(capacity: Self.slotCount * Self.slotBytes)
        slots.initialize(repeating: 0, count: Self.slotCount * Self.slotBytes)
    }

    deinit { slots.deallocate() }

    func kind(of name: Span<UInt8>) -> RequestFieldKind {
        guard !name.isEmpty, name.count <= Self.nameLimit else { return kinds.kind(of: name) }
        let slot = slots + Self.slot(of: name) * Self.slotBytes
        if Int(slot[0]) == name.count, Self.isSame(name, slot + Self.nameOffset), let kind = RequestFieldKind(rawValue: slot[1]) {
            return kind
        }
        let kind = kinds.kind(of: name)
        (slot[0], slot[1]) = (UInt8(name.count), kind.rawValue)
        for index in name.indices { slot[Self.nameOffset + index] = name[index] }
        return kind
    }

    private static func isSame(_ name: Span<UInt8>, _ other: UnsafePointer<UInt8>) -> Bool {
        name.withUnsafeBytes { memcmp($0.baseAddress!, other, $0.count) == 0 }
    }

    private static func slot(of name: Span<UInt8>) -> Int {
        let (first, middle, last) = (Int(name[0]), Int(name[name.count / 2]), Int(name[name.count - 1]))
        return (name.count &* 131 &+ first &* 31 &+ middle &* 7 &+ last &* 17) & (slotCount - 1)
    }
}
