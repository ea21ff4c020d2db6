// Hits that are the same as a moment ago.

import CachePolicy
import Downstream
import Explanation
import HTTPCore
import Reactor
import ResponseCache
import Sending
import Telemetry

extension ProxyShard {
    func repeated(_ bytes: UnsafeRawBufferPointer, on connection: ClientConnection) -> Bool {
        guard let memo, let entry = memo.find(bytes, now: loop.batchWallMilliseconds) else { return false }
        entry.response.withUnsafeBytes { connection.sendAgain($0) }
        countRepeated()
        var record = entry.record
        var trace = entry.trace
        trace.number = why.nextNumber()
        finish(&record, trace, entry.head, connection, loop.batchMicroseconds)
        return true
    }

    /// Keeps what a plain hit has just sent, if the request comes often.
    func remember(
        _ head: RequestHead, _ record: ExchangeRecord, _ trace: ExchangeTrace, _ validity: HitMemo.Validity, _ stream: any ClientStream
    ) {
        guard let memo, let whole = stream.wholeExchange, let response = whole.response else { return }
        memo.keep(since: validity.changes) {
            var trace = trace
            trace.diskReads = 0
            let times = now.milliseconds..<validity.end.milliseconds
            return HitMemo.Entry(whole.request, response, times: times, head, record, trace)
        }
    }
}
