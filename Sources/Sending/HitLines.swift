// The field lines of a plain hit. Every hit needs them, so they are written into preallocated memory: assembling them took a tenth of the
// time of a hit.

import Explanation
import HTTPCore

/// Age (RFC 9111 §5.1) and Cache-Status (RFC 9211 §2) of a fresh stored response. Used on its shard's loop only.
public final class HitLines {
    private let memory: UnsafeMutablePointer<UInt8>
    /// Offset of the age, and the text between the age and the remaining freshness lifetime.
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

    /// Returns both lines. They are valid until the next call.
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
