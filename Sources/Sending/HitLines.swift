// The lines of a plain hit. Every hit needs them, so they are written into memory that was made once: putting them together piece by piece
// took a tenth of what we spend on a hit.

import Explanation
import HTTPCore

/// Age (RFC 9111 §5.1) and Cache-Status (RFC 9211 §2) of a fresh response from the store. On its shard's loop only.
public final class HitLines {
    private let memory: UnsafeMutablePointer<UInt8>
    /// Where the age goes, and what stands between it and the freshness that is left.
    private let start: Int
    private let middle: [UInt8]

    public init(_ status: CacheStatus) {
        let first: StaticString = "Age: "
        var line = Array("\r\n".utf8)
        status.hit(ttl: 0, to: &line)
        middle = line.dropLast(3)
        start = first.utf8CodeUnitCount
        memory = .allocate(capacity: start + middle.count + 2 * DecimalDigits.longest + 2)
        memory.initialize(from: first.utf8Start, count: start)
    }

    deinit { memory.deallocate() }

    /// Both lines, good until the next call.
    public func make(age: Int64, ttl: Int64) -> UnsafeRawBufferPointer {
        var end = start + DecimalDigits.write(Int(age), to: memory + start)
        middle.withUnsafeBufferPointer { (memory + end).update(from: $0.baseAddress!, count: $0.count) }
        end += middle.count
        end += DecimalDigits.write(Int(ttl), to: memory + end)
        memory[end] = UInt8(ascii: "\r")
        memory[end + 1] = UInt8(ascii: "\n")
        return UnsafeRawBufferPointer(start: memory, count: end + 2)
    }
}
