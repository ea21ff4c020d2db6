// Parses the engine's replies about the log. No reply is trusted.

import Engine
import Fleet

public struct InfoText: Sendable {
    public private(set) var values: [String: String] = [:]

    public init(_ text: [UInt8]) {
        for line in text.split(whereSeparator: { $0 == 0x0d || $0 == 0x0a }) {
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { continue }
            values[String(decoding: line[..<colon], as: UTF8.self)] = String(decoding: line[(colon + 1)...], as: UTF8.self)
        }
    }

    subscript(_ name: String) -> String? { values[name] }

    /// Version of the server if it is a Redis before 7.0; nil if it is newer or unknown. Valkey reports a compatible version of Redis.
    public var outdatedVersion: String? { Self.outdatedVersion(values) }

    public static func outdatedVersion(_ values: [String: String]) -> String? {
        guard values["valkey_version"] == nil, let version = values["redis_version"] else { return nil }
        return Int(version.prefix { $0 != "." }).flatMap { $0 < 7 ? version : nil }
    }

    public static func sentence(outdated version: String, _ server: EngineServer?) -> String {
        "\(server?.description ?? "the engine") is Redis \(version): Redis 7.0 or later, or Valkey, is required"
    }
}

extension FleetLog {
    static func epoch(_ reply: EngineReply) -> UInt64? {
        reply.text.flatMap { UInt64(String(decoding: $0, as: UTF8.self), radix: 16) }
    }

    /// Returns whether the key holds something other than an epoch.
    static func isNoEpoch(_ reply: EngineReply) -> Bool {
        switch reply {
        case .bytes: epoch(reply) == nil
        case .error(let text): text.starts(with: Array("WRONGTYPE".utf8))
        case .status, .integer, .nothing, .list, .failed: false
        }
    }

    static func time(_ reply: EngineReply) -> Int64? {
        guard let parts = reply.list, parts.count == 2, let seconds = number(parts[0]), let micros = number(parts[1]),
            (0..<1 << 40).contains(seconds), (0..<1_000_000).contains(micros)
        else { return nil }
        return seconds * 1_000 + micros / 1_000
    }

    /// Returns an identifier that differs between servers and changes each time a server becomes the primary.
    static func primary(_ server: InfoText, _ replication: InfoText) -> [UInt8] {
        Array((server["run_id"] ?? "").utf8) + Array((replication["master_replid"] ?? "").utf8)
    }

    static func replicas(_ replication: InfoText) -> Int { replication["connected_slaves"].flatMap { Int($0) }.map { max(0, $0) } ?? 0 }

    /// Age of an entry by the fleet's time, milliseconds.
    static func lag(of position: LogPosition, fleetNow: Int64?) -> Int64 {
        guard let fleetNow, let time = Int64(exactly: position.milliseconds) else { return 0 }
        return time < fleetNow ? fleetNow - max(0, time) : 0
    }

    private static func number(_ reply: EngineReply) -> Int64? {
        reply.integer ?? reply.text.flatMap { Int64(String(decoding: $0, as: UTF8.self)) }
    }

    /// Parses the reply to `XINFO STREAM`. A missing stream has no entries.
    static func stream(
        _ reply: EngineReply
    ) -> (last: LogPosition, first: LogPosition?, lastDeleted: LogPosition, count: UInt64, added: UInt64)? {
        if case .error(let text) = reply {
            return text.starts(with: Array("ERR no such key".utf8)) ? (.beginning, nil, .beginning, 0, 0) : nil
        }
        guard let pairs = reply.list else { return nil }
        var values: [String: EngineReply] = [:]
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            if let name = pairs[index].text { values[String(decoding: name, as: UTF8.self)] = pairs[index + 1] }
        }
        func position(_ name: String) -> LogPosition? { values[name]?.text.flatMap { LogPosition(text: $0) } }
        func count(_ name: String) -> UInt64? { values[name].flatMap(number).flatMap { UInt64(exactly: $0) } }
        guard let last = position("last-generated-id"), let length = count("length") else { return nil }
        let first = position("recorded-first-entry-id").flatMap { $0 == .beginning ? nil : $0 }
        return (last, first, position("max-deleted-entry-id") ?? .beginning, length, count("entries-added") ?? length)
    }

    static func entries(_ streams: [EngineReply]) -> [(position: LogPosition, fields: [LogField])]? {
        guard streams.count == 1, let pair = streams[0].list, pair.count == 2, let entries = pair[1].list else { return nil }
        var read: [(position: LogPosition, fields: [LogField])] = []
        for entry in entries {
            guard let parts = entry.list, parts.count == 2, let position = parts[0].text.flatMap({ LogPosition(text: $0) }) else {
                return nil
            }
            let words = (parts[1].list ?? []).map { $0.text ?? [] }
            read.append((position, stride(from: 0, to: words.count - 1, by: 2).map { (words[$0], words[$0 + 1]) }))
        }
        return read
    }
}
