// Timeouts and limits of one exchange with the upstream. Stored as plain numbers, because every transfer reads them.

import HTTPCore
import Reactor

struct TransferLimits: Sendable {
    /// Maximum milliseconds for each phase and in total. A `total` or `stream` of 0 means no limit.
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
