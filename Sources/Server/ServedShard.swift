// One shard with the APIs and listeners that it serves. They are replaced as a whole, between two events of the loop.

import Downstream
import Figures
import Reactor
import ResponseCache
import ReverseProxy
import Sharing

/// `@unchecked Sendable` because it is used on its loop only, and before the loop starts by the thread that creates it.
final class ServedShard: @unchecked Sendable {
    let shard: Shard
    /// nil if there is no fleet.
    let fleet: FleetLevel?
    private var apis: [ProxyShard] = []
    private var listeners: [(served: ServedListener, listener: Listener)] = []
    /// Replaced APIs with active requests.
    private var retired: [ProxyShard] = []
    private var isRunning = false

    /// Interval between checks whether the last request of a replaced API has ended.
    private static let retiredInterval = Duration.seconds(1)

    /// Parts that are created off the event loop, because this takes long, and are then installed on it.
    struct Prepared: Sendable {
        let serving: Serving
        /// This shard's part of each API that is new or has changed.
        let apis: [ProxyShard]
        /// nil if no address uses TLS.
        let tls: ServerTLS.Prepared?
    }

    init(_ process: ProcessState, number: Int, _ node: FleetNode?, time: any TimeSource) {
        let loop = EventLoop(label: "cistern.shard.\(number)", time: time)
        fleet = node.map { FleetLevel($0, on: loop) }
        shard = Shard(process, number: number, on: loop, level: fleet ?? NoFleetStorage.instance)
    }

    func prepare(_ serving: Serving, besides former: Serving?, _ tls: ServerTLS.Prepared?) -> Prepared {
        let new = serving.apis.filter { api in !(former?.apis.contains { $0 === api } ?? false) }
        let made = new.map { api in
            ProxyShard(api.state, on: shard, OwnSources(serving.servesOwnPages ? serving.pages : nil, serving.challenges))
        }
        return Prepared(serving: serving, apis: made, tls: tls)
    }

    /// Serves the prepared parts from now on. Must be called on the shard's event loop, or before it runs.
    /// - Parameter onFailure: called for each failed TLS handshake.
    func use(_ prepared: Prepared, onFailure: @escaping (HandshakeFailure, PeerAddress) -> Void) {
        shard.loop.assertOnLoop()
        let (serving, former) = (prepared.serving, apis)
        apis = serving.apis.compactMap { api in (prepared.apis + former).first { $0.apiState === api.state } }
        shard.use(serving.process)
        if let new = prepared.tls, let tickets = serving.certificates?.tickets { use(new, tickets, onFailure) }
        if isRunning { for api in prepared.apis { api.start() } }
        if apis.count != former.count || !prepared.apis.isEmpty { for api in apis { api.forgetRepeated() } }
        for api in former where !apis.contains(where: { $0 === api }) { retire(api) }
        updateListeners(serving)
    }

    private func use(_ new: ServerTLS.Prepared, _ tickets: TicketKeys, _ onFailure: @escaping (HandshakeFailure, PeerAddress) -> Void) {
        if let tls = shard.connections.tls { return tls.use(new) }
        let tls = ServerTLS(new, tickets: tickets, loop: shard.loop)
        tls.onFailure = onFailure
        shard.connections.tls = tls
    }

    /// The single API itself, or a receiver that selects one of several.
    private var receiver: any RequestReceiver { apis[0].isAlone ? apis[0].entry : APIReceiver(apis.map(\.entry)) }

    private func updateListeners(_ serving: Serving) {
        let clients = receiver
        let former = listeners
        listeners = serving.listeners.flatMap { served -> [(served: ServedListener, listener: Listener)] in
            let receiver: any RequestReceiver =
                served.isAdmin
                ? AdminReceiver(
                    entry: apis[0].entry, interface: serving.interface, pages: serving.pages, address: served.address, apis: serving.apis,
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
            // Requests on connections of a replaced listener are handled by the current APIs.
            listener.receiver = served.isAdmin ? listener.receiver : clients
            let next = serving.listeners.first { $0.shares(served) }
            listener.retire(isKept: served.isActivated || next != nil, successor: next?.settings)
        }
        if isRunning { for (_, listener) in listeners { listener.start() } }
    }

    // MARK: Replaced APIs

    private func retire(_ api: ProxyShard) {
        api.retire()
        if retired.isEmpty { watchRetired() }
        retired.append(api)
    }

    private func watchRetired() {
        shard.loop.schedule(after: Self.retiredInterval) { [weak self] in
            guard let self else { return }
            for index in retired.indices.reversed() {
                // Each active request holds a reference to its API.
                guard isKnownUniquelyReferenced(&retired[index]), retired[index].isUnused() else { continue }
                retired.remove(at: index).close()
            }
            if !retired.isEmpty { watchRetired() }
        }
    }

    // MARK: Start and end

    /// Must be called on the shard's event loop.
    func start() {
        isRunning = true
        shard.connections.start()
        fleet?.start()
        for api in apis { api.start() }
        for (_, listener) in listeners { listener.start() }
    }

    /// Stops accepting on listeners that another process continues with, and ends connections gracefully. Waiting connections are left to
    /// that process. Must be called on the shard's event loop.
    func stopAccepting(_ others: [ServedListener]) {
        for (served, listener) in listeners where others.contains(where: { $0 === served }) { listener.close() }
        listeners.removeAll { one in others.contains { $0 === one.served } }
        shard.connections.beginToDrain()
    }

    /// Stops accepting, and completes active requests. Fetches continue, because requests on other shards may wait for them. Must be called
    /// on the shard's event loop.
    func finish(deadline: Duration, then: @escaping () -> Void) {
        finish(listeners[...]) { [self] in shard.connections.drain(deadline: deadline, then: then) }
    }

    /// Must be called on the shard's event loop once no shard has a client.
    func close() {
        for api in apis + retired { api.close() }
        fleet?.close()
    }

    /// Ends the listeners one after the other.
    private func finish(_ listeners: ArraySlice<(served: ServedListener, listener: Listener)>, then: @escaping () -> Void) {
        guard let first = listeners.first else { return then() }
        first.listener.finish(isKept: first.served.isActivated) { self.finish(listeners.dropFirst(), then: then) }
    }

    /// Must be called on the shard's event loop.
    func forEachAPI(_ work: (ProxyShard) -> Void) { for api in apis { work(api) } }

    func addFigures(to snapshot: inout MetricsSnapshot) {
        shard.addFigures(to: &snapshot)
        fleet?.addFigures(to: &snapshot)
        for api in apis + retired { api.addFigures(to: &snapshot) }
    }
}
