// End times of the phases of a transfer, in microseconds from its start; -1 if a phase was not reached.

public struct TransferTimes: Sendable {
    /// End of name resolution, of connecting and of the TLS handshake. 0 if a kept connection was used.
    public var resolved: Int32 = -1
    public var connected: Int32 = -1
    public var secured: Int32 = -1
    /// Start of sending the request.
    public var sent: Int32 = -1
    public var firstByte: Int32 = -1
    public var ended: Int32 = -1

    public init() {}
}
