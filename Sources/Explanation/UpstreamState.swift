// What is known of an upstream by what came from it last: so that nothing is said of one that was not asked.

import Telemetry

public enum UpstreamState: Sendable, Equatable {
    /// Since the start.
    case unasked
    /// Within the last five minutes, and nothing speaks against it.
    case responds
    /// Earlier; it was not asked since.
    case responded
    /// Within the last five minutes every response had a status of 5xx.
    case errors
    /// The last time that it was asked, nothing came.
    case silent
    /// A connection has come about since, or the first one, and no response yet.
    case reachable

    /// Milliseconds that count as lately.
    public static let window: Int64 = 300_000

    /// - Parameters:
    ///   - responses: within the last five minutes: all, and those with a status of 5xx.
    ///   - now: milliseconds of the clock that is never set.
    public init(_ contact: UpstreamContact, responses: (all: UInt64, errors: UInt64), now: Int64) {
        guard contact.failure == nil else {
            self = contact.connectedAt == nil ? .silent : .reachable
            return
        }
        guard let respondedAt = contact.respondedAt else {
            // The first response is still to come.
            self = contact.connectedAt == nil ? .unasked : .reachable
            return
        }
        guard now - respondedAt <= Self.window else {
            self = .responded
            return
        }
        self = responses.all > 0 && responses.errors == responses.all ? .errors : .responds
    }

    /// Somebody should look.
    public var isAlarming: Bool { self == .errors || self == .silent }

    /// In few words, for a table.
    public var word: String {
        switch self {
        case .unasked: "Not asked yet"
        case .responds: "Responds"
        case .responded: "Responded"
        case .errors: "Errors only"
        case .silent: "Did not respond"
        case .reachable: "Can be reached"
        }
    }

    /// Behind its name.
    private func verb(isMany: Bool) -> String {
        switch self {
        case .unasked: isMany ? "have not been asked for anything yet" : "has not been asked for anything yet"
        case .responds: isMany ? "respond" : "responds"
        case .responded: isMany ? "responded when they were last asked" : "responded when it was last asked"
        case .errors: isMany ? "respond with errors only" : "responds with errors only"
        case .silent: isMany ? "did not respond when they were last asked" : "did not respond when it was last asked"
        case .reachable: "can be reached"
        }
    }

    // MARK: Of several

    static func words(_ upstreams: [(name: String, state: UpstreamState)]) -> String {
        guard upstreams.count > 1 else { return "The upstream \((upstreams.first?.state ?? .unasked).verb(isMany: false))" }
        let states = Set(upstreams.map(\.state))
        if states.count == 1, let state = states.first {
            return state == .unasked
                ? "No upstream has been asked for anything yet" : "All \(upstreams.count) upstreams \(state.verb(isMany: true))"
        }
        // Those that nothing speaks against are counted, and the others named.
        let good = upstreams.filter { !$0.state.isAlarming && $0.state != .unasked }.map(\.state)
        let unasked = upstreams.count { $0.state == .unasked }
        var parts: [String] = []
        if !good.isEmpty {
            let weakest: UpstreamState = good.contains(.reachable) ? .reachable : good.contains(.responded) ? .responded : .responds
            let verb = weakest.verb(isMany: good.count > 1)
            parts.append(
                good.count == upstreams.count
                    ? "All \(good.count) upstreams \(verb)" : "\(good.count) of \(upstreams.count) upstreams \(verb)")
        }
        if let alarm = alarm(upstreams) { parts.append(alarm) }
        if unasked > 0 { parts.append("\(unasked) \(unasked == 1 ? "has" : "have") not been asked yet") }
        return StateSentence.joined(parts)
    }

    /// nil where there is nothing to alarm anybody.
    static func alarm(_ upstreams: [(name: String, state: UpstreamState)]) -> String? {
        let parts = ([.silent, .errors] as [UpstreamState]).compactMap { state -> String? in
            let names = upstreams.filter { $0.state == state }.map(\.name)
            guard !names.isEmpty else { return nil }
            return "\(StateSentence.named(names)) \(state.verb(isMany: names.count > 1))"
        }
        return parts.isEmpty ? nil : StateSentence.joined(parts)
    }
}
