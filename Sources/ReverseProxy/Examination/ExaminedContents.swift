// Remembers received content that had no fault and whose data equals a stored response, so that equal bytes are not examined again. Most
// upstreams repeat their responses, and the examination takes longer than all other work on such a response.

import HTTPCore

/// One instance for each API and shard, and so for one set of rules. Used on its shard's loop only.
final class ExaminedContents {
    private struct Entry {
        /// Number of the stored content; 0 for an unused entry.
        var number: UInt64 = 0
        var hash: (UInt64, UInt64) = (0, 0)
    }

    /// Number of entries, 24 bytes each. An entry is overwritten by another one with an equal remainder.
    private static let count: UInt64 = 1 << 14
    private var entries: [Entry] = []
    /// Random and secret, so that an upstream cannot construct two contents with equal hashes.
    private let seed = UInt64.random(in: .min ... .max)

    /// Whether content is remembered whose data equals this stored content.
    func contains(_ number: UInt64) -> Bool { !entries.isEmpty && entries[Self.index(number)].number == number }

    func contains(_ number: UInt64, _ content: [UInt8]) -> Bool {
        contains(number) && entries[Self.index(number)].hash == ContentHash.numbers(of: content, seed: seed)
    }

    /// - Parameters:
    ///   - number: `FoundResponse.contentNumber` of the stored content.
    ///   - content: received content without a fault that has equal data.
    func note(_ number: UInt64, _ content: [UInt8]) {
        if entries.isEmpty { entries = Array(repeating: Entry(), count: Int(Self.count)) }
        entries[Self.index(number)] = Entry(number: number, hash: ContentHash.numbers(of: content, seed: seed))
    }

    private static func index(_ number: UInt64) -> Int { Int(number % count) }
}
