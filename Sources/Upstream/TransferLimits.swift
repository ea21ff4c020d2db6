// What bounds one exchange with the upstream: the settings' numbers alone, since every transfer has a copy.

import HTTPCore
import Reactor

struct TransferLimits: Sendable {
    /// Milliseconds of each phase, and of all; a total, or one for streams, of 0: no limit.
    let connect: Int64
    let firstByte: Int64
    let betweenBytes: Int64
    let total: Int64
    let stream: Int64
    let head: ResponseLimits

    init(_ settings: UpstreamSettings) {
        connect = settings.connectTimeout.wholeMilliseconds
        firstByte = settings.firstByteTimeout.wholeMilliseconds
        betweenBytes = settings.betweenBytesTimeout.wholeMilliseconds
        total = settings.totalTimeout.wholeMilliseconds
        stream = settings.streamTimeout.wholeMilliseconds
        head = settings.responseLimits
    }
}
