// Effects of a write at one node on the stored responses of other nodes.

import ReverseProxy
import TestSupport
import Testing

@testable import Sharing

@Suite(
    "Writes on all nodes", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct SharedWriteTests {
    @Test("a write at one node makes others ask the upstream, and is logged before its response is sent")
    func written() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            for number in 0..<5 {
                let target = "/\(number)"
                let first = try one.get(target)
                #expect(try one.gave(Double(number + 1)))
                #expect(try other.get(target).text == first.text)
                let before = fleet.logLength
                let write = try one.play.request("PUT", target, content: "{}")
                #expect(write.status == 200 && write["Cache-Status"]?.contains("nodes_not_told") == false)
                #expect(fleet.logLength > before)
                #expect(try eventually { try other.get(target).text != first.text })
                #expect(try one.get(target).text != first.text)
            }
            #expect(try one.metric("cistern_share_log_entries_appended_total") >= 5)
        }
    }

    @Test("a write answered by a login redirect makes other nodes' stored responses stale, and keeps them for rescue")
    func ambiguousWrite() throws {
        let origin = ScriptedOrigin { request in
            guard request.method == "GET" else { return [.send("HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n")] }
            return [.json("1", ["Cache-Control: max-age=600"])]
        }
        try FleetPlay.run(origin) { fleet in
            let (one, other) = try fleet.pair()
            #expect(try other.get("/a").text == "1")
            let before = fleet.logLength
            #expect(try one.play.request("PUT", "/a", content: "{}").status == 302)
            #expect(fleet.logLength > before)
            #expect(try other.hasObeyed(fleet))
            fleet.origin.down()
            let rescued = try other.get("/a")
            #expect(rescued.status == 200 && rescued.text == "1" && rescued["Cache-Status"]?.contains("detail=") == true)
        }
    }

    @Test("without Redis the response to a write is delayed only briefly, and the write is propagated later")
    func writtenWhileFrozen() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (_, other, text) = try fleet.writeWhileFrozen()
            fleet.redis.thaw()
            #expect(try eventually { try other.get("/a").text != text })
        }
    }
}
