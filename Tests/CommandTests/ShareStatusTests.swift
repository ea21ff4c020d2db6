// What `cistern share status` makes of what a node knows.

import JSON
import Testing

@testable import cistern

@Suite("cistern share status, in words")
struct ShareStatusTests {
    @Test(
        "who has written to the log is counted by processes: a node that was restarted is two",
        arguments: [(1, "1 other process has"), (2, "2 other processes have")])
    func processes(count: Int, words: String) {
        #expect(ShareStatus.text(["nodes": .integer(count)]).contains("nodes     \(words) written to the log within the last hour"))
    }

    @Test("a server that the settings name and the Cluster does not list may be one of its own, by another address")
    func unlisted() {
        let text = ShareStatus.text([
            "servers": [
                ["address": "10.0.0.1:1", "role": "primary", "slots": 16_384], ["address": "127.0.0.1:1", "role": "unlisted"],
            ]
        ])
        #expect(
            text.contains("127.0.0.1:1  named in share.servers, and not asked: the Cluster does not have it now, or calls it otherwise"))
        let alone = ShareStatus.text([
            "servers": [["address": "10.0.0.1:1", "role": "alone"], ["address": "10.0.0.2:1", "role": "unlisted"]]
        ])
        #expect(alone.contains("10.0.0.2:1  named in share.servers, and not asked: another is the primary"))
    }
}
