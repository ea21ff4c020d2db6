// The Cluster's map: asked for when the client starts, when a server names another, and while one cannot be reached. One look-up at a time, and only so
// often: each server that is known is tried once, those that are up first.

import Reactor

/// What is known of the map, and the look-up that is under way.
struct MapLookUp {
    var isCluster = false
    var isUnderWay = false
    /// In milliseconds of the loop's clock; nil: never.
    var last: Int64?
    /// The next one, where it was wanted too soon.
    var timer: LoopTimer?
    /// Who is still to be tried.
    var candidates: [EngineServer] = []
    /// All that the last map told of.
    var known: [EngineServer] = []
    /// Why a server that replied has no map; nil if none replied.
    var failure: EngineFailure?
}

extension EngineClient {
    /// - Parameter server: who is wrong, or gone: it is tried last.
    func lookUpMap(avoiding server: EngineServer? = nil) {
        guard !isClosed, !lookUp.isUnderWay, lookUp.timer == nil else { return }
        let now = loop.time.monotonicMilliseconds
        let wait = lookUp.last.map { limits.mapMilliseconds - (now - $0) } ?? 0
        guard wait > 0 else { return beginLookUp(avoiding: server) }
        lookUp.timer = loop.schedule(after: .milliseconds(wait)) { [self] in
            lookUp.timer = nil
            lookUpMap(avoiding: server)
        }
    }

    private func beginLookUp(avoiding server: EngineServer?) {
        lookUp.isUnderWay = true
        lookUp.last = loop.time.monotonicMilliseconds
        (lookUp.candidates, lookUp.failure) = (candidates(avoiding: server), nil)
        askNext()
    }

    /// Each once.
    private func candidates(avoiding avoided: EngineServer?) -> [EngineServer] {
        let up = nodes.values.filter(\.isReady).map(\.server)
        var seen: Set<EngineServer> = []
        let all = ((map == nil ? [] : up) + settings.servers + lookUp.known).filter { seen.insert($0).inserted }
        return all.filter { $0 != avoided } + all.filter { $0 == avoided }
    }

    private func askNext() {
        guard !isClosed else { return }
        guard !lookUp.candidates.isEmpty else { return failLookUp() }
        let server = lookUp.candidates.removeFirst()
        counted.figures.mapLookUps += 1
        let patience = limits.probeMilliseconds
        askServer(server, [EngineCommand("CLUSTER", "SLOTS")], patienceMilliseconds: patience) { [self] in takeMap($0[0], from: server) }
    }

    /// Where there is a Cluster, asks it anew who has what.
    public func refreshMap() {
        loop.assertOnLoop()
        if lookUp.isCluster { lookUpMap() }
    }

    /// Asks this one server, whatever is whose, and tells what it says: also that another has the key.
    /// - Parameter then: once, on the loop, and not from within this call.
    public func askServer(
        _ server: EngineServer, _ commands: [EngineCommand], patienceMilliseconds patience: Int64, then: @escaping ([EngineReply]) -> Void
    ) {
        let now = loop.time.monotonicMilliseconds
        let call = EngineCall(EngineCommands(commands), deadline: now + patience, pinned: server) { [loop] replies in
            // Not from within what told of it.
            loop.atEndOfBatch { then(replies) }
        }
        route(call)
        if !call.isFinished { call.wait(in: line(patience), since: now) }
    }

    private func takeMap(_ reply: EngineReply, from server: EngineServer) {
        guard !isClosed, lookUp.isUnderWay else { return }
        switch reply {
        case .list:
            // One that has no slots knows nothing, or is no member any more.
            guard let map = SlotMap(reply, from: server, limit: limits.servers), !map.primaries.isEmpty else { return askNext() }
            lookUp.isCluster = true
            adopt(map)
        case .error, .failed(.denied), .failed(.commandForbidden):
            // No Cluster, or nobody may ask for one. In a Cluster that was known it says nothing.
            guard !lookUp.isCluster, nodes[server]?.isGreeted == true else { return askNext() }
            if settings.servers.count == 1 { return adopt(SlotMap(single: server)) }
            // Nothing tells which of several single servers is the primary of all nodes.
            lookUp.failure = reply.failure ?? .notCluster
            askNext()
        case .status, .integer, .bytes, .nothing, .failed: askNext()
        }
    }

    private func adopt(_ map: SlotMap) {
        lookUp.isUnderWay = false
        lookUp.candidates = []
        self.map = map
        lookUp.known = Array((map.primaries + map.replicas).prefix(limits.servers))
        keepOnly(Set(map.primaries))
        for server in map.primaries { node(server)?.connect() }
        judge()
        release { route($0) }
    }

    /// None of them told. What was known stays; who waits for the first map waits no longer.
    private func failLookUp() {
        lookUp.isUnderWay = false
        keepOnly(Set(map?.primaries ?? settings.servers))
        guard map == nil else { return }
        let failure = lookUp.failure ?? settings.servers.lazy.compactMap { self.nodes[$0]?.lastFailure }.first ?? .unreachable
        release { finish($0, with: failure) }
    }

    private func release(_ use: (EngineCall) -> Void) {
        let released = held
        held = []
        for call in released where !call.isFinished { use(call) }
    }

    /// Its connection has come up, or its breaker has closed.
    func nodeIsUp(_ node: EngineNode) {
        if map == nil { lookUpMap() }
    }

    /// Perhaps another has its slots by now.
    func nodeIsLost(_ node: EngineNode) {
        // Before there is a map the look-up that is under way goes on to the next; later ones begin when a server is up.
        if map != nil, lookUp.isCluster { lookUpMap(avoiding: node.server) }
    }
}
