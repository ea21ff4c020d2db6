// The Cluster's slot map: read at the start, after a redirection, and while a server fails. One lookup runs at a time, at a limited rate.
// Each known server is tried once, connected ones first.

import Reactor

struct MapLookUp {
    var isCluster = false
    var isUnderWay = false
    /// Time of the last lookup in milliseconds of the loop's clock; nil if there was none.
    var last: Int64?
    /// Timer of the next lookup.
    var timer: LoopTimer?
    var candidates: [EngineServer] = []
    /// All servers of the last map.
    var known: [EngineServer] = []
    /// Why a server that replied has no map; nil if none replied.
    var failure: EngineFailure?
}

extension EngineClient {
    /// - Parameter server: tried last.
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
        askNextServer()
    }

    private func candidates(avoiding avoided: EngineServer?) -> [EngineServer] {
        let up = nodes.values.filter(\.isReady).map(\.server)
        var seen: Set<EngineServer> = []
        let all = ((map == nil ? [] : up) + settings.servers + lookUp.known).filter { seen.insert($0).inserted }
        return all.filter { $0 != avoided } + all.filter { $0 == avoided }
    }

    private func askNextServer() {
        guard !isClosed else { return }
        guard !lookUp.candidates.isEmpty else { return failLookUp() }
        let server = lookUp.candidates.removeFirst()
        counted.figures.mapLookUps += 1
        let patience = limits.probeMilliseconds
        sendToServer(server, [EngineCommand("CLUSTER", "SLOTS")], patienceMilliseconds: patience) { [self] in takeMap($0[0], from: server) }
    }

    public func refreshMap() {
        loop.assertOnLoop()
        if lookUp.isCluster { lookUpMap() }
    }

    /// Sends commands to this server, whatever slots it has. Redirections are not followed.
    /// - Parameter then: called once, on the loop, never during this call.
    public func sendToServer(
        _ server: EngineServer, _ commands: [EngineCommand], patienceMilliseconds patience: Int64, then: @escaping ([EngineReply]) -> Void
    ) {
        let now = loop.time.monotonicMilliseconds
        let call = EngineCall(EngineCommands(commands), deadline: now + patience, pinned: server) { [loop] replies in
            // Deferred, so that the callback never runs within the event that caused it.
            loop.atEndOfBatch { then(replies) }
        }
        route(call)
        if !call.isFinished { call.wait(in: line(patience), since: now) }
    }

    private func takeMap(_ reply: EngineReply, from server: EngineServer) {
        guard !isClosed, lookUp.isUnderWay else { return }
        switch reply {
        case .list:
            // A server without slots may have left the Cluster.
            guard let map = SlotMap(reply, from: server, limit: limits.servers), !map.primaries.isEmpty else { return askNextServer() }
            lookUp.isCluster = true
            adopt(map)
        case .error, .failed(.denied), .failed(.commandForbidden):
            // The server is not part of a Cluster, or CLUSTER is not permitted. Ignored once a Cluster is known.
            guard !lookUp.isCluster, nodes[server]?.isHandshakeDone == true else { return askNextServer() }
            if settings.servers.count == 1 { return adopt(SlotMap(single: server)) }
            // Without a Cluster, it is unknown which of several servers is the primary.
            lookUp.failure = reply.failure ?? .notCluster
            askNextServer()
        case .status, .integer, .bytes, .nothing, .failed: askNextServer()
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

    /// Handles a failed lookup. An existing map remains in use; calls that wait for the first map fail.
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

    func nodeIsUp(_ node: EngineNode) {
        if map == nil { lookUpMap() }
    }

    /// Looks up the map again, because another server may have the slots of the lost one.
    func nodeIsLost(_ node: EngineNode) {
        // Before the first map, the running lookup continues with the next server.
        if map != nil, lookUp.isCluster { lookUpMap(avoiding: node.server) }
    }
}
