// Evaluates the state of the fleet's Redis servers: what prevents sharing, and what to configure. Pure.

import Engine
import Sharing

/// What one server reports about itself.
struct EngineFacts {
    let server: EngineServer
    let role: EngineServerState.Role
    /// Why the server could not be queried; nil if it responded.
    var failure: EngineFailure?
    /// Values of INFO by name; empty if unknown.
    var info: [String: String] = [:]
    /// Commands that the ACL denies to the user.
    var forbidden: [String] = []
    /// Whether the ACL denies `CheckedCommand.expiry`.
    var isExpiryForbidden = false
    /// Whether the user may use the commands, but not with the fleet's keys.
    var isKeyForbidden = false
    /// Whether clients without a password have access.
    var isOpenToAll = false
    /// cluster-require-full-coverage; nil if unknown.
    var needsFullCoverage: Bool?

    init(_ server: EngineServer, _ role: EngineServerState.Role) { (self.server, self.role) = (server, role) }

    /// Identifies the server process, whatever its address; nil if unknown.
    var process: String? { info["run_id"] }
    var isClusterServer: Bool { info["cluster_enabled"] == "1" }
    var isPrimary: Bool { info["role"] == "master" }
    var hasReplica: Bool { (Int(info["connected_slaves"] ?? "0") ?? 0) > 0 }
    var hasPolicy: String { info["maxmemory_policy"] ?? "noeviction" }
    var isBounded: Bool { (info["maxmemory"] ?? "0") != "0" }

    /// Addresses of a primary's replicas, from lines such as slave0:ip=127.0.0.1,port=6380,state=online,…
    var replicas: [EngineServer] {
        info.filter { $0.key.hasPrefix("slave") && $0.key.dropFirst(5).allSatisfy(\.isNumber) }.sorted { $0.key < $1.key }.compactMap {
            line in
            let parts = line.value.split(separator: ",").map { $0.split(separator: "=", maxSplits: 1) }
            func value(_ name: String) -> String? { parts.first { $0.count == 2 && $0[0] == name }.map { String($0[1]) } }
            guard let host = value("ip"), let port = value("port").flatMap({ UInt16($0) }), port > 0 else { return nil }
            return .host(host, port: port)
        }
    }
}

struct EngineFindings {
    /// Mistakes prevent sharing. Warnings may be temporary, or have a cost. Notes are informational.
    private(set) var mistakes: [String] = []
    private(set) var warnings: [String] = []
    private(set) var notes: [String] = []

    private let facts: [EngineFacts]
    private let fleet: String

    /// - Parameters:
    ///   - fleet: `share.fleet`.
    ///   - hasUser: whether the settings contain a user or a password.
    ///   - log: server of the fleet log (nil if none), and its slot in a Cluster; nil if nothing is known about the servers.
    ///   - isOtherSecret: whether the fleet uses another secret.
    ///   - loops: number of this node's event loops; 0 omits connections and memory.
    init(
        _ facts: [EngineFacts], fleet: String, hasUser: Bool, log: (server: EngineServer?, slot: Int?)?, isOtherSecret: Bool = false,
        loops: Int = 0
    ) {
        (self.facts, self.fleet) = (Self.known(facts), fleet)
        noteFailures()
        noteRights()
        noteMemory()
        noteLosses(log?.server)
        noteCluster()
        let open = facts.filter { $0.isOpenToAll && (hasUser || !$0.server.isOnThisMachine) }
        let remedy = hasUser ? "user default off" : "a separate user (share.user, share.password_file)"
        warn(
            open, "Redis requires no password (the user default is on)",
            "any client that reaches it can delete all its data. Set requirepass, or \(remedy)")
        // Without permission to read the slots, a server of a Cluster looks like a standalone server.
        if let log, log.slot != nil || !facts.contains(where: \.isClusterServer) { noteLog(log.server, log.slot) }
        if isOtherSecret {
            mistakes.append(
                "share.secret_file: fleet \(fleet) has another secret, so this node could share nothing with it. If this secret is right, delete the key cistern:\(fleet):{log}:nodes in Redis"
            )
        }
        if loops > 0, !isAllLost { noteCosts(loops) }
    }

    /// Approximate size of a record of a 4 KB response: compressed to a third, and uncompressed.
    private static let (compressedBytes, plainBytes) = (1_600, 5_200)

    private mutating func noteCosts(_ loops: Int) {
        let asked = facts.filter { $0.role != .replica && $0.role != .unlisted && $0.failure == nil }
        let memory = asked.compactMap { Int($0.info["maxmemory"] ?? "") }.reduce(0, +)
        let responses = [Self.plainBytes, Self.compressedBytes].map { memory / $0 }
        let capacity = memory > 0 ? "; its memory holds \(responses[0]) to \(responses[1]) responses of 4 KB" : ""
        notes.append(
            "This node opens \(2 + loops * max(1, asked.count)) connections to Redis: two for the log, and one per event loop and server with responses\(capacity)."
        )
    }

    /// Removes servers that are listed under a second address, as shown by their process.
    private static func known(_ facts: [EngineFacts]) -> [EngineFacts] {
        let listed = Set(facts.filter { $0.role != .unlisted }.compactMap(\.process))
        return facts.filter { one in one.role != .unlisted || !(one.process.map(listed.contains) ?? false) }
    }

    private var isAllLost: Bool { facts.allSatisfy { $0.failure != nil } }

    private func names(_ some: [EngineFacts]) -> String { some.map(\.server.description).sorted().joined(separator: ", ") }

    private mutating func warn(_ some: [EngineFacts], _ finding: String, _ effect: String) {
        if !some.isEmpty { warnings.append("share.servers: \(finding) at \(names(some)): \(effect)") }
    }

    // MARK: Permissions

    private mutating func noteFailures() {
        for one in facts.sorted(by: { $0.server.description < $1.server.description }) {
            guard let failure = one.failure else { continue }
            let line = "\(one.server) \(failure.sentence(fleet: fleet))"
            switch failure {
            case .denied: mistakes.append("share.user: \(line)")
            case .untrusted: mistakes.append("share.tls: \(line)")
            case .noDatabase: mistakes.append("share.servers: \(line)")
            default: warnings.append("share.servers: \(line)")
            }
        }
        if isAllLost, mistakes.isEmpty {
            warnings.append("share.servers: until Redis is reachable, nothing is shared; everything else works")
        }
    }

    private mutating func noteRights() {
        let keyless = facts.filter(\.isKeyForbidden)
        if !keyless.isEmpty {
            mistakes.append(
                "share.fleet: at \(names(keyless)) the user may not access the keys of this fleet: its ACL needs ~cistern:\(fleet):*")
        }
        warn(
            facts.filter(\.isExpiryForbidden), "the user may not use \(CheckedCommand.expiry)",
            "a value in place of a lease delays misses by cache.collapse_wait. Add +pttl to its ACL")
        // One line for all servers with equal permissions.
        for lacking in Set(facts.map(\.forbidden)).sorted(by: { $0.count > $1.count }) where !lacking.isEmpty {
            let some = facts.filter { $0.forbidden == lacking }
            mistakes.append(
                "share.user: at \(names(some)) the user may not use \(lacking.joined(separator: ", ")) (Configuration/Guides/Several-Nodes.md has the complete ACL line)"
            )
        }
    }

    // MARK: Data loss

    private mutating func noteMemory() {
        let described = facts.filter { !$0.info.isEmpty }
        for one in described {
            guard let version = InfoText.outdatedVersion(one.info) else { continue }
            mistakes.append("share.servers: \(InfoText.sentence(outdated: version, one.server))")
        }
        for policy in Set(described.map(\.hasPolicy)).sorted() where policy.hasPrefix("allkeys") {
            warn(
                described.filter { $0.hasPolicy == policy }, "maxmemory-policy is \(policy)",
                "Redis may evict the log, and purges with it. Set volatile-lfu")
        }
        warn(
            described.filter { $0.isBounded && $0.hasPolicy == "noeviction" },
            "maxmemory-policy is noeviction", "once memory is full, neither responses nor purges are shared. Set volatile-lfu"
        )
        warn(
            described.filter { !$0.isBounded },
            "maxmemory is not set", "memory use grows until share.keep expires entries. Set maxmemory, and maxmemory-policy volatile-lfu"
        )
    }

    private mutating func noteLosses(_ log: EngineServer?) {
        let described = facts.filter { !$0.info.isEmpty }
        let alone = described.filter { $0.isPrimary && !$0.hasReplica }
        warn(
            alone.filter { $0.role == .alone || $0.server == log }, "the log has no replica",
            "purges are answered with 202, and the last second of purges is lost if the server loses its disk")
        warn(
            alone.filter { $0.role != .alone && $0.role != .unlisted && $0.server != log }, "the server has no replica",
            "its responses are lost if it fails")
        warn(
            described.filter { $0.info["aof_enabled"] != "1" }, "persistence is disabled (appendonly no)",
            "if it restarts before a failover, it and its replicas are empty. For the log's server, all responses of all nodes then become stale"
        )
        let cutOff = described.filter { $0.info["role"] == "slave" && $0.info["master_link_status"] == "down" }
        warn(
            cutOff, "a replica is not connected to its primary",
            "this is normal for some seconds after its start; otherwise check its masterauth and masteruser")
    }

    private mutating func noteCluster() {
        warn(
            facts.filter { $0.needsFullCoverage == true }, "cluster-require-full-coverage is yes",
            "if one part of the Cluster is lost, nothing is shared. Set it to no")
        let unknown = facts.filter { $0.isClusterServer && $0.failure == nil && $0.needsFullCoverage == nil }
        if !unknown.isEmpty {
            notes.append(
                "cluster-require-full-coverage is unknown at \(names(unknown)), because the user may not use CONFIG GET. It must be no: otherwise nothing is shared once one part is lost."
            )
        }
        let isCluster = facts.contains { if case .primary = $0.role { true } else { false } }
        let outside = facts.filter { $0.role == .unlisted && $0.failure == nil && !$0.info.isEmpty }
        if isCluster {
            warn(outside, "an address is not a server of the Cluster", "it is not used")
        } else if let one = outside.first(where: { !$0.isClusterServer }) {
            mistakes.append("share.servers: \(one.server) \(EngineFailure.notCluster.sentence(fleet: fleet))")
        }
    }

    private mutating func noteLog(_ server: EngineServer?, _ slot: Int?) {
        guard let server else {
            if let slot {
                warnings.append(
                    "share.servers: no server of the Cluster serves slot \(slot), which contains the log of fleet \(fleet). Until one does, no node reads purges of others"
                )
            }
            return
        }
        let location = slot.map { "is in slot \($0), at" } ?? "is at"
        let holder = facts.first { $0.server == server }
        guard let failure = holder?.failure else {
            let replicas = holder?.replicas.map(\.description).joined(separator: ", ") ?? ""
            notes.append("The log of fleet \(fleet) \(location) \(server) (replicas: \(replicas.isEmpty ? "none" : replicas)).")
            return
        }
        guard !isAllLost, failure != .denied, failure != .untrusted else { return }
        warnings.append(
            "share.servers: the log of fleet \(fleet) \(location) \(server), which does not respond. Until it or a replica does, no node reads purges of others"
        )
    }
}

extension EngineServer {
    /// Whether the server is reachable from this machine only.
    fileprivate var isOnThisMachine: Bool {
        switch self {
        case .unix: true
        case .host(let name, _): name == "localhost" || name == "::1" || name.hasPrefix("127.")
        }
    }
}
