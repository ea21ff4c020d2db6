// Hits that are the same as a moment ago.

import CachePolicy
import Downstream
import Explanation
import HTTPCore
import Reactor
import ResponseCache
import Telemetry

extension ProxyShard {
    func repeated(_ bytes: UnsafeRawBufferPointer, on connection: ClientConnection) -> Bool {
        guard let memo, let entry = memo.find(bytes, now: loop.batchWallMilliseconds) else { return false }
        entry.answer.withUnsafeBytes { connection.sendAgain($0) }
        countRepeated()
        var record = entry.record
        var trace = entry.trace
        trace.number = why.nextNumber()
        finish(&record, trace, entry.head, connection, loop.batchMicroseconds)
        return true
    }

    /// Keeps what a plain hit has just sent, if the request comes often.
    func remember(
        _ found: FoundResponse, _ head: RequestHead, _ record: ExchangeRecord, _ trace: ExchangeTrace, _ connection: ClientConnection
    ) {
        guard let memo, let whole = connection.wholeExchange, let answer = whole.answer else { return }
        memo.keep(since: storeChanges) {
            let end = Freshness.ageEnds(of: found.metadata, now: now)
            var trace = trace
            trace.diskReads = 0
            return HitMemo.Entry(whole.request, answer, times: now.milliseconds..<end.milliseconds, head, record, trace)
        }
    }
}
