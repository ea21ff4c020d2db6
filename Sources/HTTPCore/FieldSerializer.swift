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
        var place = start
        for entry in entries where !omitted.holds(entry) {
            let name = UnsafeBufferPointer(rebasing: bytes[entry.nameRange])
            place = write(name, UnsafeBufferPointer(rebasing: bytes[entry.valueRange]), to: place)
        }
    }

    /// One line.
    package static func append(_ field: KnownField, _ value: [UInt8], to out: inout [UInt8]) {
        let name = field.name
        let count = name.utf8CodeUnitCount + value.count + 4
        out.append(addingCapacity: count) { output in
            output.withUnsafeMutableBufferPointer { space, written in
                guard let start = space.baseAddress else { return }
                value.withUnsafeBufferPointer { value in
                    let name = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
                    _ = write(name, value, to: start + written)
                }
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
        place += 2
        if let source = value.baseAddress { place.update(from: source, count: value.count) }
        place += value.count
        (place[0], place[1]) = (0x0d, 0x0a)
        return place + 2
    }
}
