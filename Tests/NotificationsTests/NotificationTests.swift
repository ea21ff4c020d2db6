// Tests the texts and contents of notifications, also with hostile paths and causes.

import JSON
import Testing

@testable import Notifications

@Suite("Contents of notifications")
struct NotificationTests {
    private static let node = NotifyingNode(name: "edge-1", fleetNode: "9af")

    private static func made(
        _ event: NotificationEvent, api: String = "", subject: String = "", cause: String = "", parts: [String] = [], unreported: Int = 0,
        isDrill: Bool = false
    ) -> Notification {
        let change = ConditionChange(
            event: event, api: api, subject: subject, since: 1_750_000_000_000, cause: cause, parts: parts, unreported: unreported)
        return Notification(change, from: node, id: "x-1", wall: 1_750_000_090_000, isDrill: isDrill)
    }

    @Test(
        "each event has a sentence",
        arguments: [
            (
                made(.upstreamDown, api: "orders", cause: "connection_refused"),
                "the upstream of orders is down (connection refused); stored responses are served, if there are any"
            ),
            (made(.upstreamUp), "the upstream is up again, after 1 min"),
            (
                made(.upstreamUp, unreported: 2, isDrill: true),
                """
                the upstream is up again, after 1 min; this has happened 2 more times since the last notification (faults are injected \
                for a drill)
                """
            ),
            (made(.pathFailing, parts: ["/a"]), "1 path of the upstream fails: /a"),
            (
                made(.pathFailing, cause: "timeout", parts: (1...12).map { "/\($0)" }),
                "12 paths of the upstream fail (timeout): /1, /2, /3, /4, /5 and 7 more"
            ),
            (made(.certificateExpiring, subject: "a.test", cause: "expires in 13 d"), "the certificate a.test expires in 13 d"),
            (Notification(testFrom: node, id: "t", wall: 0), "this is a test of the notifications"),
            (
                Notification([(.upstreamDown, 2), (.pathFailing, 10)], from: node, id: "s", wall: 0),
                "12 further events were not reported within an hour (2 upstream_down, 10 path_failing)"
            ),
        ])
    func sentences(_ notification: Notification, _ words: String) { #expect(notification.text == "edge-1: " + words) }

    @Test("every event has its own sentence")
    func distinct() {
        let texts = NotificationEvent.selectable.map { Self.made($0).text }
        #expect(Set(texts).count == texts.count)
    }

    @Test("the JSON has each documented field")
    func json() {
        let notification = Self.made(.pathFailing, api: "orders", cause: "timeout", parts: ["/a", "/b"])
        let value = JSONValue(notification.json)
        #expect(
            value == [
                "version": 1, "id": "x-1", "event": "path_failing", "time": "2025-06-15T15:08:10.000Z", "node": "edge-1",
                "fleet_node": "9af", "api": "orders", "subject": .null, "since": "2025-06-15T15:06:40.000Z", "cause": "timeout",
                "paths": ["/a", "/b"], "path_count": 2, "unreported": 0, "drill": false, "omitted": .object([]),
                "text": "edge-1: 2 paths of the upstream of orders fail (timeout): /a, /b",
            ])
    }

    @Test("text for Slack contains no mention, link or line break of a client")
    func slack() {
        let notification = Self.made(.pathFailing, parts: ["/<!channel>&<https://evil.test|x>\n/b\u{202e}"])
        let text = JSONValue(notification.content(.slack))?["text"]?.string
        #expect(text == "edge-1: 1 path of the upstream fails: /&lt;!channel&gt;&amp;&lt;https://evil.test|x&gt;?/b?")
    }

    @Test("long and many texts of clients and upstreams give a short notification")
    func bounded() {
        let long = String(repeating: "é\u{0}\"\\", count: 100_000)
        let notification = Self.made(
            .pathFailing, api: long, subject: long, cause: long, parts: (0..<4_096).map { "/\($0)" + long })
        #expect(notification.json.count < 16_384 && notification.content(.slack).count < 16_384)
        #expect(notification.paths.count == 5 && notification.pathCount == 4_096)
        #expect(notification.environment.allSatisfy { !$0.value.utf8.contains(0) })
    }

    @Test("a command gets the variables")
    func environment() {
        let variables = Dictionary(
            uniqueKeysWithValues: Self.made(.upstreamDown, api: "orders", cause: "timeout").environment.map { ($0.name, $0.value) })
        #expect(variables["CISTERN_EVENT"] == "upstream_down" && variables["CISTERN_API"] == "orders")
        #expect(variables["CISTERN_SINCE"] == "2025-06-15T15:06:40.000Z" && variables["CISTERN_NODE"] == "edge-1")
    }
}
