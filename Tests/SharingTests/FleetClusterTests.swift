// Tests of nodes that share through a Cluster: records are on all of its servers, the log is on one, which may fail.

import ResponseCache
import TestSupport
import Testing

@Suite(
    "Sharing through a Redis Cluster", .slow, .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct FleetClusterTests {
    private static let targets = (0..<20).map { "/a/\($0)" }

    /// One node stores all targets, and the other finds them.
    private func fill(_ fleet: FleetPlay, _ one: FleetMember, _ other: FleetMember) throws {
        for target in Self.targets { _ = try one.get(target) }
        #expect(try one.gave(Double(Self.targets.count)))
        for target in Self.targets { #expect(try other.get(target)["Cache-Status"]?.contains("; hit") == true, "\(target)") }
        #expect(fleet.origin.requests.count == Self.targets.count)
    }

    @Test("records are found on every server of the Cluster, and purges are applied")
    func spread() throws {
        let servers = try RedisProcess.cluster()
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = (try fleet.join(at: [servers[0].port]), try fleet.join(at: [servers[1].port, servers[2].port]))
            #expect(try one.sees() && other.sees())
            try fill(fleet, one, other)
            for server in servers { #expect(!server.direct.ask("DBSIZE").hasPrefix(":0")) }
            let text = try other.get("/a/1").text
            #expect(try other.play.request("PUT", "/a/1", content: "{}").status == 200)
            #expect(try eventually { try one.get("/a/1").text != text })
            #expect(try one.purge("prefix=/a/").status == 202)
            for target in Self.targets { #expect(try eventually { try other.get(target).status == 200 && fleet.asked(target) >= 2 }) }
        }
    }

    @Test("after a failover of the log's server, acknowledged purges are applied and the fleet recovers by itself")
    func failover() throws {
        let owner = try Self.owner(of: "cistern:play:{log}")
        let servers = try RedisProcess.cluster(replicaOf: owner)
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let ports = servers.map(\.port)
            let (one, other) = (try fleet.join(at: ports), try fleet.join(at: ports))
            #expect(try one.sees() && other.sees())
            try fill(fleet, one, other)
            #expect(try eventually { try one.purge("target=/none").status == 200 })
            #expect(try one.purge("target=/a/0").status == 200)
            servers[owner].die()
            let answer = try one.purge("target=/a/1")
            #expect([200, 202].contains(answer.status))
            // Clients are not affected.
            for target in Self.targets { #expect(try one.get(target).status == 200 && other.get(target).status == 200) }
            #expect(try eventually { try fleet.asked("/a/0") >= 2 && other.get("/a/0").text != "{\"n\":1}" })
            #expect(try eventually { try other.get("/a/1").text != "{\"n\":2}" })
            #expect(try one.sees() && other.sees())
            for node in [one, other] {
                for gap in ["epoch", "trimmed", "lost_entries"] {
                    #expect(try node.metric("cistern_share_gaps_total{cause=\"\(gap)\"}") == 0)
                }
            }
            _ = try other.purge("target=/a/2")
            #expect(try eventually { try one.get("/a/2").text != "{\"n\":3}" })
            #expect(servers[3].direct.ask("PING").contains("PONG"))
        }
    }

    /// Index of the primary, of three, that has a key.
    private static func owner(of key: String) throws -> Int {
        let alone = try RedisProcess(isCluster: true)
        let slot = Int(alone.direct.ask("CLUSTER KEYSLOT \(key)").dropFirst().prefix { $0.isNumber }) ?? 0
        return [5_460, 10_922].firstIndex { slot <= $0 } ?? 2
    }
}
