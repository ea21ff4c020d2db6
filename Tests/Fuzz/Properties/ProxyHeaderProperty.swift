// The PROXY protocol, text and binary: the result does not depend on how the bytes are split. The parser never waits for more than the
// limit, and returns the address that the line states.

import Addresses

enum ProxyHeaderProperty {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        let whole = ProxyHeader.read(bytes[...])
        var isDecided = false
        for count in 0...bytes.count {
            let part = ProxyHeader.read(bytes[..<count])
            if isDecided { try expect(part == whole, "\(count) bytes say something else than fewer did") }
            switch part {
            case .needsMore: try expect(count < ProxyHeader.limit, "the parser waits for more than the limit")
            case .invalid: isDecided = true
            case .header(_, let length):
                try expect(length <= count && length > 0, "the header is longer than the input")
                isDecided = true
            }
        }
        // Neighbouring bytes make no difference.
        try expect(
            ProxyHeader.read(([0x20] + bytes + [0x0a])[1..<(bytes.count + 1)]) == whole,
            "the same header at another offset is parsed differently")
        guard case .header(let header, let length) = whole, let source = header.source, bytes.first == UInt8(ascii: "P") else { return }
        let words = bytes[..<(length - 2)].split(separator: 0x20)
        try expect(IPAddress(words[2]) == source.address && String(decoding: words[4], as: UTF8.self) == "\(source.port)", "another source")
    }
}
