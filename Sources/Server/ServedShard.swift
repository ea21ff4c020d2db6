// One shard, and what is served on it: each API, and each address. What is served changes as a whole, between two events of the loop.

import Downstream
import Reactor
import ReverseProxy
import Sharing
import Telemetry

/// `@unchecked Sendable` because it is touched on its loop only, and by the thread that makes it before the loop starts.
final class ServedShard: @unchecked Sendable {
    let shard: Shard
    private var apis: [ProxyShard] = []
    private var listeners: [(served: ServedListener, listener: Listener)] = []
    /// Those whose last requests are under way.
    private var retired: [ProxyShard] = []
    private var isRunning = false

    /// How often it is looked whether the last request has ended.
    private static let retiredInterval = Duration.seconds(1)

    /// What is made beside the loop, since it takes its time, and then put in its place.
    struct Prepared: Sendable {
        let serving: Serving
        /// On this shard, of the APIs that are new, or have other settings than before.
        let apis: [ProxyShard]
        /// nil where no address speaks TLS.
        let tls: ServerTLS.Prepared?
    }

    init(_ process: ProcessState, number: Int, time: any TimeSource) { shard = Shard(process, number: number, time: time) }

    func prepare(_ serving: Serving, besides former: Serving?, _ tls: ServerTLS.Prepared?) -> Prepared {
        let new = serving.apis.filter { api in !(former?.apis.contains { $0 === api } ?? false) }
        let made = new.map { api in
            let made = ProxyShard(api.state, on: shard)
            made.ownPages = serving.servesOwnPages ? serving.pages : nil
            made.challenges = serving.challenges
            return made
        }
        return Prepared(serving: serving, apis: made, tls: tls)
    }

    /// On its loop, or before that runs: from now on this is served.
    /// - Parameter onFailure: told of TLS handshakes that failed.
    func use(_ prepared: Prepared, onFailure: @escaping (HandshakeFailure, PeerAddress) -> Void) {
        shard.loop.assertOnLoop()
        let (serving, former) = (prepared.serving, apis)
        apis = serving.apis.compactMap { api in (prepared.apis + former).first { $0.shared === api.state } }
        shard.use(serving.process)
        if let new = prepared.tls, let tickets = serving.certificates?.tickets { use(new, tickets, onFailure) }
        if isRunning { for api in prepared.apis { api.start() } }
        if apis.count != former.count || !prepared.apis.isEmpty { for api in apis { api.forgetRepeated() } }
        for api in former where !apis.contains(where: { $0 === api }) { retire(api) }
        place(serving)
    }

    private func use(_ new: ServerTLS.Prepared, _ tickets: TicketKeys, _ onFailure: @escaping (HandshakeFailure, PeerAddress) -> Void) {
        if let tls = shard.connections.tls { return tls.use(new) }
        let tls = ServerTLS(new, tickets: tickets, loop: shard.loop)
        tls.onFailure = onFailure
        shard.connections.tls = tls
    }

    /// Those of the only one, or of several.
    private var receiver: any RequestReceiver { apis[0].isAlone ? apis[0] : APIReceiver(apis) }

    private func place(_ serving: Serving) {
        let clients = receiver
        let former = listeners
        listeners = serving.listeners.flatMap { served -> [(served: ServedListener, listener: Listener)] in
            let receiver: any RequestReceiver =
                served.isAdmin
                ? AdminReceiver(
                    shard: apis[0], interface: serving.interface, pages: serving.pages, address: served.address,
                    names: serving.certificates?.certificates.names) : clients
            let known = former.filter { $0.served === served }
            for one in known { one.listener.receiver = receiver }
            guard known.isEmpty else { return known }
            return served.sockets(ofShard: shard.number, of: max(1, serving.settings.shards)).map { socket in
                (
                    served,
                    Listener(
                        loop: shard.loop, socket: socket, settings: served.settings, connections: shard.connections, receiver: receiver,
                        isReserved: served.isAdmin)
                )
            }
        }
        for (served, listener) in former where !serving.listeners.contains(where: { $0 === served }) {
            // What still comes by it is for those who serve now.
            listener.receiver = served.isAdmin ? listener.receiver : clients
            let next = serving.listeners.first { $0.shares(served) }
            listener.retire(isKept: served.isHanded || next != nil, successor: next?.settings)
        }
        if isRunning { for (_, listener) in listeners { listener.start() } }
    }

    // MARK: What is served no more

    private func retire(_ api: ProxyShard) {
        api.retire()
        if retired.isEmpty { watchRetired() }
        retired.append(api)
    }

    private func watchRetired() {
        shard.loop.schedule(after: Self.retiredInterval) { [weak self] in
            guard let self else { return }
            for place in retired.indices.reversed() {
                // Whatever is under way holds it.
                guard isKnownUniquelyReferenced(&retired[place]) else { continue }
                retired.remove(at: place).close()
            }
            if !retired.isEmpty { watchRetired() }
        }
    }

    // MARK: Its life

    /// On its loop.
    func start() {
        isRunning = true
        shard.connections.start()
        shard.level?.start()
        for api in apis { api.start() }
        for (_, listener) in listeners { listener.start() }
    }

    /// On its loop: another process goes on with these. Who waits there is for that, and who is here hears that it ends.
    func leave(_ others: [ServedListener]) {
        for (served, listener) in listeners where others.contains(where: { $0 === served }) { listener.close() }
        listeners.removeAll { one in others.contains { $0 === one.served } }
        shard.connections.beginToDrain()
    }

    /// On its loop: stops accepting, and lets what runs finish. Its fetches go on: requests on other shards may wait for them.
    func finish(deadline: Duration, then: @escaping () -> Void) {
        finish(listeners[...]) { [self] in shard.connections.drain(deadline: deadline, then: then) }
    }

    /// On its loop, once no shard has a client any more.
    func close() {
        for api in apis + retired { api.close() }
        shard.level?.close()
    }

    /// One after the other.
    private func finish(_ listeners: ArraySlice<(served: ServedListener, listener: Listener)>, then: @escaping () -> Void) {
        guard let first = listeners.first else { return then() }
        first.listener.finish(isKept: first.served.isHanded) { self.finish(listeners.dropFirst(), then: then) }
    }

    /// On its loop.
    func forEachAPI(_ work: (ProxyShard) -> Void) { for api in apis { work(api) } }

    func addFigures(to snapshot: inout MetricsSnapshot) {
        shard.addFigures(to: &snapshot)
        shard.level?.addFigures(to: &snapshot)
        for api in apis + retired { api.addFigures(to: &snapshot) }
    }
}
