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
