// The fields of a message in order, with repeats (RFC 9110 §5). One array holds the bytes, and an entry the offsets of each field line.
// Values are bytes, so obs-text is preserved. Appended lines are stored in wire format like received ones, so that serializing copies them.

/// The field section of a message. Order and repeats are preserved.
public struct Fields: Sendable {
    /// Offsets of one field line in `bytes`. Values exclude surrounding white space.
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
    /// The known fields that are present, so that a test for an absent field costs nothing.
    @usableFromInline var present = KnownFieldSet()

    public init() {
        bytes = []
        entries = []
    }

    /// Reserves capacity, so that the arrays need not grow.
    public init(reservingBytes bytes: Int, entries: Int) {
        self.init()
        self.bytes.reserveCapacity(bytes)
        self.entries.reserveCapacity(entries)
    }

    /// Takes over a parsed head: entries refer to `bytes`.
    public init(bytes: [UInt8], entries: [Entry]) {
        self.bytes = bytes
        self.entries = entries
        for entry in entries {
            if let known = entry.known { present.insert(known) }
        }
    }

    /// Adds the entry of a line. The bytes of several lines are added together afterwards.
    mutating func take(_ entry: Entry) {
        if entries.capacity == 0 { entries.reserveCapacity(Self.usualCount) }
        entries.append(entry)
        if let known = entry.known { present.insert(known) }
    }

    /// Calls `take` with the value of each line with this name, in order.
    public func forEach(_ field: KnownField, _ take: (Span<UInt8>) -> Void) {
        guard contains(field) else { return }
        for entry in entries where entry.known == field { take(bytes.span.extracting(entry.valueRange)) }
    }

    /// Reserves capacity for additional bytes and lines.
    public mutating func reserve(bytes more: Int, lines: Int) {
        bytes.reserveCapacity(bytes.count + more)
        entries.reserveCapacity(entries.count + lines)
    }

    /// Adds the bytes of received field lines. Their entries were already added.
    mutating func take(bytes more: Slice<UnsafeBufferPointer<UInt8>>) {
        let lines = UnsafeBufferPointer(rebasing: more)
        if bytes.isEmpty { bytes = Array(lines) } else { bytes.append(contentsOf: lines) }
    }

    private static let usualCount = 12

    public var count: Int { entries.count }

    /// The known fields that are present.
    public var known: KnownFieldSet { present }

    @inlinable public func contains(_ field: KnownField) -> Bool { present.contains(field) }

    @inlinable public func containsAny(of fields: KnownFieldSet) -> Bool { !present.isDisjoint(with: fields) }

    public func name(at index: Int) -> ArraySlice<UInt8> { bytes[entries[index].nameRange] }

    public func value(at index: Int) -> ArraySlice<UInt8> { bytes[entries[index].valueRange] }

    /// Returns the value of the first line; nil if there is none.
    public func first(_ field: KnownField) -> ArraySlice<UInt8>? { firstEntry(field).map { bytes[$0.valueRange] } }

    func firstEntry(_ field: KnownField) -> Entry? {
        guard contains(field) else { return nil }
        for entry in entries where entry.known == field { return entry }
        return nil
    }

    /// Returns the value if exactly one line has this name; nil otherwise.
    public func only(_ field: KnownField) -> ArraySlice<UInt8>? {
        guard contains(field) else { return nil }
        var only: Entry?
        for entry in entries where entry.known == field {
            guard only == nil else { return nil }
            only = entry
        }
        return only.map { bytes[$0.valueRange] }
    }

    /// Returns whether all lines with this name have equal values.
    public func isOneValue(_ field: KnownField) -> Bool {
        var first: Entry?
        for entry in entries where entry.known == field {
            if let first, bytes[first.valueRange] != bytes[entry.valueRange] { return false }
            first = entry
        }
        return true
    }

    /// Returns the values of all lines with this name, in order.
    public func all(_ field: KnownField) -> [ArraySlice<UInt8>] {
        guard contains(field) else { return [] }
        return entries.compactMap { $0.known == field ? bytes[$0.valueRange] : nil }
    }

    /// Returns whether a line has this name, in any case.
    public func contains(named name: Span<UInt8>) -> Bool {
        for entry in entries where entry.nameLength == name.count {
            if bytes.span.extracting(entry.nameRange).equalsIgnoringCase(name) { return true }
        }
        return false
    }

    public func contains(named name: StaticString) -> Bool {
        entries.contains { $0.nameLength == name.utf8CodeUnitCount && bytes.span.extracting($0.nameRange).equalsIgnoringCase(name) }
    }

    /// Returns the values of all lines with this name in any case, in order.
    public func all(named name: Span<UInt8>) -> [ArraySlice<UInt8>] {
        values(nameLength: name.count) { $0.equalsIgnoringCase(name) }
    }

    public func all(named name: StaticString) -> [ArraySlice<UInt8>] {
        values(nameLength: name.utf8CodeUnitCount) { $0.equalsIgnoringCase(name) }
    }

    /// Returns the lines that an upstream may read as having this name, because only the separators differ (`isReadAsName`). Each result
    /// has name and value after a line feed, which no value contains.
    public func all(readAs name: Span<UInt8>) -> [[UInt8]] {
        var lines: [[UInt8]] = []
        // Known fields are always spelled with `-`.
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

    /// Returns the values of all lines joined by ", " (RFC 9110 §5.3); nil if there is none.
    public func combined(_ field: KnownField) -> ArraySlice<UInt8>? {
        guard contains(field) else { return nil }
        if let only = only(field) { return only }
        let values = all(field)
        return values.isEmpty ? nil : Array(values.joined(separator: [UInt8(ascii: ","), UInt8(ascii: " ")]))[...]
    }

    public mutating func append(_ field: KnownField, _ value: Span<UInt8>) {
        let nameStart = bytes.count
        FieldSerializer.append(field, value, to: &bytes)
        appendEntry(nameStart: nameStart, nameLength: field.name.utf8CodeUnitCount, known: field)
    }

    public mutating func append(_ field: KnownField, _ value: [UInt8]) { append(field, value.span) }

    public mutating func append(_ field: KnownField, _ value: String) { append(field, Array(value.utf8)) }

    /// - Parameters:
    ///   - capacity: maximum length of the value in bytes.
    ///   - write: writes the value.
    public mutating func append(_ field: KnownField, atMost capacity: Int, _ write: (inout ByteWriter) -> Void) {
        let nameStart = bytes.count
        let name = field.name
        bytes.append(atMost: name.utf8CodeUnitCount + capacity + FieldSerializer.separatorBytes + FieldSerializer.endBytes) { writer in
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

    /// Appends the lines of another message that `isKept` accepts. All bytes of the other message are copied at once.
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

    /// Removes every line with this name.
    public mutating func remove(_ field: KnownField) {
        guard contains(field) else { return }
        entries.removeAll { $0.known == field }
        present.remove(field)
    }

    /// Removes every line of these fields.
    public mutating func remove(allOf fields: KnownFieldSet) {
        entries.removeAll { fields.holds($0) }
        present.subtract(fields)
    }

    /// Removes every line with this name, in any case.
    public mutating func remove(named name: Span<UInt8>) {
        removeAll { entry, bytes in bytes.span.extracting(entry.nameRange).equalsIgnoringCase(name) }
    }

    /// Removes every line with one of these names, in any case.
    public mutating func remove(named names: [StaticString]) {
        removeAll { entry, bytes in names.contains { bytes.span.extracting(entry.nameRange).equalsIgnoringCase($0) } }
    }

    /// - Parameter isRemoved: receives each entry with the bytes to which the entry refers.
    public mutating func removeAll(where isRemoved: (Entry, [UInt8]) -> Bool) {
        let count = entries.count
        entries.removeAll { isRemoved($0, bytes) }
        guard entries.count < count else { return }
        present = []
        for entry in entries { if let known = entry.known { present.insert(known) } }
    }

    /// Replaces the lines that have the name of a line of another message by those lines.
    /// - Parameter isTaken: whether a line of the other message is taken.
    public mutating func replace(byLinesOf others: Fields, where isTaken: (Entry) -> Bool) {
        removeAll { own, bytes in
            let name = bytes.span.extracting(own.nameRange)
            return others.entries.contains {
                $0.nameLength == own.nameLength && isTaken($0) && others.bytes.span.extracting($0.nameRange).equalsIgnoringCase(name)
            }
        }
        append(contentsOf: others, where: isTaken)
    }

    public mutating func set(_ field: KnownField, _ value: [UInt8]) {
        remove(field)
        append(field, value)
    }

    /// Adds the entry of the line at the end of `bytes`.
    private mutating func appendEntry(nameStart: Int, nameLength: Int, known: KnownField?) {
        let valueStart = nameStart + nameLength + FieldSerializer.separatorBytes
        entries.append(
            Entry(
                nameStart: UInt32(nameStart), nameLength: UInt32(nameLength), valueStart: UInt32(valueStart),
                valueLength: UInt32(bytes.count - FieldSerializer.endBytes - valueStart), known: known))
        if let known { present.insert(known) }
    }
}
