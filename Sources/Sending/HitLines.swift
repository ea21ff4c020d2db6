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

    /// Calls `body` with both lines.
    @inline(__always)
    public func with<Result>(age: Int64, ttl: Int64, _ body: (Span<UInt8>) -> Result) -> Result { body(make(age: age, ttl: ttl).span) }

    private func make(age: Int64, ttl: Int64) -> UnsafeBufferPointer<UInt8> {
        var end = start + DecimalDigits.write(Int(age), to: memory + start)
        middle.withUnsafeBufferPointer { (memory + end).update(from: $0.baseAddress!, count: $0.count) }
        end += middle.count
        end += DecimalDigits.write(Int(ttl), to: memory + end)
        memory[end] = UInt8(ascii: "\r")
        memory[end + 1] = UInt8(ascii: "\n")
        return UnsafeBufferPointer(start: memory, count: end + 2)
    }
}
