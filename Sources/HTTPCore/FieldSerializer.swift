// Writes field lines (RFC 9112 §5). Those that lie one behind the other as they are to be written, as lines that were received or appended do,
// are copied together.

public enum FieldSerializer {
    /// `: ` and the end of the line.
    static let separatorBytes = 2
    static let endBytes = 2

    /// What writing these takes at most.
    public static func room(for fields: Fields) -> Int { fields.bytes.count + (separatorBytes + endBytes) * fields.count }

    public static func room(for field: KnownField, _ value: [UInt8]) -> Int {
        field.name.utf8CodeUnitCount + value.count + separatorBytes + endBytes
    }

    /// - Parameter omitted: fields that are left out.
    public static func append(_ fields: Fields, without omitted: KnownFieldSet = [], to out: inout [UInt8]) {
        out.append(atMost: room(for: fields)) { write(fields, without: omitted, to: &$0) }
    }

    public static func write(_ fields: Fields, without omitted: KnownFieldSet, to writer: inout ByteWriter) {
        fields.bytes.withUnsafeBufferPointer { bytes in
            // Lines that can be copied together.
            var run = 0..<0
            fields.entries.withUnsafeBufferPointer { entries in
                for entry in entries where !omitted.holds(entry) {
                    let range = Int(entry.nameStart)..<Int(entry.valueStart) + Int(entry.valueLength) + endBytes
                    if isWritten(entry, range, in: bytes) {
                        if range.lowerBound == run.upperBound {
                            run = run.lowerBound..<range.upperBound
                            continue
                        }
                        copy(run, of: bytes, to: &writer)
                        run = range
                    } else {
                        copy(run, of: bytes, to: &writer)
                        run = 0..<0
                        writeLine(
                            UnsafeBufferPointer(rebasing: bytes[entry.nameRange]), UnsafeBufferPointer(rebasing: bytes[entry.valueRange]),
                            to: &writer)
                    }
                }
            }
            copy(run, of: bytes, to: &writer)
        }
    }

    /// Whether the line lies there just as it is written.
    /// - Parameter range: where it would lie.
    @inline(__always)
    private static func isWritten(_ entry: Fields.Entry, _ range: Range<Int>, in bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        let nameEnd = range.lowerBound + Int(entry.nameLength)
        let end = range.upperBound - endBytes
        return Int(entry.valueStart) == nameEnd + separatorBytes && range.upperBound <= bytes.count
            && bytes[nameEnd] == 0x3a && bytes[nameEnd + 1] == 0x20 && bytes[end] == 0x0d && bytes[end + 1] == 0x0a
    }

    @inline(__always)
    private static func copy(_ range: Range<Int>, of bytes: UnsafeBufferPointer<UInt8>, to writer: inout ByteWriter) {
        if !range.isEmpty { writer.put(bytes.baseAddress.map { $0 + range.lowerBound }, count: range.count) }
    }

    /// One line.
    public static func append(_ field: KnownField, _ value: [UInt8], to out: inout [UInt8]) { append(field, value.span, to: &out) }

    static func append(_ field: KnownField, _ value: Span<UInt8>, to out: inout [UInt8]) {
        let name = field.name
        append(UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), value, to: &out)
    }

    static func append(_ name: Span<UInt8>, _ value: Span<UInt8>, to out: inout [UInt8]) {
        name.withUnsafeBufferPointer { append($0, value, to: &out) }
    }

    private static func append(_ name: UnsafeBufferPointer<UInt8>, _ value: Span<UInt8>, to out: inout [UInt8]) {
        out.append(atMost: name.count + value.count + separatorBytes + endBytes) { writer in
            value.withUnsafeBufferPointer { writeLine(name, $0, to: &writer) }
        }
    }

    public static func write(_ field: KnownField, _ value: [UInt8], to writer: inout ByteWriter) {
        let name = field.name
        value.withUnsafeBufferPointer {
            writeLine(UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), $0, to: &writer)
        }
    }

    @inline(__always)
    private static func writeLine(
        _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, to writer: inout ByteWriter
    ) {
        writer.put(name.baseAddress, count: name.count)
        writer.put(": ")
        writer.put(value.baseAddress, count: value.count)
        writer.put("\r\n")
    }
}
