// Tests of the output of `cistern share status`.

import JSON
import Testing

@testable import cistern

@Suite("Output of cistern share status")
struct ShareStatusTests {
    @Test(
        "nodes are counted as other processes that wrote to the log within the last hour",
        arguments: [(1, "1 other process has"), (2, "2 other processes have")])
    func processes(count: Int, words: String) {
        let text = ShareStatus.text(["nodes": .integer(count)])
        #expect(text.contains("nodes     \(words) written readable log entries within the last hour"))
    }

    @Test(
        "pending purges are reported by reason",
        arguments: [
            ([:], "none is pending"),
            (
                ["not_replicated": 2, "refused": 0],
                "pending: 2 not_replicated: other nodes notified, but no Redis replica has the entries yet"
            ),
            (
                ["not_reached": 1, "not_replicated": 3],
                "pending: 1 not_reached: other nodes NOT notified, because Redis cannot be reached; 3 not_replicated: other nodes notified, but no Redis replica has the entries yet"
            ),
        ] as [(JSONValue, String)])
    func pending(reasons: JSONValue, words: String) {
        #expect(ShareStatus.text(["pending_reasons": reasons]).contains("purges    \(words)\n"))
    }

    @Test("rejected responses are reported with the cause")
    func rejected() {
        let text = ShareStatus.text(["offers_rejected": "command_forbidden"])
        #expect(text.contains("responses of this node are NOT shared: Redis denies the user a required command (cistern check"))
        #expect(!ShareStatus.text(["offers_rejected": .null]).contains("NOT shared"))
    }

    @Test("a configured server that the Cluster does not list is reported with possible causes")
    func unlisted() {
        let text = ShareStatus.text([
            "servers": [
                ["address": "10.0.0.1:1", "role": "primary", "slots": 16_384], ["address": "127.0.0.1:1", "role": "unlisted"],
            ]
        ])
        #expect(
            text.contains(
                "127.0.0.1:1  in share.servers, but not used: it is not in the Cluster's slot map, read every 30 s: it is down,"
            ))
        let alone = ShareStatus.text([
            "servers": [["address": "10.0.0.1:1", "role": "alone"], ["address": "10.0.0.2:1", "role": "unlisted"]]
        ])
        #expect(alone.contains("10.0.0.2:1  in share.servers, but not used: several addresses must be servers of one Cluster"))
        let only = ShareStatus.text(["servers": [["address": "10.0.0.2:1", "role": "unlisted", "failure": "loading"]]])
        #expect(only.contains("10.0.0.2:1  in share.servers, not used: it ") && !only.contains("Cluster"), "\(only)")
    }

    @Test("a purge that some nodes cannot decrypt is reported")
    func unread() {
        #expect(Purge.secretNote(["unopened": 0]) == nil && Purge.secretNote([:]) == nil)
        #expect(Purge.secretNote(["unopened": 3])?.contains("a node of this fleet has another share.secret_file") == true)
    }

    @Test("cistern status reports when a node cannot read the fleet log, and nothing otherwise")
    func blind() {
        #expect(StatusCommand.blindness(["seeing": true]) == nil && StatusCommand.blindness([:]) == nil)
        #expect(
            StatusCommand.blindness(["seeing": false, "blind_since": "2026-01-01T00:00:00Z"])
                == "Purges of other nodes cannot be read since 2026-01-01T00:00:00Z (see cistern share status).")
        #expect(StatusCommand.blindness(["seeing": false])?.hasPrefix("Purges of other nodes cannot be read (") == true)
    }
}
