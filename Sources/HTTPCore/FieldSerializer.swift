// Writes field lines (RFC 9112 §5), with one check for room for all of them. Those that lie one behind the other as they are to be written, as
// lines that were received or appended do, are copied together.

package enum FieldSerializer {
    /// `: ` and the end of the line.
    static let separatorBytes = 2
    static let endBytes = 2

    /// - Parameter omitted: fields that are left out.
    package static func append(_ fields: Fields, without omitted: KnownFieldSet = [], to out: inout [UInt8]) {
        var count = 0
        for entry in fields.entries where !omitted.holds(entry) { count += lineBytes(entry) }
        out.append(addingCapacity: count) { output in
            output.withUnsafeMutableBufferPointer { space, written in
                guard let start = space.baseAddress else { return }
                fields.bytes.withUnsafeBufferPointer { write(fields.entries, without: omitted, of: $0, to: start + written) }
                written += count
            }
        }
    }

    private static func lineBytes(_ entry: Fields.Entry) -> Int {
        Int(entry.nameLength) + Int(entry.valueLength) + separatorBytes + endBytes
    }

    private static func write(
        _ entries: [Fields.Entry], without omitted: KnownFieldSet, of bytes: UnsafeBufferPointer<UInt8>,
        to start: UnsafeMutablePointer<UInt8>
    ) {
        var place = start
        // Lines that can be copied together, in `bytes`.
        var run = 0..<0
        for entry in entries where !omitted.holds(entry) {
            if isWritten(entry, in: bytes) {
                let first = Int(entry.nameStart)
                let end = first + lineBytes(entry)
                if first == run.upperBound {
                    run = run.lowerBound..<end
                    continue
                }
                place = copy(run, of: bytes, to: place)
                run = first..<end
            } else {
                place = copy(run, of: bytes, to: place)
                run = 0..<0
                let name = UnsafeBufferPointer(rebasing: bytes[entry.nameRange])
                place = write(name, UnsafeBufferPointer(rebasing: bytes[entry.valueRange]), to: place)
            }
        }
        _ = copy(run, of: bytes, to: place)
    }

    /// Whether the line lies there just as it is written.
    private static func isWritten(_ entry: Fields.Entry, in bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        let (nameEnd, end) = (Int(entry.nameStart) + Int(entry.nameLength), Int(entry.valueStart) + Int(entry.valueLength))
        return Int(entry.valueStart) == nameEnd + separatorBytes && end + endBytes <= bytes.count
            && bytes[nameEnd] == 0x3a && bytes[nameEnd + 1] == 0x20 && bytes[end] == 0x0d && bytes[end + 1] == 0x0a
    }

    private static func copy(
        _ range: Range<Int>, of bytes: UnsafeBufferPointer<UInt8>, to place: UnsafeMutablePointer<UInt8>
    ) -> UnsafeMutablePointer<UInt8> {
        guard !range.isEmpty, let source = bytes.baseAddress else { return place }
        place.update(from: source + range.lowerBound, count: range.count)
        return place + range.count
    }

    /// One line.
    package static func append(_ field: KnownField, _ value: [UInt8], to out: inout [UInt8]) { append(field, value.span, to: &out) }

    static func append(_ field: KnownField, _ value: Span<UInt8>, to out: inout [UInt8]) {
        let name = field.name
        append(UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), value, to: &out)
    }

    static func append(_ name: Span<UInt8>, _ value: Span<UInt8>, to out: inout [UInt8]) {
        name.withUnsafeBufferPointer { append($0, value, to: &out) }
    }

    private static func append(_ name: UnsafeBufferPointer<UInt8>, _ value: Span<UInt8>, to out: inout [UInt8]) {
        let count = name.count + value.count + separatorBytes + endBytes
        out.append(addingCapacity: count) { output in
            output.withUnsafeMutableBufferPointer { space, written in
                guard let start = space.baseAddress else { return }
                value.withUnsafeBufferPointer { _ = write(name, $0, to: start + written) }
                written += count
            }
        }
    }

    /// Returns where the next line begins.
    private static func write(
        _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, to start: UnsafeMutablePointer<UInt8>
    ) -> UnsafeMutablePointer<UInt8> {
        var place = start
        if let source = name.baseAddress { place.update(from: source, count: name.count) }
        place += name.count
        (place[0], place[1]) = (0x3a, 0x20)
        place += separatorBytes
        if let source = value.baseAddress { place.update(from: source, count: value.count) }
        place += value.count
        (place[0], place[1]) = (0x0d, 0x0a)
        return place + endBytes
    }
}
