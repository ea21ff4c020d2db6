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
        #expect(text.contains("nodes     \(words) written to the log, so that this node can read it, within the last hour"))
    }

    @Test(
        "pending purges are reported by reason",
        arguments: [
            ([:], "none is pending"),
            (["not_replicated": 2, "refused": 0], "pending: 2 not_replicated: told, and no replica of the engine has them yet"),
            (
                ["not_reached": 1, "not_replicated": 3],
                "pending: 1 not_reached: NOT told to other nodes, as the engine cannot be asked; 3 not_replicated: told, and no replica of the engine has them yet"
            ),
        ] as [(JSONValue, String)])
    func pending(reasons: JSONValue, words: String) {
        #expect(ShareStatus.text(["pending_reasons": reasons]).contains("purges    \(words)\n"))
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
                "127.0.0.1:1  named in share.servers, and not asked: the Cluster's map, read every 30 s, does not have it (it is away, has just come back,"
            ))
        let alone = ShareStatus.text([
            "servers": [["address": "10.0.0.1:1", "role": "alone"], ["address": "10.0.0.2:1", "role": "unlisted"]]
        ])
        #expect(alone.contains("10.0.0.2:1  named in share.servers, and not asked: several addresses have to be servers of one Cluster"))
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
                == "What other nodes purge is not seen since 2026-01-01T00:00:00Z (cistern share status says why).")
        #expect(StatusCommand.blindness(["seeing": false])?.hasPrefix("What other nodes purge is not seen (") == true)
    }
}
