// Serializes field lines (RFC 9112 §5). Adjacent lines that are already in wire format, such as received or appended ones, are copied
// together.

public enum FieldSerializer {
    /// Lengths of `: ` and of the line end.
    static let separatorBytes = 2
    static let endBytes = 2

    /// Maximum length of the serialized fields in bytes.
    public static func capacity(for fields: Fields) -> Int { fields.bytes.count + (separatorBytes + endBytes) * fields.count }

    /// - Parameter omitted: fields to leave out.
    public static func append(_ fields: Fields, without omitted: KnownFieldSet = [], to out: inout [UInt8]) {
        out.append(atMost: capacity(for: fields)) { write(fields, without: omitted, to: &$0) }
    }

    public static func write(_ fields: Fields, without omitted: KnownFieldSet, to writer: inout ByteWriter) {
        fields.bytes.withUnsafeBufferPointer { bytes in
            // Range of adjacent lines to copy together.
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

    /// Returns whether the line is already in wire format.
    /// - Parameter range: range of the line in wire format.
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

    /// Appends one line.
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
