// Reads numbers and parts from the binary formats of files, entries and records.

extension ArraySlice<UInt8> {
    /// Removes and returns the first bytes; nil if there are fewer.
    public mutating func take(_ count: Int) -> ArraySlice<UInt8>? {
        guard count >= 0, count <= self.count else { return nil }
        defer { self = dropFirst(count) }
        return prefix(count)
    }

    /// Removes a big-endian number of eight bytes.
    public mutating func takeNumber() -> UInt64? { take(8).map { $0.reduce(0) { $0 << 8 | UInt64($1) } } }

    public mutating func takeLittleEndianNumber() -> UInt64? { take(8).map { $0.reversed().reduce(0) { $0 << 8 | UInt64($1) } } }
}

extension UInt64 {
    public var bigEndianBytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }
}
