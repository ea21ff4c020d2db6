// Caches the values of recently presented selecting fields. Most clients send one of a few values, and parsing lists of languages costs
// more than the rest of a hit.

import CachePolicy
import HTTPCore

/// Used on its shard's event loop only.
final class SelectingMemo {
    private struct Entry {
        /// The marker's names, and the request's values for them without normalization.
        var presented: [UInt8] = []
        var values: [UInt8] = []
    }

    private var names: [UInt8] = []
    private var decodedNames: [ArraySlice<UInt8>] = []
    private var entries = [Entry](repeating: Entry(), count: 64)
    private var presented: [UInt8] = []

    /// Maximum length in bytes of cached values; longer ones are computed each time.
    private static let limitBytes = 512

    /// - Parameters:
    ///   - marker: encoded names of a Vary marker.
    ///   - make: computes values that are not cached.
    /// - Returns: the names, and their normalized values.
    func values(
        for marker: Span<UInt8>, in request: Fields, make: ([ArraySlice<UInt8>]) -> [UInt8]
    ) -> (names: [ArraySlice<UInt8>], values: [UInt8]) {
        let known = names
        if !marker.equals(known.span) {
            names = Array(copying: marker)
            decodedNames = SelectingFields.decode(marker)
        }
        let index = present(request)
        guard presented.count <= Self.limitBytes else { return (decodedNames, make(decodedNames)) }
        if entries[index].presented == presented { return (decodedNames, entries[index].values) }
        let values = make(decodedNames)
        entries[index] = Entry(presented: presented, values: values)
        return (decodedNames, values)
    }

    /// Fills `presented` with length-prefixed parts, so that only equal requests have equal bytes.
    /// - Returns: index of the entry.
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
