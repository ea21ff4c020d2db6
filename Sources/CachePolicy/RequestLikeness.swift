// When two requests with one target and one partition are equal.

import HTTPCore

public enum RequestLikeness {
    /// What makes the difference, in one spelling: the fields that negotiate the representation (`Accept*`), whatever their order, and the fields
    /// that are not known to be harmless.
    /// - Parameter unknownFieldsHash: `TargetKeys.unknownFieldsHash`.
    public static func bytes(of request: Fields, unknownFieldsHash: UInt64) -> [UInt8] {
        var lines: [(name: [UInt8], value: [UInt8])] = []
        for index in 0..<request.count {
            let name = request.name(at: index)
            guard name.prefix(prefix.utf8CodeUnitCount).equalsIgnoringCase(prefix) else { continue }
            lines.append((name.map(\.asciiLowercased), Array(request.value(at: index))))
        }
        // Lines of one name keep their order.
        lines.sort { $0.name.lexicographicallyPrecedes($1.name) }
        return lines.reduce(into: withUnsafeBytes(of: unknownFieldsHash.littleEndian) { Array($0) }) { out, line in
            CacheKey.appendPart(line.name, to: &out)
            CacheKey.appendPart(line.value, to: &out)
        }
    }

    private static let prefix: StaticString = "accept"
}
