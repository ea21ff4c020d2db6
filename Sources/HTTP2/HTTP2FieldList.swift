// Field lines to be sent, with names in lower case (RFC 9113 §8.2.1), in one array of bytes.

import CNGHTTP2

public struct HTTP2FieldList: Sendable {
    private var bytes: [UInt8] = []
    private var lines: [(nameEnd: Int, valueEnd: Int, isSecret: Bool)] = []

    public init() {}

    /// Creates a list with reserved capacity.
    public init(reservingBytes count: Int, lines lineCount: Int) {
        bytes.reserveCapacity(count)
        lines.reserveCapacity(lineCount)
    }

    var byteCount: Int { bytes.count }

    /// Appends a field line.
    /// - Parameter isSecret: whether the line must not be added to compression tables that other requests use (RFC 7541 §7.1.3).
    public mutating func append(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, isSecret: Bool = false) {
        for byte in name { bytes.append(byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte) }
        endLine(name.count, value, isSecret)
    }

    public mutating func append(_ name: StaticString, _ value: UnsafeBufferPointer<UInt8>) {
        bytes.append(contentsOf: UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
        endLine(name.utf8CodeUnitCount, value)
    }

    public mutating func append(_ name: String, _ value: String) {
        Array(name.utf8).withUnsafeBufferPointer { name in Array(value.utf8).withUnsafeBufferPointer { append(name, $0) } }
    }

    private mutating func endLine(_ nameLength: Int, _ value: UnsafeBufferPointer<UInt8>, _ isSecret: Bool = false) {
        let nameEnd = bytes.count
        bytes.append(contentsOf: value)
        lines.append((nameEnd, bytes.count, isSecret))
    }

    /// Calls `body` with the lines in the library's form. The library copies them.
    func withPairs<R>(_ body: (UnsafePointer<nghttp2_nv>?, Int) -> R) -> R {
        bytes.withUnsafeBufferPointer { bytes in
            let start = UnsafeMutablePointer(mutating: bytes.baseAddress)
            return withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: max(1, lines.count)) { pairs in
                var nameStart = 0
                for (index, line) in lines.enumerated() {
                    pairs.initializeElement(
                        at: index,
                        to: nghttp2_nv(
                            name: start.map { $0 + nameStart }, value: start.map { $0 + line.nameEnd }, namelen: line.nameEnd - nameStart,
                            valuelen: line.valueEnd - line.nameEnd,
                            flags: UInt8((line.isSecret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE).rawValue)))
                    nameStart = line.valueEnd
                }
                return body(UnsafePointer(pairs.baseAddress), lines.count)
            }
        }
    }
}

/// Field lines that are sent repeatedly, in the library's form and in stable memory. The library need not copy them.
public final class HTTP2ReusableFields {
    let list: HTTP2FieldList
    private let bytes: UnsafeMutableBufferPointer<UInt8>
    let pairs: UnsafeMutableBufferPointer<nghttp2_nv>

    public init(_ list: HTTP2FieldList) {
        self.list = list
        let flags = UInt8((NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue))
        (bytes, pairs) = list.withPairs { pairs, count in
            let own = UnsafeMutableBufferPointer<nghttp2_nv>.allocate(capacity: count)
            let bytes = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: list.byteCount)
            var target = bytes.baseAddress
            func copy(_ part: UnsafeMutablePointer<UInt8>?, _ length: Int) -> UnsafeMutablePointer<UInt8>? {
                guard let part, length > 0 else { return target }
                defer { target = target.map { $0 + length } }
                target?.update(from: part, count: length)
                return target
            }
            for index in 0..<count {
                var pair = pairs![index]
                pair.name = copy(pair.name, pair.namelen)
                pair.value = copy(pair.value, pair.valuelen)
                pair.flags |= flags
                own.initializeElement(at: index, to: pair)
            }
            return (bytes, own)
        }
    }

    deinit {
        bytes.deallocate()
        pairs.deallocate()
    }
}
