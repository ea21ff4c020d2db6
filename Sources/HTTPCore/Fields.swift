// The fields of a message, in order and with repeats (RFC 9110 §5): one array of bytes, and an entry for each field line that says
// where its name and value lie in it. Values are bytes: obs-text survives. Lines that we append lie there as they are written in a message,
// as those do that were received, so that writing them down is copying.

/// The field section of a message. Order and repeats are kept.
package struct Fields: Sendable {
    /// Where one field line lies in `bytes`. Values are without the white space around them.
    package struct Entry: Sendable {
        package var nameStart: UInt32
        package var nameLength: UInt32
        package var valueStart: UInt32
        package var valueLength: UInt32
        package var known: KnownField?

        package init(nameStart: UInt32, nameLength: UInt32, valueStart: UInt32, valueLength: UInt32, known: KnownField?) {
            self.nameStart = nameStart
            self.nameLength = nameLength
            self.valueStart = valueStart
            self.valueLength = valueLength
            self.known = known
        }

        package var nameRange: Range<Int> { Int(nameStart)..<Int(nameStart + nameLength) }
        package var valueRange: Range<Int> { Int(valueStart)..<Int(valueStart + valueLength) }
    }

    package private(set) var bytes: [UInt8]
    package private(set) var entries: [Entry]
    /// So that asking for an absent field costs nothing.
    @usableFromInline var present = KnownFieldSet()

    package init() {
        bytes = []
        entries = []
    }

    /// Room for so much, so that it need not grow while it is filled.
    package init(reservingBytes bytes: Int, entries: Int) {
        self.init()
        self.bytes.reserveCapacity(bytes)
        self.entries.reserveCapacity(entries)
    }

    /// Takes over a head that the parser has cut up already: entries point into `bytes`.
    package init(bytes: [UInt8], entries: [Entry]) {
        self.bytes = bytes
        self.entries = entries
        for entry in entries {
            if let known = entry.known { present.insert(known) }
        }
    }

    /// Takes the entry of a line whose bytes are taken afterwards, with those of others.
    mutating func take(_ entry: Entry) {
        if entries.capacity == 0 { entries.reserveCapacity(Self.usualCount) }
        entries.append(entry)
        if let known = entry.known { present.insert(known) }
    }

    /// The bytes of another message, some of whose entries are taken.
    mutating func take(bytes: [UInt8], of others: Fields) {
        self.bytes = bytes
        entries.reserveCapacity(others.count)
    }

    /// Calls `take` with the value of each line of that name, in order.
    package func forEach(_ field: KnownField, _ take: (Span<UInt8>) -> Void) {
        guard contains(field) else { return }
        for entry in entries where entry.known == field { take(bytes.span.extracting(entry.valueRange)) }
    }

    /// Room for so many more bytes and lines.
    package mutating func reserve(bytes more: Int, lines: Int) {
        bytes.reserveCapacity(bytes.count + more)
        entries.reserveCapacity(entries.count + lines)
    }

    /// Field lines that entries point into already, as received.
    mutating func take(bytes more: Slice<UnsafeBufferPointer<UInt8>>) {
        let lines = UnsafeBufferPointer(rebasing: more)
        if bytes.isEmpty { bytes = Array(lines) } else { bytes.append(contentsOf: lines) }
    }

    private static let usualCount = 12

    package var count: Int { entries.count }

    @inlinable package func contains(_ field: KnownField) -> Bool { present.contains(field) }

    @inlinable package func containsAny(of fields: KnownFieldSet) -> Bool { !present.isDisjoint(with: fields) }

    package func name(at index: Int) -> ArraySlice<UInt8> { bytes[entries[index].nameRange] }

    package func value(at index: Int) -> ArraySlice<UInt8> { bytes[entries[index].valueRange] }

    /// The first line's value.
    package func first(_ field: KnownField) -> ArraySlice<UInt8>? {
        guard contains(field) else { return nil }
        for entry in entries where entry.known == field { return bytes[entry.valueRange] }
        return nil
    }

    /// Whether all lines of that name have the same value.
    package func isOneValue(_ field: KnownField) -> Bool {
        var first: Entry?
        for entry in entries where entry.known == field {
            if let first, bytes[first.valueRange] != bytes[entry.valueRange] { return false }
            first = entry
        }
        return true
    }

    /// The values of all lines of that name, in order.
    package func all(_ field: KnownField) -> [ArraySlice<UInt8>] {
        guard contains(field) else { return [] }
        return entries.compactMap { $0.known == field ? bytes[$0.valueRange] : nil }
    }

    /// Whether there is a line of that name (any case).
    package func contains(named name: Span<UInt8>) -> Bool {
        for entry in entries where entry.nameLength == name.count {
            if bytes.span.extracting(entry.nameRange).equalsIgnoringCase(name) { return true }
        }
        return false
    }

    /// The values of all lines of that name (any case), in order.
    package func all(named name: Span<UInt8>) -> [ArraySlice<UInt8>] {
        values(nameLength: name.count) { $0.equalsIgnoringCase(name) }
    }

    package func all(named name: StaticString) -> [ArraySlice<UInt8>] {
        values(nameLength: name.utf8CodeUnitCount) { $0.equalsIgnoringCase(name) }
    }

    @inline(__always)
    private func values(nameLength: Int, where isNamed: (Span<UInt8>) -> Bool) -> [ArraySlice<UInt8>] {
        var values: [ArraySlice<UInt8>] = []
        for entry in entries where entry.nameLength == nameLength && isNamed(bytes.span.extracting(entry.nameRange)) {
            values.append(bytes[entry.valueRange])
        }
        return values
    }

    /// All lines' values joined by ", " (RFC 9110 §5.3); nil where there is none.
    package func combined(_ field: KnownField) -> [UInt8]? {
        guard contains(field) else { return nil }
        let values = all(field)
        return values.isEmpty ? nil : Array(values.joined(separator: [UInt8(ascii: ","), UInt8(ascii: " ")]))
    }

    package mutating func append(_ field: KnownField, _ value: Span<UInt8>) {
        let nameStart = bytes.count
        FieldSerializer.append(field, value, to: &bytes)
        appendEntry(nameStart: nameStart, nameLength: field.name.utf8CodeUnitCount, known: field)
    }

    package mutating func append(_ field: KnownField, _ value: [UInt8]) { append(field, value.span) }

    package mutating func append(_ field: KnownField, _ value: String) { append(field, Array(value.utf8)) }

    /// - Parameters:
    ///   - room: bytes that the value takes at most.
    ///   - write: writes the value.
    package mutating func append(_ field: KnownField, atMost room: Int, _ write: (inout ByteWriter) -> Void) {
        let nameStart = bytes.count
        let name = field.name
        bytes.append(atMost: name.utf8CodeUnitCount + room + FieldSerializer.separatorBytes + FieldSerializer.endBytes) { writer in
            writer.put(name)
            writer.put(": ")
            write(&writer)
            writer.put("\r\n")
        }
        appendEntry(nameStart: nameStart, nameLength: name.utf8CodeUnitCount, known: field)
    }

    package mutating func append(name: Span<UInt8>, value: Span<UInt8>) {
        let nameStart = bytes.count
        FieldSerializer.append(name, value, to: &bytes)
        appendEntry(nameStart: nameStart, nameLength: name.count, known: KnownField(name))
    }

    package mutating func append(name: String, value: String) {
        append(name: Array(name.utf8).span, value: Array(value.utf8).span)
    }

    /// Appends the lines of another message that `isKept` lets pass; their bytes come over in one piece.
    package mutating func append(contentsOf others: Fields, where isKept: (Entry) -> Bool) {
        let base = UInt32(bytes.count)
        bytes.append(contentsOf: others.bytes)
        for entry in others.entries where isKept(entry) {
            var moved = entry
            moved.nameStart += base
            moved.valueStart += base
            entries.append(moved)
            if let known = entry.known { present.insert(known) }
        }
    }

    /// Removes every line of that name.
    package mutating func remove(_ field: KnownField) {
        guard contains(field) else { return }
        entries.removeAll { $0.known == field }
        present.remove(field)
    }

    /// Removes every line of that name (any case).
    package mutating func remove(named name: Span<UInt8>) {
        var kept: [Entry] = []
        kept.reserveCapacity(entries.count)
        for entry in entries where !bytes.span.extracting(entry.nameRange).equalsIgnoringCase(name) { kept.append(entry) }
        self = Fields(bytes: bytes, entries: kept)
    }

    package mutating func set(_ field: KnownField, _ value: [UInt8]) {
        remove(field)
        append(field, value)
    }

    /// The line is what comes last in `bytes`.
    private mutating func appendEntry(nameStart: Int, nameLength: Int, known: KnownField?) {
        let valueStart = nameStart + nameLength + FieldSerializer.separatorBytes
        entries.append(
            Entry(
                nameStart: UInt32(nameStart), nameLength: UInt32(nameLength), valueStart: UInt32(valueStart),
                valueLength: UInt32(bytes.count - FieldSerializer.endBytes - valueStart), known: known))
        if let known { present.insert(known) }
    }
}
