// What a shared record says of the log: which one, and how far its writer had applied it when the request went upstream.

/// Carried by each record of the shared level, sealed with it.
public struct RecordVersion: Hashable, Sendable {
    /// Which log the position is of. Another one has other ids.
    public var epoch: UInt64
    /// What had been applied when the request went upstream. Whatever was appended later may be newer than the response.
    public var position: LogPosition

    public init(epoch: UInt64, position: LogPosition) { (self.epoch, self.position) = (epoch, position) }

    public static let byteCount = 24

    /// Twenty-four bytes.
    public var bytes: [UInt8] {
        var bytes: [UInt8] = []
        append(to: &bytes)
        return bytes
    }

    public func append(to bytes: inout [UInt8]) {
        for number in [epoch, position.milliseconds, position.sequence] {
            withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
        }
    }

    /// - Returns: nil unless these are exactly twenty-four bytes.
    public init?(bytes: some Collection<UInt8>) {
        let bytes = Array(bytes)
        guard bytes.count == Self.byteCount, let epoch = number(of: bytes[..<8]), let milliseconds = number(of: bytes[8..<16]),
            let sequence = number(of: bytes[16...])
        else { return nil }
        self.init(epoch: epoch, position: LogPosition(milliseconds, sequence))
    }
}
