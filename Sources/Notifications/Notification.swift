// A notification: its sentence, and its forms for webhooks and commands. Paths and causes come from clients and upstreams, so all texts are
// limited in length, and control characters are replaced.

import Explanation
import HTTPCore
import JSON

/// The node that notifies.
public struct NotifyingNode: Sendable, Equatable {
    /// Name of the machine.
    public let name: String
    /// Number of the process in its fleet; empty if there is none.
    public let fleetNode: String

    public init(name: String, fleetNode: String = "") { (self.name, self.fleetNode) = (name, fleetNode) }
}

public struct Notification: Sendable, Equatable {
    public let event: NotificationEvent
    public let node: NotifyingNode
    /// Unique among the notifications of a node.
    public let id: String
    /// Milliseconds since 1970.
    public let time: Int64
    public private(set) var api = ""
    public private(set) var subject = ""
    /// Start of the condition in milliseconds since 1970; nil for a summary and a test.
    public private(set) var since: Int64?
    public private(set) var cause = ""
    /// The first failing paths, and the number of all.
    public private(set) var paths: [String] = []
    public private(set) var pathCount = 0
    public private(set) var unreported = 0
    public private(set) var isDrill = false
    /// Number of events beyond the limit, by kind.
    public private(set) var omitted: [(event: NotificationEvent, count: Int)] = []

    /// Maximum number of named paths, and maximum number of characters of a text.
    static let pathLimit = 5
    static let textLimit = 200

    /// - Parameter wall: milliseconds since 1970.
    public init(_ change: ConditionChange, from node: NotifyingNode, id: String, wall: Int64, isDrill: Bool) {
        (event, self.node, self.id, time) = (change.event, node, id, wall)
        (api, subject) = (Self.bounded(change.api), Self.bounded(change.subject))
        (since, cause, unreported) = (change.since, Self.bounded(change.cause), change.unreported)
        self.isDrill = isDrill
        guard change.event == .pathFailing else { return }
        (paths, pathCount) = (change.parts.prefix(Self.pathLimit).map(Self.bounded), change.parts.count)
    }

    public init(testFrom node: NotifyingNode, id: String, wall: Int64) { (event, self.node, self.id, time) = (.test, node, id, wall) }

    init(_ omitted: [(event: NotificationEvent, count: Int)], from node: NotifyingNode, id: String, wall: Int64) {
        (event, self.node, self.id, time) = (.summary, node, id, wall)
        self.omitted = omitted
    }

    public static func == (one: Notification, other: Notification) -> Bool { one.json == other.json }

    /// The text without control characters, shortened.
    static func bounded(_ text: String) -> String {
        let scalars = text.unicodeScalars
        var out = ""
        for scalar in scalars.prefix(textLimit) {
            let isShown = scalar.properties.generalCategory != .control && scalar.properties.generalCategory != .format
            out.unicodeScalars.append(isShown && scalar.value != 0x2028 && scalar.value != 0x2029 ? scalar : "?")
        }
        return scalars.count > textLimit ? out + "…" : out
    }

    // MARK: Text

    private var upstream: String { api.isEmpty ? "the upstream" : "the upstream of \(api)" }
    private var requests: String { api.isEmpty ? "requests" : "requests to \(api)" }
    private var because: String { cause.isEmpty ? "" : " (\(StateSentence.words(ofCause: cause)))" }
    private var span: String { NumberText.span(max(0, time - (since ?? time)) / 1_000) }

    /// One sentence, which begins with the name of the node.
    public var text: String {
        let more = unreported == 0 ? "" : "; this has happened \(unreported) more times since the last notification"
        return "\(node.name): \(words)\(more)\(isDrill ? " (faults are injected for a drill)" : "")"
    }

    private var words: String {
        switch event {
        case .upstreamDown: "\(upstream) is down\(because); stored responses are served, if there are any"
        case .upstreamUp: "\(upstream) is up again, after \(span)"
        case .rescuesBegan: "\(requests) are rescued with stored responses, because \(upstream) fails"
        case .rescuesEnded: "no \(requests) have been rescued for five minutes"
        case .pathFailing: pathWords
        case .pathRecovered: "no path of \(upstream) fails any more, after \(span)"
        case .storeUnwritable: "the store is not writable\(because): new responses are not stored"
        case .storeWritable: "the store is writable again, after \(span)"
        case .certificateExpiring: "the certificate \(subject) \(cause)"
        case .certificateRenewed: "the certificate \(subject) no longer expires soon, or is not used any more"
        case .fleetDisconnected: "this node is disconnected from its fleet\(because), and does not see the purges of other nodes"
        case .fleetConnected: "this node is connected to its fleet again, after \(span)"
        case .summary: summaryWords
        case .test: "this is a test of the notifications"
        }
    }

    private var pathWords: String {
        let more = pathCount - paths.count
        let names = paths.joined(separator: ", ") + (more > 0 ? " and \(NumberText.count(more)) more" : "")
        let count = NumberText.count(UInt64(pathCount), "path", "paths")
        return "\(count) of \(upstream) \(pathCount == 1 ? "fails" : "fail")\(because): \(names)"
    }

    private var summaryWords: String {
        let all = omitted.reduce(0) { $0 + $1.count }
        let kinds = omitted.map { "\($0.count) \($0.event.rawValue)" }.joined(separator: ", ")
        return "\(NumberText.count(UInt64(all), "further event was", "further events were")) not reported within an hour (\(kinds))"
    }

    // MARK: Forms

    /// Content of a generic webhook, and standard input of a command.
    public var json: [UInt8] {
        let text = { (text: String) -> JSONValue in text.isEmpty ? .null : .string(text) }
        let value: JSONValue = [
            "version": 1, "id": .string(id), "event": .string(event.rawValue), "time": .string(RFC3339.format(milliseconds: time)),
            "node": .string(node.name), "fleet_node": text(node.fleetNode), "api": text(api), "subject": text(subject),
            "since": since.map { .string(RFC3339.format(milliseconds: $0)) } ?? .null, "cause": text(cause),
            "paths": .array(paths.map { .string($0) }), "path_count": .integer(pathCount), "unreported": .integer(unreported),
            "drill": .bool(isDrill), "omitted": .object(omitted.map { .init($0.event.rawValue, .integer($0.count)) }),
            "text": .string(self.text),
        ]
        return value.serialized()
    }

    /// Content of a webhook of Slack, or of a compatible service. Escaped, so that no text becomes a link or a mention.
    var slack: [UInt8] {
        let escaped = text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
        let value: JSONValue = ["text": .string(escaped)]
        return value.serialized()
    }

    public func content(_ format: NotificationTarget.Format) -> [UInt8] { format == .slack ? slack : json }

    /// Variables of a command.
    public var environment: [(name: String, value: String)] {
        [
            ("CISTERN_EVENT", event.rawValue), ("CISTERN_ID", id), ("CISTERN_API", api), ("CISTERN_SUBJECT", subject),
            ("CISTERN_SINCE", since.map { RFC3339.format(milliseconds: $0) } ?? ""), ("CISTERN_CAUSE", cause), ("CISTERN_NODE", node.name),
            ("CISTERN_TEXT", text),
        ]
    }
}
