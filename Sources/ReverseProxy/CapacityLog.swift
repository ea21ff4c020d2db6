// Log line when client connections reach their limit: at most one a minute.

import Downstream
import Logging
import Reactor

final class CapacityLog: Sendable {
    private let logger: Logger
    private let time: any TimeSource
    /// Written by any shard's loop: the time of the last line in milliseconds, and the number of connections closed since.
    private let state = Mutex<(last: Int64?, closed: Int)>((nil, 0))

    static let intervalMilliseconds: Int64 = 60_000

    init(_ logger: Logger, _ time: any TimeSource) { (self.logger, self.time) = (logger, time) }

    func note(_ report: CapacityReport) {
        let now = time.monotonicMilliseconds
        let closed = state.withLock { state -> Int? in
            state.closed += report.closed
            if let last = state.last, now - last < Self.intervalMilliseconds { return nil }
            defer { state = (now, 0) }
            return state.closed
        }
        if let closed { logger.warning("\(report.sentence(closed: closed))") }
    }
}

extension CapacityReport {
    /// - Parameter closed: connections closed since the last line.
    func sentence(closed: Int) -> String {
        let limit =
            switch cause {
            case .connections: "client connections have reached their limit: \(open) are open (limits.connections)"
            case .descriptors: "no file descriptor is left for client connections: \(open) are open"
            }
        let most = address.map { ", \(self.most) of them from \($0)" } ?? ""
        let end =
            closed > 0
            ? "closed \(closed) idle connections, beginning with those of the address that has the most"
            : "all of them are active, so new connections must wait"
        return "\(limit)\(most); \(end)"
    }
}
