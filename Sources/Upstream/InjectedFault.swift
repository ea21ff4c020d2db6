// The effect of a fault on a request to the upstream or on its response. Faults show operators what users would see in an outage.

import HTTPCore

public struct InjectedFault: Sendable, Equatable {
    public enum Effect: Sendable, Equatable {
        /// No fault besides the delay.
        case none
        /// The upstream refuses the connection.
        case refuse
        /// The connection breaks before the response.
        case reset
        /// A response with this status and an explanation in JSON.
        case status(Status)
        /// A response with status 200 and truncated JSON.
        case badJSON
        /// The connection breaks within the response's content.
        case cut
        /// Maximum rate of the content.
        case slow(bytesPerSecond: Int)
    }

    /// Delay of the response in milliseconds, uniformly distributed in this range.
    public let delay: ClosedRange<Int64>
    public let effect: Effect

    public init(delay: ClosedRange<Int64> = 0...0, _ effect: Effect) {
        self.delay = delay
        self.effect = effect
    }

    /// Whether the request is still sent to the upstream.
    public var contactsUpstream: Bool {
        switch effect {
        case .none, .cut, .slow: true
        case .refuse, .reset, .status, .badJSON: false
        }
    }

    /// Names of the kinds, for metrics, the log and `why`.
    public static let kinds = ["delay", "refuse", "reset", "status", "bad_json", "cut", "slow"]

    /// Index of its name in `kinds`.
    public var kind: Int {
        switch effect {
        case .none: 0
        case .refuse: 1
        case .reset: 2
        case .status: 3
        case .badJSON: 4
        case .cut: 5
        case .slow: 6
        }
    }

    /// Parameter of the kind: a status, or bytes per second; otherwise 0.
    public var argument: Int64 {
        switch effect {
        case .status(let status): Int64(status.rawValue)
        case .slow(let bytes): Int64(bytes)
        case .none, .refuse, .reset, .badJSON, .cut: 0
        }
    }

    /// - Parameter kind: one of `kinds`. The result is nil for another name.
    public init?(kind: String, argument: Int64, delay: ClosedRange<Int64>) {
        let effect: Effect
        switch Self.kinds.firstIndex(of: kind) {
        case 0: effect = .none
        case 1: effect = .refuse
        case 2: effect = .reset
        case 3: effect = .status(Status(rawValue: UInt16(clamping: argument)))
        case 4: effect = .badJSON
        case 5: effect = .cut
        case 6: effect = .slow(bytesPerSecond: max(1, Int(clamping: argument)))
        default: return nil
        }
        self.init(delay: delay, effect)
    }

    /// Description for people.
    public var text: String {
        let what =
            switch effect {
            case .none: ""
            case .refuse: "refuse"
            case .reset: "reset"
            case .status(let status): "status \(status.rawValue)"
            case .badJSON: "bad JSON"
            case .cut: "cut content"
            case .slow(let bytes): "slow, \(bytes) bytes a second"
            }
        guard delay.upperBound > 0 else { return what }
        let range = delay.lowerBound == delay.upperBound ? "\(delay.lowerBound)" : "\(delay.lowerBound)–\(delay.upperBound)"
        return "delay \(range) ms" + (what.isEmpty ? "" : ", " + what)
    }
}
