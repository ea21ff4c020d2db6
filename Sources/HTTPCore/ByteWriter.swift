// Writes heads, which consist of many short pieces, into memory reserved in advance. Checking the capacity and growing for each piece would
// cost more than the piece. Writing beyond the reserved memory is a programming error and stops the program.

public struct ByteWriter {
    @usableFromInline var cursor: UnsafeMutablePointer<UInt8>
    @usableFromInline let end: UnsafeMutablePointer<UInt8>

    @inlinable @inline(__always)
    public init(_ cursor: UnsafeMutablePointer<UInt8>, before end: UnsafeMutablePointer<UInt8>) { (self.cursor, self.end) = (cursor, end) }

    @inlinable @inline(__always)
    public mutating func put(_ source: UnsafePointer<UInt8>?, count: Int) {
        precondition(count <= end - cursor)
        guard let source else { return }
        cursor.update(from: source, count: count)
        cursor += count
    }

    @inlinable @inline(__always)
    public mutating func put(_ text: StaticString) { put(text.utf8Start, count: text.utf8CodeUnitCount) }

    @inlinable @inline(__always)
    public mutating func put(_ bytes: Span<UInt8>) { bytes.withUnsafeBufferPointer { put($0.baseAddress, count: $0.count) } }

    @inlinable @inline(__always)
    public mutating func put(_ bytes: UnsafeRawBufferPointer) {
        bytes.withMemoryRebound(to: UInt8.self) { put($0.baseAddress, count: $0.count) }
    }

    @inlinable @inline(__always)
    public mutating func put(_ bytes: [UInt8]) { bytes.withUnsafeBufferPointer { put($0.baseAddress, count: $0.count) } }

    @inlinable @inline(__always)
    public mutating func put(_ byte: UInt8) {
        precondition(cursor < end)
        cursor.pointee = byte
        cursor += 1
    }

    public mutating func put(decimal value: Int) {
        precondition(DecimalDigits.longest <= end - cursor)
        cursor += DecimalDigits.write(value, to: cursor)
    }

    /// Writes the last two decimal digits.
    public mutating func put(two value: Int) {
        put(0x30 + UInt8(truncatingIfNeeded: value / 10 % 10))
        put(0x30 + UInt8(truncatingIfNeeded: value % 10))
    }

    /// Writes Content-Length (RFC 9110 §8.6).
    public mutating func put(contentLength count: Int) {
        put("Content-Length: ")
        put(decimal: count)
        put("\r\n")
    }

    /// Maximum length of a Content-Length line.
    public static let contentLengthBytes = 18 + DecimalDigits.longest
}

extension [UInt8] {
    /// - Parameter capacity: maximum number of bytes to write.
    @inlinable @inline(__always)
    public mutating func append(atMost capacity: Int, _ write: (inout ByteWriter) -> Void) {
        append(addingCapacity: capacity) { output in
            output.withUnsafeMutableBufferPointer { space, written in
                guard let base = space.baseAddress else { return }
                var writer = ByteWriter(base + written, before: base + space.count)
                write(&writer)
                written = writer.cursor - base
            }
        }
    }

    /// - Parameter capacity: maximum number of bytes to write.
    @inlinable @inline(__always)
    public init(atMost capacity: Int, _ write: (inout ByteWriter) -> Void) {
        // `init(unsafeUninitializedCapacity:)` looks up the type of its storage each time, which costs more than writing the bytes.
        self.init()
        append(atMost: capacity, write)
    }
}
