// The conditions that operators are notified of, and the events at their beginning and end.

/// A condition of the service. The judgement belongs to the status page and the gauges; this module only compares it with the last one.
public enum NotifiedCondition: Sendable, CaseIterable {
    /// `cistern_upstream_up` is 0.
    case upstream
    /// A request was rescued within the last five minutes.
    case rescues
    /// Paths or routes fail, and the upstream is not down.
    case path
    /// `cistern_store_writable` is 0.
    case store
    /// A certificate expires within 14 days, or has expired.
    case certificate
    /// `cistern_share_seeing` is 0.
    case fleet

    var events: (begin: NotificationEvent, end: NotificationEvent) {
        switch self {
        case .upstream: (.upstreamDown, .upstreamUp)
        case .rescues: (.rescuesBegan, .rescuesEnded)
        case .path: (.pathFailing, .pathRecovered)
        case .store: (.storeUnwritable, .storeWritable)
        case .certificate: (.certificateExpiring, .certificateRenewed)
        case .fleet: (.fleetDisconnected, .fleetConnected)
        }
    }

    /// Minimum duration in milliseconds before the beginning is reported: that of the alert rules. A node is not connected at its start.
    var hold: Int64 { self == .store || self == .fleet ? 60_000 : 0 }
}

/// The kind of a notification, by its name in settings, payloads and metrics.
public enum NotificationEvent: String, Sendable, CaseIterable {
    case upstreamDown = "upstream_down"
    case upstreamUp = "upstream_up"
    case rescuesBegan = "rescues_began"
    case rescuesEnded = "rescues_ended"
    case pathFailing = "path_failing"
    case pathRecovered = "path_recovered"
    case storeUnwritable = "store_unwritable"
    case storeWritable = "store_writable"
    case certificateExpiring = "certificate_expiring"
    case certificateRenewed = "certificate_renewed"
    case fleetDisconnected = "fleet_disconnected"
    case fleetConnected = "fleet_connected"
    /// Counts events beyond the limit of an hour.
    case summary
    case test

    /// Events that a target can select. It always receives the others.
    public static let selectable = allCases.filter { $0 != .summary && $0 != .test }

    /// nil for a summary and a test.
    var condition: NotifiedCondition? { NotifiedCondition.allCases.first { $0.events.begin == self || $0.events.end == self } }
}
