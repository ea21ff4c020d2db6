// What of the engine between nodes a fleet depends on: `check` asks it, and says what to set.

import Dispatch
import Engine
import Locking
import Reactor
import Sharing

enum SharingStartCheck {
    /// Of one command at a time.
    private static let patience: Int64 = 2_000

    static func warnings(_ fleet: FleetSettings?) -> [String] {
        guard let fleet else { return [] }
        let loop = EventLoop(label: "cistern.check.share")
        // Written by the loop.
        let found = Mutex<[String]>([])
        let done = DispatchSemaphore(value: 0)
        loop.execute {
            let client = EngineClient(loop: loop, fleet.engine)
            client.start()
            ask(client, fleet) { warnings in
                found.withLock { $0 = warnings }
                client.close()
                loop.stop { done.signal() }
            }
        }
        loop.start()
        done.wait()
        return found.withLock { $0 }
    }

    private static func ask(_ client: EngineClient, _ fleet: FleetSettings, then: @escaping ([String]) -> Void) {
        let log = fleet.logKey
        let questions = ["server", "memory", "persistence", "replication"].map {
            EngineCommand(["INFO", $0].map { Array($0.utf8) }, key: log)
        }
        client.sendAll(questions, patienceMilliseconds: patience) { replies in
            if let failure = replies.lazy.compactMap(\.failure).first {
                return then(["share.servers: \(sentence(failure)). Until it can be asked nothing is shared, and nothing else is lost"])
            }
            var info: [String: String] = [:]
            for reply in replies { info.merge(InfoText(reply.text ?? []).values) { $1 } }
            let warnings = warnings(info)
            askRights(client, fleet.checkedCommands[...]) { then(warnings + $0) }
        }
    }

    private static func sentence(_ failure: EngineFailure) -> String {
        switch failure {
        case .denied: "the engine does not know the user or the password, or does not let it use INFO"
        case .untrusted: "the engine's certificate is not trusted (share.tls.ca_file), or it does not trust ours"
        case .clusterDown: "the Cluster says that it is down: some of its slots are nobody's"
        case .loading: "the engine is reading its data in"
        default: "the engine cannot be asked (\(failure.rawValue))"
        }
    }

    /// - Parameter info: as INFO tells it.
    static func warnings(_ info: [String: String]) -> [String] {
        var warnings: [String] = []
        let version = info["valkey_version"] ?? info["redis_version"] ?? "unknown"
        if info["valkey_version"] == nil, (Int(version.prefix { $0 != "." }) ?? 0) < 7 {
            warnings.append("the engine is Redis \(version): 7.0 at least is needed, or Valkey")
        }
        let policy = info["maxmemory_policy"] ?? "noeviction"
        let isBounded = (info["maxmemory"] ?? "0") != "0"
        if policy.hasPrefix("allkeys") {
            warnings.append("maxmemory-policy is \(policy): it may drop the log, and with it purges. Set volatile-lfu")
        } else if policy == "noeviction", isBounded {
            warnings.append(
                "maxmemory-policy is noeviction: once memory is full nothing is shared any more, purges neither. Set volatile-lfu")
        }
        if !isBounded {
            warnings.append(
                "maxmemory is not set: what is shared grows until share.keep ends it. Set maxmemory, and maxmemory-policy volatile-lfu")
        }
        let hasReplica = (Int(info["connected_slaves"] ?? "0") ?? 0) > 0
        if !hasReplica {
            warnings.append(
                "the engine has no replica: purges are answered with 202, and those of its last second are lost if it is lost with its disk"
            )
        }
        if info["aof_enabled"] != "1", !hasReplica {
            warnings.append(
                "the engine keeps nothing on its disk (appendonly no): after its restart all copies of all nodes count as stale")
        }
        return warnings.map { "share.servers: \($0)" }
    }

    /// Each command that is used, on keys of the fleet that nobody else has.
    private static func askRights(_ client: EngineClient, _ commands: ArraySlice<CheckedCommand>, then: @escaping ([String]) -> Void) {
        guard let first = commands.first else { return then([]) }
        client.send(first.command, patienceMilliseconds: patience) { reply in
            askRights(client, commands.dropFirst()) { rest in
                guard reply.failure == .denied else { return then(rest) }
                let line = "the ACL line in Configuration/Sharing.md"
                then(["share.user: the engine does not let this user use \(first.name) (see \(line))"] + rest)
            }
        }
    }
}
