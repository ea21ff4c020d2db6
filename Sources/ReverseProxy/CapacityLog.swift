// Log line when client connections reach their limit.

import Downstream
import Logging
import Reactor

final class CapacityLog: Sendable {
    private let logger: Logger
    private let time: any TimeSource
    private let interval = LogInterval()

    init(_ logger: Logger, _ time: any TimeSource) { (self.logger, self.time) = (logger, time) }

    func note(_ report: CapacityReport) {
        guard let earlier = interval.note(report.closed, now: time.monotonicMilliseconds) else { return }
        logger.warning("\(report.sentence(closed: earlier + report.closed))")
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
