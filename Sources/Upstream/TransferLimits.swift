// What bounds one exchange with the upstream: the settings' numbers alone, since every transfer has a copy.

import Reactor

struct TransferLimits: Sendable {
    /// Milliseconds of each phase, and of all; a total of 0: no limit.
    let connect: Int64
    let firstByte: Int64
    let betweenBytes: Int64
    let total: Int64
    /// Of the response's head: its bytes, its fields, and the 1xx responses before it.
    let headBytes: Int
    let fieldCount: Int
    let informational: Int

    init(_ settings: UpstreamSettings) {
        connect = settings.connectTimeout.wholeMilliseconds
        firstByte = settings.firstByteTimeout.wholeMilliseconds
        betweenBytes = settings.betweenBytesTimeout.wholeMilliseconds
        total = settings.totalTimeout.wholeMilliseconds
        headBytes = settings.responseHeadBytes
        fieldCount = settings.responseFieldCount
        informational = settings.informationalLimit
    }
}
