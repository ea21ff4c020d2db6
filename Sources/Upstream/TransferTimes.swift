// When each phase of a transfer ended: microseconds from its start; nil where it was not reached.

package struct TransferTimes: Sendable {
    /// The name was resolved, the connection stood, TLS was agreed. Zero where a kept connection was used.
    package var resolved: Int32 = -1
    package var connected: Int32 = -1
    package var secured: Int32 = -1
    /// The request began to go out.
    package var sent: Int32 = -1
    package var firstByte: Int32 = -1
    package var ended: Int32 = -1

    package init() {}
}
