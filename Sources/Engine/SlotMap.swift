// The slots of a Cluster and their servers. Pure.

struct SlotMap: Equatable {
    private(set) var primaries: [EngineServer] = []
    private(set) var replicas: Set<EngineServer> = []
    /// Index in `primaries` of each slot; -1 for none.
    private var owners: [Int16]
    private var indexes: [EngineServer: Int16] = [:]

    init(single server: EngineServer) {
        primaries = [server]
        owners = [Int16](repeating: 0, count: KeySlot.count)
        indexes = [server: 0]
    }

    /// - Parameter reply: reply to CLUSTER SLOTS: lists of first slot, last slot, primary and replicas (host, port, more).
    /// - Returns: nil if the reply is not a slot map.
    init?(_ reply: EngineReply, from asked: EngineServer, limit: Int) {
        guard let ranges = reply.list else { return nil }
        owners = [Int16](repeating: -1, count: KeySlot.count)
        var covered = 0
        for range in ranges {
            guard let parts = range.list, parts.count >= 3, let first = parts[0].integer, let last = parts[1].integer, first >= 0,
                first <= last,
                last < KeySlot.count, let primary = Self.server(parts[2], by: asked), let index = index(of: primary, limit: limit)
            else { return nil }
            covered += Int(last - first) + 1
            guard covered <= KeySlot.count else { return nil }
            for slot in Int(first)...Int(last) { owners[slot] = index }
            for part in parts[3...] where replicas.count < limit { Self.server(part, by: asked).map { _ = replicas.insert($0) } }
        }
    }

    private static func server(_ reply: EngineReply, by asked: EngineServer) -> EngineServer? {
        guard let parts = reply.list, parts.count >= 2, let port = parts[1].integer else { return nil }
        let host = parts[0].text.map { String(decoding: $0, as: UTF8.self) } ?? ""
        return EngineServer(toldHost: host, port: port, by: asked)
    }

    private mutating func index(of server: EngineServer, limit: Int) -> Int16? {
        if let index = indexes[server] { return index }
        guard primaries.count < min(limit, Int(Int16.max)) else { return nil }
        primaries.append(server)
        indexes[server] = Int16(primaries.count - 1)
        return Int16(primaries.count - 1)
    }

    func slotCount(of server: EngineServer) -> Int { indexes[server].map { index in owners.count { $0 == index } } ?? 0 }

    func owner(of slot: Int) -> EngineServer? { ownerIndex(of: slot).map { primaries[$0] } }

    func ownerIndex(of slot: Int) -> Int? {
        let index = owners[slot]
        return index < 0 ? nil : Int(index)
    }

    /// Does nothing if there are too many servers.
    mutating func move(_ slot: Int, to server: EngineServer, limit: Int) {
        if let index = index(of: server, limit: limit) { owners[slot] = index }
    }
}

/// Slot of a key: CRC16 of the text between the first { and the next }, if there is any (redis.io, "Cluster specification": hash tags),
/// else of the whole key.
public enum KeySlot {
    public static let count = 16_384

    public static func of(_ key: [UInt8]) -> Int {
        key.withUnsafeBufferPointer { key in
            guard let open = key.firstIndex(of: UInt8(ascii: "{")), let close = key[(open + 1)...].firstIndex(of: UInt8(ascii: "}")),
                close > open + 1
            else { return Int(crc16(key)) % count }
            return Int(crc16(UnsafeBufferPointer(rebasing: key[(open + 1)..<close]))) % count
        }
    }

    /// CRC-16/XMODEM: polynomial 0x1021, initial value 0, not reflected.
    static func crc16(_ bytes: UnsafeBufferPointer<UInt8>) -> UInt16 {
        let table = table
        var crc: UInt16 = 0
        for byte in bytes { crc = crc << 8 ^ table[Int(UInt8(truncatingIfNeeded: crc >> 8) ^ byte)] }
        return crc
    }

    private static let table: [UInt16] = (0..<256).map { index in
        var value = UInt16(index) << 8
        for _ in 0..<8 { value = value & 0x8000 != 0 ? value << 1 ^ 0x1021 : value << 1 }
        return value
    }
}
