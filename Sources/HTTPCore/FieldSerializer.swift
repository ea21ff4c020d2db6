// Writes field lines (RFC 9112 §5), with one check for room for all of them.

package enum FieldSerializer {
    /// - Parameter omitted: fields that are left out.
    package static func append(_ fields: Fields, without omitted: KnownFieldSet = [], to out: inout [UInt8]) {
        var count = 0
        for entry in fields.entries where !omitted.holds(entry) { count += Int(entry.nameLength) + Int(entry.valueLength) + 4 }
        out.append(addingCapacity: count) { output in
            output.withUnsafeMutableBufferPointer { space, written in
                guard let start = space.baseAddress else { return }
                fields.bytes.withUnsafeBufferPointer { write(fields.entries, without: omitted, of: $0, to: start + written) }
                written += count
            }
        }
    }

    private static func write(
        _ entries: [Fields.Entry], without omitted: KnownFieldSet, of bytes: UnsafeBufferPointer<UInt8>,
        to start: UnsafeMutablePointer<UInt8>
    ) {
        guard let source = bytes.baseAddress else { return }
        var place = start
        for entry in entries where !omitted.holds(entry) {
            place.update(from: source + Int(entry.nameStart), count: Int(entry.nameLength))
            place += Int(entry.nameLength)
            (place[0], place[1]) = (0x3a, 0x20)
            place += 2
            place.update(from: source + Int(entry.valueStart), count: Int(entry.valueLength))
            place += Int(entry.valueLength)
            (place[0], place[1]) = (0x0d, 0x0a)
            place += 2
        }
    }

    /// One line.
    package static func append(_ field: KnownField, _ value: [UInt8], to out: inout [UInt8]) {
        out.append(field.name)
        out.append(": ")
        out += value
        out.append("\r\n")
    }
}

extension KnownFieldSet {
    fileprivate func holds(_ entry: Fields.Entry) -> Bool { entry.known.map(contains) ?? false }
}
