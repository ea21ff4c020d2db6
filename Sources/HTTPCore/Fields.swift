// The fields of a message, in order and with repeats (RFC 9110 §5): one array of bytes, and an entry for each field line that says
// where its name and value lie in it. Values are bytes: obs-text survives. Lines that we append lie there as they are written in a message,
// as those do that were received, so that writing them down is copying.

/// The field section of a message. Order and repeats are kept.
public struct Fields: Sendable {
    /// Where one field line lies in `bytes`. Values are without the white space around them.
    public struct Entry: Sendable {
        public var nameStart: UInt32
        public var nameLength: UInt32
        public var valueStart: UInt32
        public var valueLength: UInt32
        public var known: KnownField?

        public init(nameStart: UInt32, nameLength: UInt32, valueStart: UInt32, valueLength: UInt32, known: KnownField?) {
            self.nameStart = nameStart
            self.nameLength = nameLength
            self.valueStart = valueStart
            self.valueLength = valueLength
            self.known = known
        }

        public var nameRange: Range<Int> { Int(nameStart)..<Int(nameStart + nameLength) }
        public var valueRange: Range<Int> { Int(valueStart)..<Int(valueStart + valueLength) }
    }

    public private(set) var bytes: [UInt8]
    public private(set) var entries: [Entry]
    /// So that asking for an absent field costs nothing.
    @usableFromInline var present = KnownFieldSet()

    public init() {
        bytes = []
        entries = []
    }

    /// Room for so much, so that it need not grow while it is filled.
    public init(reservingBytes bytes: Int, entries: Int) {
        self.init()
        self.bytes.reserveCapacity(bytes)
        self.entries.reserveCapacity(entries)
    }

    /// Takes over a head that the parser has cut up already: entries point into `bytes`.
    public init(bytes: [UInt8], entries: [Entry]) {
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

    /// Calls `take` with the value of each line of that name, in order.
    public func forEach(_ field: KnownField, _ take: (Span<UInt8>) -> Void) {
        guard contains(field) else { return }
        for entry in entries where entry.known == field { take(bytes.span.extracting(entry.valueRange)) }
    }

    /// Room for so many more bytes and lines.
    public mutating func reserve(bytes more: Int, lines: Int) {
        bytes.reserveCapacity(bytes.count + more)
        entries.reserveCapacity(entries.count + lines)
    }

    /// Field lines that entries point into already, as received.
    mutating func take(bytes more: Slice<UnsafeBufferPointer<UInt8>>) {
        let lines = UnsafeBufferPointer(rebasing: more)
        if bytes.isEmpty { bytes = Array(lines) } else { bytes.append(contentsOf: lines) }
    }

    private static let usualCount = 12

    public var count: Int { entries.count }

    /// Which known fields there are lines of.
    public var known: KnownFieldSet { present }

    @inlinable public func contains(_ field: KnownField) -> Bool { present.contains(field) }

    @inlinable public func containsAny(of fields: KnownFieldSet) -> Bool { !present.isDisjoint(with: fields) }

    public func name(at index: Int) -> ArraySlice<UInt8> { bytes[entries[index].nameRange] }

    public func value(at index: Int) -> ArraySlice<UInt8> { bytes[entries[index].valueRange] }

    /// The first line's value.
    public func first(_ field: KnownField) -> ArraySlice<UInt8>? { firstEntry(field).map { bytes[$0.valueRange] } }

    func firstEntry(_ field: KnownField) -> Entry? {
        guard contains(field) else { return nil }
        for entry in entries where entry.known == field { return entry }
        return nil
    }

    /// The value of the one line of that name; nil where there is none, or another.
    public func only(_ field: KnownField) -> ArraySlice<UInt8>? {
        guard contains(field) else { return nil }
        var only: Entry?
        for entry in entries where entry.known == field {
            guard only == nil else { return nil }
            only = entry
        }
        return only.map { bytes[$0.valueRange] }
    }

    /// Whether all lines of that name have the same value.
    public func isOneValue(_ field: KnownField) -> Bool {
        var first: Entry?
        for entry in entries where entry.known == field {
            if let first, bytes[first.valueRange] != bytes[entry.valueRange] { return false }
            first = entry
        }
        return true
    }

    /// The values of all lines of that name, in order.
    public func all(_ field: KnownField) -> [ArraySlice<UInt8>] {
        guard contains(field) else { return [] }
        return entries.compactMap { $0.known == field ? bytes[$0.valueRange] : nil }
    }

    /// Whether there is a line of that name (any case).
    public func contains(named name: Span<UInt8>) -> Bool {
        for entry in entries where entry.nameLength == name.count {
            if bytes.span.extracting(entry.nameRange).equalsIgnoringCase(name) { return true }
        }
        return false
    }

    /// The values of all lines of that name (any case), in order.
    public func all(named name: Span<UInt8>) -> [ArraySlice<UInt8>] {
        values(nameLength: name.count) { $0.equalsIgnoringCase(name) }
    }

    public func all(named name: StaticString) -> [ArraySlice<UInt8>] {
        values(nameLength: name.utf8CodeUnitCount) { $0.equalsIgnoringCase(name) }
    }

    /// Lines that an upstream may take for ones of that name, which are spelled with other separators (`isReadAsName`), in order: name and value, behind a
    /// line's end, which no value has.
    public func all(readAs name: Span<UInt8>) -> [[UInt8]] {
        var lines: [[UInt8]] = []
        // A field that is known is spelled with `-`.
        for entry in entries where entry.known == nil && entry.nameLength == name.count {
            let own = bytes.span.extracting(entry.nameRange)
            guard own.isReadAsName(name), !own.equalsIgnoringCase(name) else { continue }
            lines.append([0x0a] + bytes[entry.nameRange].map(\.asciiLowercased) + [UInt8(ascii: ":")] + bytes[entry.valueRange])
        }
        return lines
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
    public func combined(_ field: KnownField) -> [UInt8]? {
        guard contains(field) else { return nil }
        let values = all(field)
        return values.isEmpty ? nil : Array(values.joined(separator: [UInt8(ascii: ","), UInt8(ascii: " ")]))
    }

    public mutating func append(_ field: KnownField, _ value: Span<UInt8>) {
        let nameStart = bytes.count
        FieldSerializer.append(field, value, to: &bytes)
        appendEntry(nameStart: nameStart, nameLength: field.name.utf8CodeUnitCount, known: field)
    }

    public mutating func append(_ field: KnownField, _ value: [UInt8]) { append(field, value.span) }

    public mutating func append(_ field: KnownField, _ value: String) { append(field, Array(value.utf8)) }

    /// - Parameters:
    ///   - room: bytes that the value takes at most.
    ///   - write: writes the value.
    public mutating func append(_ field: KnownField, atMost room: Int, _ write: (inout ByteWriter) -> Void) {
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

    public mutating func append(name: Span<UInt8>, value: Span<UInt8>) {
        let nameStart = bytes.count
        FieldSerializer.append(name, value, to: &bytes)
        appendEntry(nameStart: nameStart, nameLength: name.count, known: KnownField(name))
    }

    public mutating func append(name: String, value: String) {
        append(name: Array(name.utf8).span, value: Array(value.utf8).span)
    }

    /// Appends the lines of another message that `isKept` lets pass; their bytes come over in one piece.
    public mutating func append(contentsOf others: Fields, where isKept: (Entry) -> Bool) {
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
    public mutating func remove(_ field: KnownField) {
        guard contains(field) else { return }
        entries.removeAll { $0.known == field }
        present.remove(field)
    }

    /// Removes every line of these.
    public mutating func remove(allOf fields: KnownFieldSet) {
        entries.removeAll { fields.holds($0) }
        present.subtract(fields)
    }

    /// Removes every line of that name (any case).
    public mutating func remove(named name: Span<UInt8>) {
        var kept: [Entry] = []
        kept.reserveCapacity(entries.count)
        for entry in entries where !bytes.span.extracting(entry.nameRange).equalsIgnoringCase(name) { kept.append(entry) }
        self = Fields(bytes: bytes, entries: kept)
    }

    public mutating func set(_ field: KnownField, _ value: [UInt8]) {
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
