// What is done to a request on its way to the upstream, or to its response, so that one sees what users would see in an outage.

import HTTPCore

public struct InjectedFault: Sendable, Equatable {
    public enum Effect: Sendable, Equatable {
        /// Nothing but the delay.
        case none
        /// The upstream takes no connection.
        case refuse
        /// The connection breaks before anything of a response has come.
        case reset
        /// It responds with this status, and a sentence in JSON.
        case status(Status)
        /// It responds with 200 and JSON that breaks off.
        case badJSON
        /// The connection breaks in the midst of the response's content.
        case cut
        /// No more than so many bytes of content come in a second.
        case slow(bytesPerSecond: Int)
    }

    /// Milliseconds that are waited for before anything of the response is seen: any number of them, each as likely as others.
    public let delay: ClosedRange<Int64>
    public let effect: Effect

    public init(delay: ClosedRange<Int64> = 0...0, _ effect: Effect) {
        self.delay = delay
        self.effect = effect
    }

    /// Whether the request goes to the upstream all the same.
    public var asksUpstream: Bool {
        switch effect {
        case .none, .cut, .slow: true
        case .refuse, .reset, .status, .badJSON: false
        }
    }

    /// For metrics, the log and `why`.
    public static let kinds = ["delay", "refuse", "reset", "status", "bad_json", "cut", "slow"]

    /// Its place in `kinds`.
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

    /// What its kind is told beside its name: a status, or bytes a second.
    public var argument: Int64 {
        switch effect {
        case .status(let status): Int64(status.rawValue)
        case .slow(let bytes): Int64(bytes)
        case .none, .refuse, .reset, .badJSON, .cut: 0
        }
    }

    /// - Parameter kind: one of `kinds`; nil where it is none.
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

    /// In words, for people.
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
