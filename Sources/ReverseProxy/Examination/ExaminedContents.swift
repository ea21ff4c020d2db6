// Remembers received content without a fault and with the data of a stored response. Equal bytes are not examined again: most upstreams
// repeat their responses, and the examination takes longer than all other work on such a response.

import CachePolicy
import HTTPCore
import Reactor

/// One instance for each shard, so that its size does not depend on the number of APIs. Used on its shard's loop only.
final class ExaminedContents {
    struct Entry {
        /// Number of the stored content; 0 for an unused entry.
        var number: UInt64 = 0
        /// Hash of the last examined content with its data; 0 if there was none.
        var hash: (UInt64, UInt64) = (0, 0)
        /// Number of the last head that confirmed the response and changed nothing (`RepeatedHead`); 0 if there was none.
        var head: UInt64 = 0
    }

    /// Least and greatest number of entries, 32 bytes each: powers of two. An entry is overwritten by another one with an equal index.
    private static let (leastCount, greatestCount) = (1 << 10, 1 << 16)
    private var entries = [Entry](repeating: Entry(), count: leastCount)
    private var used = 0

    /// The entry at which content with this number is remembered.
    subscript(number: UInt64) -> Entry {
        get { entries[index(number)] }
        set {
            if entries[index(number)].number == 0 {
                used += 1
                if used * 4 > entries.count, entries.count < Self.greatestCount { grow() }
            }
            entries[index(number)] = newValue
        }
    }

    /// The numbers are offsets in files, so their bits are mixed (MurmurHash3).
    private func index(_ number: UInt64) -> Int {
        var mixed = (number ^ number >> 33) &* 0xff51_afd7_ed55_8ccd
        mixed = (mixed ^ mixed >> 33) &* 0xc4ce_b9fe_1a85_ec53
        return Int(truncatingIfNeeded: (mixed ^ mixed >> 33) & UInt64(entries.count - 1))
    }

    private func grow() {
        let former = entries
        entries = [Entry](repeating: Entry(), count: 2 * former.count)
        for entry in former where entry.number != 0 { entries[index(entry.number)] = entry }
    }
}

/// Examines received content by the rules of one API.
struct Examiner {
    /// Examines long content.
    let worker: LoopWorker
    private let examined: ExaminedContents
    /// Random and secret, so that an upstream cannot construct two contents with equal hashes. Another API, and this one with other rules
    /// after a reload, have other seeds, so their entries do not match.
    private let seed = UInt64.random(in: .min ... .max)

    init(_ workers: ShardWorkers) { (worker, examined) = (workers.content, workers.examined) }

    /// Whether content with the data of the stored content `number` (`FoundResponse.contentNumber`) is remembered.
    func hasExamined(_ number: UInt64) -> Bool { examined[number].number == number }

    /// - Parameter tag: entity tag of the stored content `number`; evaluated only if content with its data is remembered.
    func comparison(with number: UInt64, tag: @autoclosure () -> [UInt8]?) -> ContentComparison {
        let hash = hasExamined(number) ? examined[number].hash : (0, 0)
        return ContentComparison(seed: seed, hash: hash, tag: hash == (0, 0) ? nil : tag())
    }

    /// - Parameter hash: hash of received content without a fault and with the data of the stored content `number`.
    func note(_ hash: (UInt64, UInt64), as number: UInt64) {
        examined[number] = ExaminedContents.Entry(number: number, hash: hash)
    }

    // MARK: Heads

    /// Number of the head for comparison; nil if such a head must be processed each time.
    func number(of head: ResponseHead) -> UInt64? { RepeatedHead.number(of: head, seed: seed) }

    /// Whether this was the last head that confirmed the response with the stored content `number`.
    func hasConfirmed(_ head: UInt64, _ number: UInt64) -> Bool { hasExamined(number) && examined[number].head == head }

    func rememberHead(_ head: UInt64, of number: UInt64) {
        if !hasExamined(number) { examined[number] = ExaminedContents.Entry(number: number) }
        examined[number].head = head
    }
}

/// Compares received content with content that was examined before, on any thread.
struct ContentComparison: Sendable {
    fileprivate let seed: UInt64
    fileprivate let hash: (UInt64, UInt64)
    /// Entity tag of the examined content; nil if there is none.
    fileprivate let tag: [UInt8]?

    func hash(of content: [UInt8]) -> (UInt64, UInt64) { ContentHash.numbers(of: content, seed: seed) }

    /// Whether content may be equal.
    var isExpected: Bool { tag != nil }

    /// The entity tag if content with this hash is equal; nil otherwise.
    func tag(for hash: (UInt64, UInt64)) -> [UInt8]? { hash == self.hash ? tag : nil }
}
