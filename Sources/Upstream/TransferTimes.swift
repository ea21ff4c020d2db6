// When each phase of a transfer ended: microseconds from its start; nil where it was not reached.

public struct TransferTimes: Sendable {
    /// The name was resolved, the connection stood, TLS was agreed. Zero where a kept connection was used.
    public var resolved: Int32 = -1
    public var connected: Int32 = -1
    public var secured: Int32 = -1
    /// The request began to go out.
    public var sent: Int32 = -1
    public var firstByte: Int32 = -1
    public var ended: Int32 = -1

    public init() {}
}
