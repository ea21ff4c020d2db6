// Which server has which slots. Pure.

struct SlotMap: Equatable {
    /// The servers that are primaries of something, each once.
    private(set) var primaries: [EngineServer] = []
    /// Replicas: they know the map, too.
    private(set) var replicas: Set<EngineServer> = []
    /// The place in `primaries` of each slot; -1: nobody's.
    private var owners: [Int16]
    private var places: [EngineServer: Int16] = [:]

    /// Of a server that is no Cluster's: it has all.
    init(single server: EngineServer) {
        primaries = [server]
        owners = [Int16](repeating: 0, count: KeySlot.count)
        places = [server: 0]
    }

    /// - Parameter reply: to CLUSTER SLOTS: lists of the first slot, the last, the primary, and replicas, each of these host, port, and more.
    /// - Returns: nil where that is not a map.
    init?(_ reply: EngineReply, from asked: EngineServer, limit: Int) {
        guard let ranges = reply.list else { return nil }
        owners = [Int16](repeating: -1, count: KeySlot.count)
        var covered = 0
        for range in ranges {
            guard let parts = range.list, parts.count >= 3, let first = parts[0].integer, let last = parts[1].integer, first >= 0,
                first <= last,
                last < KeySlot.count, let primary = Self.server(parts[2], by: asked), let place = place(of: primary, limit: limit)
            else { return nil }
            // Each slot once: no more work than there are slots.
            covered += Int(last - first) + 1
            guard covered <= KeySlot.count else { return nil }
            for slot in Int(first)...Int(last) { owners[slot] = place }
            for part in parts[3...] where replicas.count < limit { Self.server(part, by: asked).map { _ = replicas.insert($0) } }
        }
    }

    private static func server(_ reply: EngineReply, by asked: EngineServer) -> EngineServer? {
        guard let parts = reply.list, parts.count >= 2, let port = parts[1].integer else { return nil }
        let host = parts[0].text.map { String(decoding: $0, as: UTF8.self) } ?? ""
        return EngineServer(toldHost: host, port: port, by: asked)
    }

    private mutating func place(of server: EngineServer, limit: Int) -> Int16? {
        if let place = places[server] { return place }
        guard primaries.count < min(limit, Int(Int16.max)) else { return nil }
        primaries.append(server)
        places[server] = Int16(primaries.count - 1)
        return Int16(primaries.count - 1)
    }

    func slotCount(of server: EngineServer) -> Int { places[server].map { place in owners.count { $0 == place } } ?? 0 }

    func owner(of slot: Int) -> EngineServer? { ownerPlace(of: slot).map { primaries[$0] } }

    /// Its place in `primaries`.
    func ownerPlace(of slot: Int) -> Int? {
        let place = owners[slot]
        return place < 0 ? nil : Int(place)
    }

    /// - Returns: false where there are too many servers already.
    mutating func move(_ slot: Int, to server: EngineServer, limit: Int) -> Bool {
        guard let place = place(of: server, limit: limit) else { return false }
        owners[slot] = place
        return true
    }
}
