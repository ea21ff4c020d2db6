// Queries the Redis servers of a fleet, for `check` and for the start of `serve`. `EngineFindings` evaluates the replies.

import Dispatch
import Engine
import Reactor
import Sharing

enum SharingStartCheck {
    /// nil if nothing is shared.
    /// - Parameter loops: number of event loops, each of which has a connection to each server with responses.
    static func findings(_ fleet: FleetSettings?, loops: Int) -> EngineFindings? {
        guard let fleet else { return nil }
        return onLoop { loop, then in
            let asking = EngineQuestions(fleet, loop, loops: loops)
            asking.ask { findings in
                asking.close()
                then(findings)
            }
        }
    }

    /// Milliseconds that a start waits for the Redis server.
    private static let startPatience: Int64 = 1_000

    /// Why `serve` must not start: a defect that makes sharing impossible until an operator repairs it; nil if none is known. A server that
    /// does not respond is no such defect.
    static func refusal(_ fleet: FleetSettings?) -> String? {
        guard let fleet else { return nil }
        return onLoop { loop, then in
            let client = EngineClient(loop: loop, fleet.engine)
            let question = EngineCommand(["INFO", "server"].map { Array($0.utf8) }, key: fleet.logKey)
            client.send(question, patienceMilliseconds: startPatience) { reply in
                let server = client.server(forKey: fleet.logKey)
                let sentence: String? =
                    if reply.failure == .notCluster {
                        "the server \(EngineFailure.notCluster.sentence(fleet: fleet.name))"
                    } else {
                        InfoText(reply.text ?? []).outdatedVersion.map { InfoText.sentence(outdated: $0, server) }
                    }
                loop.atEndOfBatch {
                    client.close()
                    then(sentence.map { "share.servers: \($0)" })
                }
            }
        }
    }

    /// Blocks until `ask` has called `then`.
    /// - Parameter ask: called on a new event loop.
    private static func onLoop<Found: Sendable>(
        _ ask: @escaping @Sendable (_ loop: EventLoop, _ then: @escaping (Found?) -> Void) -> Void
    ) -> Found? {
        let loop = EventLoop(label: "cistern.check.share")
        // Written by the loop's thread.
        let found = Mutex<Found?>(nil)
        let done = DispatchSemaphore(value: 0)
        loop.execute {
            ask(loop) { result in
                found.withLock { $0 = result }
                loop.stop { done.signal() }
            }
        }
        loop.start()
        done.wait()
        return found.withLock { $0 }
    }
}

/// Confined to its event loop.
private final class EngineQuestions {
    private let fleet: FleetSettings
    private let loops: Int
    private let client: EngineClient
    /// Connects without a password.
    private let unauthenticated: EngineClient
    private var facts: [EngineFacts] = []
    /// Number of outstanding replies.
    private var missing = 0
    private var then: ((EngineFindings) -> Void)?

    /// Timeout of a query to one server, in milliseconds.
    private static let patience: Int64 = 2_000

    init(_ fleet: FleetSettings, _ loop: EventLoop, loops: Int) {
        (self.fleet, self.loops) = (fleet, loops)
        client = EngineClient(loop: loop, fleet.engine)
        var open = fleet.engine
        (open.username, open.passwordFile) = (nil, nil)
        unauthenticated = EngineClient(loop: loop, open)
    }

    func close() {
        client.close()
        unauthenticated.close()
    }

    /// Queries all servers. The first query discovers them.
    func ask(then: @escaping (EngineFindings) -> Void) {
        self.then = then
        client.sendAll([EngineCommand(["INFO", "server"].map { Array($0.utf8) }, key: fleet.logKey)], patienceMilliseconds: Self.patience) {
            [self] _ in
            // One pending reply for this function itself.
            missing = 1
            for one in client.servers { ask(one.server, one.role) }
            end()
        }
    }

    private func ask(_ server: EngineServer, _ role: EngineServerState.Role) {
        guard !facts.contains(where: { $0.server == server }) else { return }
        let index = facts.count
        facts.append(EngineFacts(server, role))
        let topics = ["server", "memory", "persistence", "replication", "cluster"]
        ask(server, topics.map { EngineCommand("INFO", $0) }) { [self] replies in
            if let failure = failure(replies, of: server) {
                facts[index].failure = failure
                return
            }
            if replies.contains(where: { $0.failure == .commandForbidden }) { facts[index].forbidden.append("INFO") }
            for reply in replies { facts[index].info.merge(InfoText(reply.text ?? []).values) { $1 } }
            // The map of a Cluster omits replicas that have no data yet.
            for replica in facts[index].replicas where role != .replica { ask(replica, .replica) }
            checkRights(index)
            checkOtherAccess(index)
        }
    }

    private func checkRights(_ index: Int) {
        let (server, role) = (facts[index].server, facts[index].role)
        let isCluster = client.isCluster || facts[index].isClusterServer
        let commands = fleet.checkedCommands(isCluster: isCluster) { key in role == .replica || client.server(forKey: key) == server }
        ask(server, commands.map(\.command)) { [self] replies in
            for (command, reply) in zip(commands, replies) {
                switch reply.failure {
                case .commandForbidden where command.name == CheckedCommand.expiry: facts[index].isExpiryForbidden = true
                case .commandForbidden: facts[index].forbidden.append(command.name)
                case .keyForbidden: facts[index].isKeyForbidden = true
                default: break
                }
            }
        }
        guard isCluster else { return }
        ask(server, [EngineCommand("CONFIG", "GET", "cluster-require-full-coverage")]) { [self] replies in
            facts[index].needsFullCoverage = replies[0].list?.last?.text.map { $0 == Array("yes".utf8) }
        }
    }

    private func checkOtherAccess(_ index: Int) {
        // A client with a certificate is authenticated without a password.
        guard fleet.engine.tls?.certificate == nil else { return }
        missing += 1
        unauthenticated.sendToServer(facts[index].server, [EngineCommand("PING")], patienceMilliseconds: Self.patience) { [self] replies in
            if case .status = replies[0] { facts[index].isOpenToAll = true }
            end()
        }
    }

    private func ask(_ server: EngineServer, _ commands: [EngineCommand], then: @escaping ([EngineReply]) -> Void) {
        missing += 1
        client.sendToServer(server, commands, patienceMilliseconds: Self.patience) { [self] replies in
            then(replies)
            end()
        }
    }

    /// Why the server cannot be queried; nil if it can.
    private func failure(_ replies: [EngineReply], of server: EngineServer) -> EngineFailure? {
        guard let failure = replies.first?.failure, failure != .commandForbidden else { return nil }
        return failure == .breakerOpen ? client.openFailure(of: server) ?? failure : failure
    }

    private func end() {
        missing -= 1
        if missing == 0 { readLog() }
    }

    /// Reads the log, to find out whether the fleet's other nodes have this node's secret.
    private func readLog() {
        guard facts.contains(where: { $0.failure == nil }) else { return finish() }
        client.send(fleet.admissionQuestion, patienceMilliseconds: Self.patience) { [self] in finish(isOtherSecret: fleet.isOtherSecret($0))
        }
    }

    private func finish(isOtherSecret: Bool = false) {
        let log = (client.server(forKey: fleet.logKey), client.isCluster ? KeySlot.of(fleet.logKey) : nil)
        let hasUser = fleet.engine.passwordFile != nil
        let loops = client.servers.isEmpty ? 0 : loops
        then?(
            EngineFindings(facts, fleet: fleet.name, hasUser: hasUser, log: log, isOtherSecret: isOtherSecret, loops: loops)
        )
        then = nil
    }
}
