// Tests of nodes that do not belong to a fleet despite its name, because they have another secret or upstream. Also tests entries that
// claim to be theirs.

import Addresses
import CacheStore
import Fleet
import ReverseProxy
import TestSupport
import Testing
import Upstream

@testable import Sharing

@Suite(
    "Nodes that do not belong to the fleet", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct OtherFleetTests {
    private static let elsewhere = String(repeating: "else", count: 8)

    @Test("a node with another secret is excluded: it appends nothing, reports why, and causes no misses in the fleet")
    func otherSecret() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            _ = try one.get("/a")
            #expect(try one.gave(1))
            #expect(try other.get("/a").text == "{\"n\":1}")
            let length = fleet.logLength
            let stranger = try fleet.join(secret: Self.elsewhere)
            #expect(try stranger.reaches("cistern_share_blind{cause=\"other_secret\"}", 1))
            let told = try stranger.purge("target=/a")
            #expect(told.status == 202 && told.text.contains("not_reached"))
            #expect(try stranger.get("/a").text == "{\"n\":2}")
            for node in [one, other] {
                #expect(try node.get("/a").text == "{\"n\":1}")
                #expect(try node.metric("cistern_share_seeing") == 1 && node.metric("cistern_share_log_entries_unopened_total") == 0)
            }
            #expect(fleet.logLength == length)
            // The stranger's view of the value does not affect the fleet's nodes.
            fleet.redis.direct.ask("DEL cistern:play:{log}:nodes")
            #expect(try eventually { fleet.redis.direct.ask("EXISTS cistern:play:{log}:nodes").hasPrefix(":1") })
            #expect(try stranger.metric("cistern_share_blind{cause=\"other_secret\"}") == 1 && one.metric("cistern_share_seeing") == 1)
        }
    }

    @Test("during secret rotation, nodes with the old, both and the new secret stay connected")
    func rotation() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let both = FleetPlay.secret + "\n" + Self.elsewhere
            let (former, first) = (try fleet.join(), try fleet.join(secret: both))
            #expect(try former.sees() && first.sees())
            let second = try fleet.join(secret: Self.elsewhere + "\n" + FleetPlay.secret)
            #expect(try second.sees())
            _ = try second.get("/a")
            _ = try first.get("/a")
            let text = try first.get("/a").text
            #expect(try second.purge("target=/a").status == 202)
            #expect(try eventually { try first.get("/a").text != text })
            // A node with only the former key cannot open entries sealed by the new key.
            #expect(try former.reaches("cistern_share_log_entries_unopened_total", 1))
            former.play.stop()
            let last = try fleet.join(secret: Self.elsewhere)
            #expect(try last.sees())
        }
    }

    @Test("a node with another upstream is excluded and exchanges no purges; a node with another API joins")
    func otherUpstream() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, _) = try fleet.pair()
            _ = try one.get("/a")
            let text = try one.get("/a").text
            let stranger = try fleet.join(proxy: { $0.upstream.basePath = "/v2" })
            #expect(try stranger.reaches("cistern_share_blind{cause=\"other_upstream\"}", 1))
            #expect(try stranger.purge("all=true").text.contains("not_reached"))
            #expect(try one.get("/a").text == text)
            let named = try fleet.join(proxy: { settings in
                var api = settings
                (api.apiName, api.scope.path) = ("b", Array("/b".utf8))
                api.upstream.basePath = "/v2"
                settings.apis = [api]
            })
            #expect(try named.sees())
        }
    }

    /// Gives the last entry of the log the ID of another key.
    private func alter(_ fleet: FleetPlay, id: String) throws {
        let script = """
            local entry = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
            local rest = redis.call('XRANGE', KEYS[1], '-', '+')
            local added = redis.call('XINFO', 'STREAM', KEYS[1])[12]
            redis.call('DEL', KEYS[1])
            for i = 1, #rest do
                local fields = rest[i][2]
                if i == #rest then for j = 1, #fields, 2 do if fields[j] == 'i' then fields[j + 1] = ARGV[1] end end end
                redis.call('XADD', KEYS[1], rest[i][1], unpack(fields))
            end
            redis.call('XSETID', KEYS[1], entry[1], 'ENTRIESADDED', added, 'MAXDELETEDID', '0-0')
            return added
            """
        let reply = fleet.redis.direct.ask(["EVAL", script, "1", "cistern:play:{log}", id].map { Array($0.utf8) })
        #expect(reply.hasPrefix(":"), "\(reply)")
    }

    @Test("the owner of Redis cannot hide a purge from an absent node by changing the entry's key ID")
    func alteredMeanwhile() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            _ = try other.get("/a")
            #expect(try other.get("/a").text == "{\"n\":1}")
            // The position is on the disk.
            _ = try one.purge("target=/none")
            #expect(try other.hasObeyed(fleet))
            other.play.stop()
            _ = try one.purge("target=/a")
            try alter(fleet, id: "0123abcd")
            try other.play.start()
            #expect(try other.sees())
            #expect(try other.get("/a").text != "{\"n\":1}")
        }
    }

    @Test("an entry sealed with a foreign key is reported and ignored; a forged entry with our key ID makes everything stale")
    func claimed() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            _ = try one.get("/a")
            #expect(try one.gave(1))
            #expect(try other.get("/a").text == "{\"n\":1}")
            _ = try one.purge("target=/none")
            #expect(try other.hasObeyed(fleet))
            let length = fleet.logLength
            func append(id: String) { fleet.redis.direct.ask("XADD cistern:play:{log} * k t i \(id) n 0000000000000001 s 1 v x") }
            append(id: "0123abcd")
            for node in [one, other] { #expect(try node.reaches("cistern_share_log_entries_foreign_total", 1)) }
            // The greeting of a node that had appended an entry. Without it, an altered entry of that node could go unnoticed.
            #expect(try eventually { fleet.logLength == length + 2 })
            #expect(try other.get("/a").text == "{\"n\":1}" && other.metric("cistern_share_log_entries_unopened_total") == 0)
            let own = try FleetSecrets(file: Array(FleetPlay.secret.utf8)).first.id
            append(id: String(decoding: own, as: UTF8.self))
            #expect(try other.reaches("cistern_share_log_entries_unopened_total", 1))
            #expect(try other.comes(to: "{\"n\":2}", "/a"))
        }
    }
}
