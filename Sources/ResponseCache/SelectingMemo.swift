// What requests' selecting fields amounted to lately: most clients present the same few values, and taking lists of languages apart costs more
// than the rest of a hit.

import CachePolicy
import HTTPCore

/// Touched on its shard's loop only.
final class SelectingMemo {
    private struct Entry {
        /// The marker's names, and the values presented for them, as they stand in the request.
        var presented: [UInt8] = []
        var values: [UInt8] = []
    }

    private var names: [UInt8] = []
    private var decodedNames: [ArraySlice<UInt8>] = []
    private var entries = [Entry](repeating: Entry(), count: 64)
    private var presented: [UInt8] = []

    /// Longer ones are worked out each time.
    private static let limitBytes = 512

    /// - Parameters:
    ///   - marker: a marker's names as stored.
    ///   - make: works out what is not remembered.
    /// - Returns: the names, and what they amount to.
    func values(
        for marker: UnsafeRawBufferPointer, in request: Fields, make: ([ArraySlice<UInt8>]) -> [UInt8]
    ) -> (names: [ArraySlice<UInt8>], values: [UInt8]) {
        if !marker.elementsEqual(names) {
            names = Array(marker)
            decodedNames = SelectingFields.decode(marker)
        }
        let place = present(request)
        guard presented.count <= Self.limitBytes else { return (decodedNames, make(decodedNames)) }
        if entries[place].presented == presented { return (decodedNames, entries[place].values) }
        let values = make(decodedNames)
        entries[place] = Entry(presented: presented, values: values)
        return (decodedNames, values)
    }

    /// Fills `presented`: each part with its length, so that two requests are alike in it only where they are alike.
    /// - Returns: the entry's place.
    private func present(_ request: Fields) -> Int {
        presented.removeAll(keepingCapacity: true)
        CacheKey.appendPart(names, to: &presented)
        for (index, name) in decodedNames.enumerated() {
            for value in request.all(named: name.span) { append(Array(value), index) }
            for line in request.all(readAs: name.span) { append(line, index) }
        }
        return Int(UInt(bitPattern: ByteKey(presented).hashValue) % UInt(entries.count))
    }

    private func append(_ value: [UInt8], _ index: Int) {
        presented.append(UInt8(truncatingIfNeeded: index))
        presented.append(UInt8(truncatingIfNeeded: index >> 8))
        CacheKey.appendPart(value, to: &presented)
    }
}
