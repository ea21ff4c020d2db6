// How far a purge has come that is told in several messages.

import Fleet
import ResponseCache

/// Of its messages the worst counts. Touched on the log's loop.
final class PurgeSum {
    private var left: Int
    private var worst = Standing.durable
    private let then: (PurgeReach) -> Void

    init(_ count: Int, _ then: @escaping (PurgeReach) -> Void) {
        (left, self.then) = (count, then)
        if count == 0 { then(.durable) }
    }

    func add(_ outcome: LogWriter.Outcome) {
        worst = max(worst, Standing(outcome))
        left -= 1
        if left == 0 { then(worst.reach) }
    }

    /// From the best to the worst.
    private enum Standing: Comparable {
        case durable
        case noReplica
        case notReplicated
        case refused
        case notReached
        case local

        init(_ outcome: LogWriter.Outcome) {
            switch outcome {
            case .durable, .appended: self = .durable
            case .pending(.noReplica): self = .noReplica
            case .pending(.notReplicated): self = .notReplicated
            case .pending(.refused): self = .refused
            case .pending(.notReached), .later: self = .notReached
            case .refused: self = .local
            }
        }

        var reach: PurgeReach {
            switch self {
            case .durable: .durable
            case .noReplica: .pending(reason: LogWriter.Pending.noReplica.rawValue)
            case .notReplicated: .pending(reason: LogWriter.Pending.notReplicated.rawValue)
            case .refused: .pending(reason: LogWriter.Pending.refused.rawValue)
            case .notReached: .pending(reason: LogWriter.Pending.notReached.rawValue)
            case .local: .local
            }
        }
    }
}
