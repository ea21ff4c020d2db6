// Reads and writes numbers in little-endian byte order, as the store and cache keys contain them.

extension Span<UInt8> {
    /// Returns the number at an offset, which need not be aligned.
    @inlinable @inline(__always)
    public func littleEndian<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Number.Type = Number.self) -> Number {
        Number(littleEndian: bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: type))
    }
}

extension OutputSpan<UInt8> {
    /// Overwrites the bytes at an offset, which have been written before.
    @inlinable @inline(__always)
    public mutating func set(littleEndian number: UInt32, at offset: Int) {
        precondition(offset >= 0 && offset + 4 <= count)
        withUnsafeMutableBufferPointer { buffer, _ in
            UnsafeMutableRawBufferPointer(buffer).storeBytes(of: number.littleEndian, toByteOffset: offset, as: UInt32.self)
        }
    }

    @inlinable @inline(__always)
    public mutating func append(copying span: Span<UInt8>) {
        precondition(span.count <= freeCapacity)
        withUnsafeMutableBufferPointer { buffer, written in
            written += span.withUnsafeBufferPointer {
                UnsafeMutableBufferPointer(rebasing: buffer[written...]).initialize(fromContentsOf: $0)
            }
        }
    }
}

/// Calls `body` with memory for at most `capacity` elements, on the stack if it is short.
@inlinable @inline(__always)
public func withTemporaryMemory<Element: BitwiseCopyable>(
    of type: Element.Type = Element.self, capacity: Int, _ body: (inout OutputSpan<Element>) -> Void
) {
    withUnsafeTemporaryAllocation(of: type, capacity: capacity) { buffer in
        var memory = OutputSpan(buffer: buffer, initializedCount: 0)
        body(&memory)
    }
}

extension ByteWriter {
    @inlinable @inline(__always)
    public mutating func put(littleEndian number: some FixedWidthInteger & BitwiseCopyable) {
        withUnsafeBytes(of: number.littleEndian) { put($0) }
    }
}

extension [UInt8] {
    @inlinable @inline(__always)
    public mutating func append(littleEndian number: some FixedWidthInteger & BitwiseCopyable) {
        Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
    }
}
