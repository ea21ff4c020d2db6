// What of the engine between nodes a fleet depends on: `check` asks each of its servers. What is said of it is `EngineFindings`.

import Dispatch
import Engine
import Locking
import Reactor
import Sharing

enum SharingStartCheck {
    /// nil where nothing is shared.
    /// - Parameter loops: event loops, each of which has a connection to each server with responses.
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

    /// Milliseconds that a start waits for the engine.
    private static let startPatience: Int64 = 1_000

    /// Why `serve` does not start: what no node could share with, and nobody mends while it runs. nil: nothing is known of that, as the engine may be away.
    static func refusal(_ fleet: FleetSettings?) -> String? {
        guard let fleet else { return nil }
        return onLoop { loop, then in
            let client = EngineClient(loop: loop, fleet.engine)
            let question = EngineCommand(["INFO", "server"].map { Array($0.utf8) }, key: fleet.logKey)
            client.send(question, patienceMilliseconds: startPatience) { reply in
                let server = client.server(forKey: fleet.logKey)
                let sentence: String? =
                    if reply.failure == .notCluster {
                        "the engine \(EngineFailure.notCluster.sentence(fleet: fleet.name))"
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

    /// - Parameter ask: called on a loop of its own, until it calls `then`.
    private static func onLoop<Found: Sendable>(
        _ ask: @escaping @Sendable (_ loop: EventLoop, _ then: @escaping (Found?) -> Void) -> Void
    ) -> Found? {
        let loop = EventLoop(label: "cistern.check.share")
        // Written by the loop.
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

/// Touched on its loop only.
private final class EngineQuestions {
    private let fleet: FleetSettings
    private let loops: Int
    /// None of this node's secrets is the fleet's.
    private var isOtherSecret = false
    private let client: EngineClient
    /// Says no password.
    private let stranger: EngineClient
    private var facts: [EngineFacts] = []
    /// Answers that are still to come.
    private var missing = 0
    private var then: ((EngineFindings) -> Void)?

    /// Of what is asked of one server at a time, milliseconds.
    private static let patience: Int64 = 2_000

    init(_ fleet: FleetSettings, _ loop: EventLoop, loops: Int) {
        (self.fleet, self.loops) = (fleet, loops)
        client = EngineClient(loop: loop, fleet.engine)
        var open = fleet.engine
        (open.username, open.passwordFile) = (nil, nil)
        stranger = EngineClient(loop: loop, open)
    }

    func close() {
        client.close()
        stranger.close()
    }

    /// The first question finds out who is there.
    func ask(then: @escaping (EngineFindings) -> Void) {
        self.then = then
        client.sendAll([EngineCommand(["INFO", "server"].map { Array($0.utf8) }, key: fleet.logKey)], patienceMilliseconds: Self.patience) {
            [self] _ in
            // One for who goes on here.
            missing = 1
            for one in client.servers { ask(one.server, one.role) }
            end()
        }
    }

    private func ask(_ server: EngineServer, _ role: EngineServerState.Role) {
        guard !facts.contains(where: { $0.server == server }) else { return }
        let place = facts.count
        facts.append(EngineFacts(server, role))
        let topics = ["server", "memory", "persistence", "replication", "cluster"]
        ask(server, topics.map { EngineCommand("INFO", $0) }) { [self] replies in
            if let failure = failure(replies, of: server) {
                facts[place].failure = failure
                return
            }
            if replies.contains(where: { $0.failure == .commandForbidden }) { facts[place].forbidden.append("INFO") }
            for reply in replies { facts[place].info.merge(InfoText(reply.text ?? []).values) { $1 } }
            // A Cluster's map has none that has not got any data yet.
            for replica in facts[place].replicas where role != .replica { ask(replica, .replica) }
            askRights(place)
            askWhoElse(place)
        }
    }

    private func askRights(_ place: Int) {
        let (server, role) = (facts[place].server, facts[place].role)
        let isCluster = client.isCluster || facts[place].isClusterServer
        let commands = fleet.checkedCommands(isCluster: isCluster) { key in role == .replica || client.server(forKey: key) == server }
        ask(server, commands.map(\.command)) { [self] replies in
            for (command, reply) in zip(commands, replies) {
                switch reply.failure {
                case .commandForbidden: facts[place].forbidden.append(command.name)
                case .keyForbidden: facts[place].isKeyForbidden = true
                default: break
                }
            }
        }
        guard isCluster else { return }
        ask(server, [EngineCommand("CONFIG", "GET", "cluster-require-full-coverage")]) { [self] replies in
            facts[place].needsFullCoverage = replies[0].list?.last?.text.map { $0 == Array("yes".utf8) }
        }
    }

    private func askWhoElse(_ place: Int) {
        // Who has a certificate is somebody.
        guard fleet.engine.tls?.certificate == nil else { return }
        missing += 1
        stranger.askServer(facts[place].server, [EngineCommand("PING")], patienceMilliseconds: Self.patience) { [self] replies in
            if case .status = replies[0] { facts[place].isOpenToAll = true }
            end()
        }
    }

    private func ask(_ server: EngineServer, _ commands: [EngineCommand], then: @escaping ([EngineReply]) -> Void) {
        missing += 1
        client.askServer(server, commands, patienceMilliseconds: Self.patience) { [self] replies in
            then(replies)
            end()
        }
    }

    /// Why it cannot be asked at all.
    private func failure(_ replies: [EngineReply], of server: EngineServer) -> EngineFailure? {
        guard let failure = replies.first?.failure, failure != .commandForbidden else { return nil }
        return failure == .breakerOpen ? client.openFailure(of: server) ?? failure : failure
    }

    private func end() {
        missing -= 1
        if missing == 0 { readLog() }
    }

    /// The last question: whether the fleet's other nodes have this one's secret.
    private func readLog() {
        guard facts.contains(where: { $0.failure == nil }) else { return tell(nil) }
        client.sendAll([fleet.logEnd, fleet.admissionQuestion], patienceMilliseconds: Self.patience) { [self] replies in
            isOtherSecret = fleet.isOtherSecret(replies[1])
            guard let reading = fleet.logReading(replies[0]) else { return tell(nil) }
            client.sendAll([reading], patienceMilliseconds: Self.patience) { [self] in tell(fleet.sample($0[0])) }
        }
    }

    private func tell(_ sample: LogSample?) {
        let log = (client.server(forKey: fleet.logKey), client.isCluster ? KeySlot.of(fleet.logKey) : nil)
        let hasUser = fleet.engine.passwordFile != nil
        let loops = client.servers.isEmpty ? 0 : loops
        then?(
            EngineFindings(facts, fleet: fleet.name, hasUser: hasUser, log: log, sample: sample, isOtherSecret: isOtherSecret, loops: loops)
        )
        then = nil
    }
}
