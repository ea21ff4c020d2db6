// Decides how a request waits for another node's lease. A state machine without I/O.

/// Durations of a lease, in milliseconds. A holder that has failed is replaced 300 ms after its last renewal.
public enum LeaseTimes {
    /// The engine removes a lease this long after its last renewal, by the engine's clock.
    public static let expiry: Int64 = 200
    public static let renewal: Int64 = 100
    /// Maximum time left of a lease. More than `expiry`, because nodes of other versions may have another one.
    public static let longestLeft: Int64 = 2_000
    /// A lease must be missing for this long, by the waiting node's clock, before that node takes it. After a stall of the engine the
    /// holder renews the lease within this time. The grace period also covers a record that arrives after the end of its lease.
    public static let grace: Int64 = 70
    /// Interval between two reads of another node's lease.
    public static let poll: Int64 = 20
}

/// Value that replaces a lease after a response that other nodes cannot use.
public enum LeaseMark: UInt8, Sendable {
    /// The response could not be shared, or the upstream failed: every request is sent.
    case eachRequest = 0x2d
    /// Only other nodes cannot use the response: each node sends one request.
    case eachNode = 0x2b
}

public enum LeaseState: Sendable, Equatable {
    case taken
    case ofThisNode
    case ofAnother
    case free
    case marked(LeaseMark)
    /// The value is no lease: it has another form, no expiry, or a late one. No node renews or releases it.
    case foreign
    /// The engine did not reply, or does not support the command.
    case unknown
}

extension LeaseState {
    /// State of a lease with the value of another node. Nodes are random numbers in hexadecimal digits.
    public init(ofOther value: some Collection<UInt8>) {
        if value.count == 1, let mark = value.first.flatMap(LeaseMark.init(rawValue:)) {
            self = .marked(mark)
        } else {
            let isNode = (1...16).contains(value.count) && value.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
            self = isNode ? .ofAnother : .foreign
        }
    }

    /// The state after the reply to PTTL: milliseconds, -1 without an expiry, or -2 without a key.
    public func left(_ milliseconds: Int64) -> LeaseState {
        self == .ofAnother && (milliseconds == -1 || milliseconds > LeaseTimes.longestLeft) ? .foreign : self
    }
}

public struct LeaseWait: Sendable {
    public enum Question: Sendable, Equatable {
        case take
        case check
        case poll
    }

    public enum Step: Sendable, Equatable {
        case ask(Question)
        case askLater(Question, milliseconds: Int64)
        case proceed
    }

    private let deadline: Int64
    private var freeSince: Int64?

    public init(deadline: Int64) { self.deadline = deadline }

    /// - Parameters:
    ///   - state: state of the lease, from the reply to `question`.
    ///   - hasOldRecord: whether there was a record that this node cannot use, because it is older than a purge, a write or the local
    ///     stored response.
    public mutating func handle(_ state: LeaseState, to question: Question, hasOldRecord: Bool = false, now: Int64) -> Step {
        switch state {
        case .taken, .ofThisNode, .marked, .foreign, .unknown: return .proceed
        case .ofAnother:
            freeSince = nil
            return later(.poll, LeaseTimes.poll, now)
        case .free:
            let since = freeSince ?? now
            freeSince = since
            // The holder has stored a record, released the lease, or ended.
            guard question != .poll else { return .ask(.check) }
            // The holder has ended, and its response is of no use to this node.
            if hasOldRecord { return .ask(.take) }
            let left = since + LeaseTimes.grace - now
            return left <= 0 ? .ask(.take) : later(.check, min(LeaseTimes.poll, left), now)
        }
    }

    private func later(_ question: Question, _ milliseconds: Int64, _ now: Int64) -> Step {
        now < deadline ? .askLater(question, milliseconds: min(milliseconds, deadline - now)) : .proceed
    }
}
