// Tests of the findings about a fleet's Redis servers, from facts that servers report.

import Engine
import Testing

@testable import cistern

@Suite("Findings of cistern check about Redis servers")
struct EngineFindingsTests {
    private static let sound = [
        "redis_version": "7.0.15", "maxmemory": "1000", "maxmemory_policy": "volatile-lfu", "role": "master", "connected_slaves": "1",
        "slave0": "ip=10.0.0.9,port=6380,state=online,offset=1,lag=0", "aof_enabled": "1",
    ]

    private static func server(_ number: UInt16) -> EngineServer { .host("10.0.0.1", port: number) }

    private static func facts(
        _ number: UInt16 = 1, _ role: EngineServerState.Role = .alone, _ info: [String: String] = [:],
        _ change: (inout EngineFacts) -> Void = { _ in }
    ) -> EngineFacts {
        var facts = EngineFacts(server(number), role)
        facts.info = sound.merging(info) { $1 }
        change(&facts)
        return facts
    }

    private static func findings(_ facts: [EngineFacts], slot: Int? = nil) -> EngineFindings {
        EngineFindings(facts, fleet: "shop", hasUser: true, log: (server(1), slot))
    }

    @Test("a sound Redis setup causes no warnings, and a note states the fleet log's location")
    func well() {
        let one = Self.findings([Self.facts()])
        #expect(one.mistakes.isEmpty && one.warnings.isEmpty)
        #expect(one.notes == ["The log of fleet shop is at 10.0.0.1:1 (replicas: 10.0.0.9:6380)."])
        let several = Self.findings(
            [Self.facts(1, .primary(slots: 8192)), Self.facts(2, .primary(slots: 8192)), Self.facts(3, .replica, ["role": "slave"])],
            slot: 12)
        #expect(several.mistakes.isEmpty && several.warnings.isEmpty)
        #expect(several.notes == ["The log of fleet shop is in slot 12, at 10.0.0.1:1 (replicas: 10.0.0.9:6380)."])
        for info in [["redis_version": "6.2.1", "valkey_version": "8.1.0"], ["redis_version": "7.2.4"], ["redis_version": "8.0.0"]] {
            let fine = Self.findings([Self.facts(1, .alone, info)])
            #expect(fine.mistakes.isEmpty && fine.warnings.isEmpty)
        }
    }

    struct Row: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let info: [String: String]
        let sentence: String

        init(_ testDescription: String, _ info: [String: String], _ sentence: String) {
            (self.testDescription, self.info, self.sentence) = (testDescription, info, sentence)
        }
    }

    @Test(
        "a warning names the misconfigured Redis server and the setting to change",
        arguments: [
            Row(
                "an eviction policy that may drop the log", ["maxmemory_policy": "allkeys-lru"],
                "maxmemory-policy is allkeys-lru at 10.0.0.1:2: Redis may evict the log"),
            Row("no eviction", ["maxmemory_policy": "noeviction"], "maxmemory-policy is noeviction at 10.0.0.1:2: "),
            Row("no memory limit", ["maxmemory": "0"], "maxmemory is not set at 10.0.0.1:2: "),
            Row("no replica", ["connected_slaves": "0"], "the server has no replica at 10.0.0.1:2: its responses are lost if it fails"),
            Row("no persistence", ["aof_enabled": "0"], "(appendonly no) at 10.0.0.1:2: "),
            Row("a replica disconnected from its primary", ["role": "slave", "master_link_status": "down"], "masterauth and masteruser"),
        ])
    func warned(_ row: Row) {
        let findings = Self.findings(
            [Self.facts(1, .primary(slots: 1)), Self.facts(2, .primary(slots: 1), row.info), Self.facts(3, .replica)], slot: 1)
        #expect(findings.mistakes.isEmpty)
        #expect(findings.warnings.count == 1 && findings.warnings[0].contains(row.sentence), "\(findings.warnings)")
    }

    @Test("a warning says that purges are answered with 202 if the fleet log's server has no replica")
    func noReplica() {
        for role in [EngineServerState.Role.alone, .primary(slots: 16_384)] {
            let warnings = Self.findings([Self.facts(1, role, ["connected_slaves": "0"])]).warnings
            #expect(warnings.count == 1 && warnings[0].contains("answered with 202"))
        }
    }

    @Test("denied access and missing permissions are errors; an unreachable server is only a warning")
    func mistakes() {
        let denied = Self.findings([Self.facts(), Self.facts(2, .replica) { $0.failure = .denied }])
        #expect(denied.mistakes.count == 1 && denied.warnings.isEmpty)
        #expect(denied.mistakes[0].hasPrefix("share.user: 10.0.0.1:2 rejects the user or the password"))
        #expect(Self.findings([Self.facts(1) { $0.failure = .untrusted }]).mistakes[0].hasPrefix("share.tls: 10.0.0.1:1 has a certificate"))
        let old = Self.findings(
            [Self.facts(1, .primary(slots: 1)), Self.facts(2, .primary(slots: 1), ["redis_version": "6.2.1"])], slot: 1)
        #expect(old.mistakes == ["share.servers: 10.0.0.1:2 is Redis 6.2.1: Redis 7.0 or later, or Valkey, is required"])
        let lacking = ["WAIT", "CLUSTER SLOTS"]
        let narrow = Self.findings([Self.facts { $0.forbidden = lacking }, Self.facts(2, .replica) { $0.forbidden = lacking }])
        #expect(narrow.mistakes.count == 1)
        #expect(narrow.mistakes[0].contains("at 10.0.0.1:1, 10.0.0.1:2 the user may not use WAIT, CLUSTER SLOTS"))
        let keyless = Self.findings([Self.facts { $0.isKeyForbidden = true }])
        #expect(keyless.mistakes.count == 1 && keyless.mistakes[0].contains("its ACL needs ~cistern:shop:*"))
        let gone = Self.findings([Self.facts(), Self.facts(2, .replica) { $0.failure = .unreachable }])
        #expect(gone.mistakes.isEmpty && gone.warnings == ["share.servers: 10.0.0.1:2 cannot be reached"])
        #expect(Self.findings([Self.facts { $0.failure = .timedOut }]).warnings.last?.contains("everything else works") == true)
    }

    @Test("if the fleet log's server is unreachable, a warning states the effect on purges")
    func lostLog() {
        let lost = Self.findings(
            [Self.facts(1, .primary(slots: 1)) { $0.failure = .unreachable }, Self.facts(2, .primary(slots: 1))], slot: 12)
        #expect(lost.mistakes.isEmpty && lost.notes.isEmpty)
        #expect(
            lost.warnings.last
                == "share.servers: the log of fleet shop is in slot 12, at 10.0.0.1:1, which does not respond. Until it or a replica does, no node reads purges of others"
        )
        // No server responds: reported once.
        #expect(Self.findings([Self.facts(1) { $0.failure = .unreachable }]).warnings.count == 2)
        // No further warnings in addition to the mistake.
        #expect(Self.findings([Self.facts { $0.failure = .denied }, Self.facts(2, .replica)]).warnings.isEmpty)
    }

    @Test("a warning reports that no server of the Redis Cluster has the fleet log's slot")
    func noServerHasLogSlot() {
        let nobodys = EngineFindings([Self.facts(1, .primary(slots: 1))], fleet: "shop", hasUser: true, log: (nil, 12))
        #expect(nobodys.warnings.count == 1 && nobodys.notes.isEmpty)
        #expect(
            nobodys.warnings[0].hasPrefix("share.servers: no server of the Cluster serves slot 12, which contains the log of fleet shop"))
    }

    @Test("notes state the number of Redis connections per node and the estimated number of responses in memory")
    func costs() {
        let facts = [
            Self.facts(1, .primary(slots: 8192)), Self.facts(2, .primary(slots: 8192)), Self.facts(3, .replica, ["role": "slave"]),
        ]
        func last(_ memory: String) -> String? {
            let some = facts.map { fact in
                var fact = fact
                fact.info["maxmemory"] = memory
                return fact
            }
            return EngineFindings(some, fleet: "shop", hasUser: true, log: (Self.server(1), 12), loops: 4).notes.last
        }
        #expect(last("5200000")?.hasPrefix("This node opens 10 connections to Redis") == true)
        #expect(last("5200000")?.hasSuffix("; its memory holds 2000 to 6500 responses of 4 KB.") == true)
        #expect(last("0")?.contains("memory") == false)
    }

    @Test("a node with another fleet secret is rejected with an error")
    func refused() {
        let findings = EngineFindings(
            [Self.facts()], fleet: "shop", hasUser: true, log: (Self.server(1), nil), isOtherSecret: true)
        #expect(findings.mistakes.count == 1 && findings.mistakes[0].hasPrefix("share.secret_file: fleet shop has another secret"))
        #expect(findings.warnings.isEmpty)
    }

    @Test("a note reports that the user may not read cluster-require-full-coverage")
    func fullCoverageUnknown() {
        func notes(_ isNeeded: Bool?) -> [String] {
            Self.findings([Self.facts(1, .primary(slots: 1), ["cluster_enabled": "1"]) { $0.needsFullCoverage = isNeeded }], slot: 1).notes
        }
        #expect(notes(false).count == 1 && notes(true).count == 1)
        #expect(notes(nil).count == 2 && notes(nil)[0].hasPrefix("cluster-require-full-coverage is unknown at 10.0.0.1:1, "))
        #expect(Self.findings([Self.facts()]).notes.count == 1)
        // An unreachable server does not count.
        let gone = Self.facts(2, .primary(slots: 1)) { ($0.failure, $0.info) = (.unreachable, [:]) }
        #expect(Self.findings([Self.facts(1, .primary(slots: 1)), gone], slot: 1).notes.count == 1)
    }

    @Test("a Redis server without a password causes a warning unless it is local and no user is configured")
    func open() {
        func warnings(_ server: EngineServer, hasUser: Bool) -> [String] {
            var facts = EngineFacts(server, .alone)
            (facts.info, facts.isOpenToAll) = (Self.sound, true)
            return EngineFindings([facts], fleet: "shop", hasUser: hasUser, log: nil).warnings
        }
        #expect(warnings(Self.server(1), hasUser: true)[0].contains("user default off"))
        #expect(warnings(Self.server(1), hasUser: false)[0].contains("share.password_file"))
        #expect(warnings(.host("127.0.0.1", port: 1), hasUser: true).count == 1)
        #expect(warnings(.host("127.0.0.1", port: 1), hasUser: false).isEmpty && warnings(.unix("/s"), hasUser: false).isEmpty)
    }

    @Test("warnings report full-coverage clusters and servers outside the Cluster")
    func cluster() {
        let full = Self.findings([Self.facts(1, .primary(slots: 16_384)) { $0.needsFullCoverage = true }])
        #expect(full.warnings.count == 1 && full.warnings[0].contains("cluster-require-full-coverage is yes at 10.0.0.1:1"))
        let stray = Self.findings([Self.facts(1, .primary(slots: 16_384)), Self.facts(2, .unlisted)])
        #expect(stray.warnings.count == 1 && stray.warnings[0].contains("not a server of the Cluster"))
        // The Cluster may list a server under another address than the settings; the process is identical.
        let renamed = Self.findings([Self.facts(1, .primary(slots: 16_384), ["run_id": "r1"]), Self.facts(2, .unlisted, ["run_id": "r1"])])
        #expect(renamed.warnings.isEmpty, "\(renamed.warnings)")
        let other = Self.findings([Self.facts(1, .primary(slots: 16_384), ["run_id": "r1"]), Self.facts(2, .unlisted, ["run_id": "r2"])])
        #expect(other.warnings.count == 1)
        let two = Self.findings([
            Self.facts(1, .unlisted) { $0.failure = .unreachable }, Self.facts(2, .unlisted), Self.facts(3, .unlisted),
        ])
        #expect(two.mistakes.count == 1)
        #expect(two.mistakes[0].hasPrefix("share.servers: 10.0.0.1:2 is not a Cluster, and share.servers has several"))
        let unmade = [Self.facts(1, .unlisted, ["cluster_enabled": "1"]), Self.facts(2, .unlisted, ["cluster_enabled": "1"])]
        #expect(Self.findings(unmade).mistakes.isEmpty, "slots may be assigned later")
    }
}
