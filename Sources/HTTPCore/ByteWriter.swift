// Heads are written of many short pieces. A check for room at each, and perhaps a move of all that is there, costs more than the piece; so there
// is room for all of them first. What would go beyond it stops the program: it would be a mistake of ours.

public struct ByteWriter {
    @usableFromInline var place: UnsafeMutablePointer<UInt8>
    @usableFromInline let end: UnsafeMutablePointer<UInt8>

    @inlinable @inline(__always)
    public init(_ place: UnsafeMutablePointer<UInt8>, before end: UnsafeMutablePointer<UInt8>) { (self.place, self.end) = (place, end) }

    @inlinable @inline(__always)
    public mutating func put(_ source: UnsafePointer<UInt8>?, count: Int) {
        precondition(count <= end - place)
        guard let source else { return }
        place.update(from: source, count: count)
        place += count
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
        precondition(place < end)
        place.pointee = byte
        place += 1
    }

    public mutating func put(decimal value: Int) {
        precondition(DecimalDigits.longest <= end - place)
        place += DecimalDigits.write(value, to: place)
    }

    /// The line that tells how long a message's content is (RFC 9110 §8.6).
    public mutating func put(contentLength count: Int) {
        put("Content-Length: ")
        put(decimal: count)
        put("\r\n")
    }

    /// What the longest of these lines takes.
    public static let contentLengthBytes = 18 + DecimalDigits.longest
}

extension [UInt8] {
    /// - Parameter room: more is not written.
    @inlinable @inline(__always)
    public mutating func append(atMost room: Int, _ write: (inout ByteWriter) -> Void) {
        append(addingCapacity: room) { output in
            output.withUnsafeMutableBufferPointer { space, written in
                guard let base = space.baseAddress else { return }
                var writer = ByteWriter(base + written, before: base + space.count)
                write(&writer)
                written = writer.place - base
            }
        }
    }

    /// - Parameter room: more is not written.
    @inlinable @inline(__always)
    public init(atMost room: Int, _ write: (inout ByteWriter) -> Void) {
        // `init(unsafeUninitializedCapacity:)` looks for the type of its storage each time, which costs more than the bytes do.
        self.init()
        append(atMost: room, write)
    }
}
