// A path as an upstream may read it: what many take for the same is spelled in one way. For rules of who may ask and who shares,
// not for keys.

public enum PlainPath {
    /// Without percent-encoding, parameters of segments (`;…`), empty segments and dot segments, and with `/` for `\`; nil where that changes nothing.
    /// - Parameter target: path and query; the query is left out.
    public static func make(of target: ArraySlice<UInt8>) -> [UInt8]? {
        let path = target.withoutQuery
        guard isSpelledOtherwise(path) else { return nil }
        var segments: [[UInt8]] = []
        for segment in decoded(path).split(separator: UInt8(ascii: "/")) {
            let name = Array(segment.prefix { $0 != UInt8(ascii: ";") })
            switch name {
            case [], Array(".".utf8): break
            case Array("..".utf8): _ = segments.popLast()
            default: segments.append(name)
            }
        }
        let isDirectory = path.last == UInt8(ascii: "/") && !segments.isEmpty
        return [UInt8(ascii: "/")] + Array(segments.joined(separator: [UInt8(ascii: "/")])) + (isDirectory ? [UInt8(ascii: "/")] : [])
    }

    private static func isSpelledOtherwise(_ path: ArraySlice<UInt8>) -> Bool {
        var last: UInt8 = 0
        for byte in path {
            switch byte {
            case UInt8(ascii: "%"), UInt8(ascii: ";"), UInt8(ascii: "\\"): return true
            case UInt8(ascii: "/") where last == byte, UInt8(ascii: ".") where last == UInt8(ascii: "/"): return true
            default: last = byte
            }
        }
        return false
    }

    /// Once: who decodes twice is not asked.
    private static func decoded(_ path: ArraySlice<UInt8>) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(path.count)
        var place = path.startIndex
        while place < path.endIndex {
            var byte = path[place]
            if byte == UInt8(ascii: "%"), place + 2 < path.endIndex, let high = path[place + 1].hexValue, let low = path[place + 2].hexValue
            {
                byte = UInt8(truncatingIfNeeded: Int(high) << 4 | Int(low))
                place += 2
            }
            out.append(byte == UInt8(ascii: "\\") ? UInt8(ascii: "/") : byte)
            place += 1
        }
        return out
    }
}
