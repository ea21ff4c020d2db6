// A fleet of whole proxies in this process, with one scripted origin and real Redis servers. Each proxy has its own store and clock. Tests
// wait for metrics, responses and requests at the origin.

import CacheStore
import Engine
import Fleet
import Glibc
import JSON
import Reactor
import ResponseCache
import ReverseProxy
import Sharing
import TestSupport
import Testing

/// The machine's clocks, with a shifted wall clock.
final class ShiftedTime: TimeSource {
    /// Milliseconds. Shared by the test and the node's threads.
    private let ahead = Mutex<Int64>(0)

    var wallMilliseconds: Int64 { SystemTime.shared.wallMilliseconds + ahead.withLock { $0 } }
    var monotonicMilliseconds: Int64 { SystemTime.shared.monotonicMilliseconds }

    /// Sets the wall clock forward.
    func shift(by duration: Duration) { ahead.withLock { $0 += duration.wholeMilliseconds } }
}

/// One node.
final class FleetMember {
    let play: ProxyPlay
    let time: ShiftedTime

    init(_ play: ProxyPlay, _ time: ShiftedTime) { (self.play, self.time) = (play, time) }

    func get(_ target: String, _ fields: [(String, String)] = []) throws -> TestResponse { try play.get(target, fields) }

    func metric(_ name: String) throws -> Double { try play.metric(name) ?? 0 }

    /// Whether an explanation of one of the last exchanges begins with this text.
    func explains(_ beginning: String) throws -> Bool {
        let told = JSONValue(try play.admin("GET", "/-/why?last=100").content)?["exchanges"]?.array ?? []
        return told.contains { $0["explanation"]?.array?.contains { $0.string?.hasPrefix(beginning) == true } == true }
    }

    /// Number of pending purges. Read from one page, because their causes may change meanwhile.
    func pendingPurges() throws -> Double {
        let lines = try play.get("/metrics").text.split(separator: "\n").filter { $0.hasPrefix("cistern_share_pending_purges{") }
        return lines.reduce(0) { $0 + (Double($1.split(separator: " ").last ?? "") ?? 0) }
    }

    func pendingPurges(_ reason: LogWriter.Pending) throws -> Double {
        try metric("cistern_share_pending_purges{reason=\"\(reason.rawValue)\"}")
    }

    /// Whether a metric reaches this value within 30 seconds.
    func reaches(_ name: String, _ value: Double) throws -> Bool { try eventually { try metric(name) >= value } }

    /// Waits until the node is in sync and may share records.
    func sees() throws -> Bool {
        guard try eventually({ try metric("cistern_share_seeing") == 1 }) else { return false }
        // A request in this millisecond could count as older.
        let since = time.wallMilliseconds
        return try eventually { time.wallMilliseconds > since + 1 }
    }

    func isDisconnected() throws -> Bool { try eventually { try metric("cistern_share_seeing") == 0 } }

    /// Whether the engine has this number of the node's responses.
    func gave(_ count: Double) throws -> Bool { try reaches("cistern_shared_offers_total{outcome=\"sent\"}", count) }

    /// Number of the engine's replies to look-ups of this node's requests.
    var replies: Double { get throws { try metric("cistern_share_round_trip_seconds_count") } }

    /// Repeats the request until the response is this one. Each attempt may cause a request at the origin.
    func comes(to text: String, _ target: String, _ fields: [(String, String)] = []) throws -> Bool {
        try eventually { try get(target, fields).text == text }
    }

    var applied: Double { get throws { try metric("cistern_share_log_entries_applied_total") } }

    /// Whether the node has applied the whole current log: it then persists its position.
    func hasObeyed(_ fleet: FleetPlay) throws -> Bool {
        let last = fleet.lastPosition
        // The position follows a checksum and an epoch.
        return try eventually {
            (try? TestTools.readBytes(play.directory + "/fleet-position"))?.dropFirst(16).prefix(16).elementsEqual(last) == true
        }
    }

    func purge(_ arguments: String) throws -> TestResponse { try play.admin("POST", "/-/purge?" + arguments) }

    func found() throws -> Double { try metric("cistern_shared_lookups_total{outcome=\"found\"}") }

    func refused(_ reason: String) throws -> Double { try metric("cistern_shared_refusals_total{reason=\"\(reason)\"}") }
}

final class FleetPlay {
    let origin: ScriptedOrigin
    let redis: RedisProcess
    private(set) var nodes: [FleetMember] = []
    private let secret: String

    static let secret = String(repeating: "play", count: 8)

    init(_ origin: ScriptedOrigin, redis words: [String] = [], secret: String = FleetPlay.secret) throws {
        (self.origin, self.secret) = (origin, secret)
        redis = try RedisProcess(words)
        #expect(!redis.direct.ask("PING").isEmpty)
    }

    /// Starts a node with the fleet's settings and these changes.
    @discardableResult
    func join(
        secret: String? = nil, name: String = "play", at ports: [UInt16] = [], ahead: Duration = .zero,
        _ change: @escaping (inout FleetSettings) -> Void = { _ in }, proxy: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws -> FleetMember {
        let secrets = try FleetSecrets(file: Array((secret ?? self.secret).utf8))
        let time = ShiftedTime()
        time.shift(by: ahead)
        let engine = EngineSettings(servers: (ports.isEmpty ? [redis.port] : ports).map { .host("127.0.0.1", port: $0) })
        var fleet = FleetSettings(engine: engine, name: name, secrets: secrets)
        // A long timeout, for busy machines.
        fleet.timeout = 10_000
        change(&fleet)
        let play = try ProxyPlay(origin, fleet: fleet, clock: time, proxy)
        let node = FleetMember(play, time)
        nodes.append(node)
        return node
    }

    /// Starts two nodes that are in sync.
    func pair(
        _ change: @escaping (inout FleetSettings) -> Void = { _ in }, proxy: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws -> (FleetMember, FleetMember) {
        let (one, other) = (try join(change, proxy: proxy), try join(change, proxy: proxy))
        #expect(try one.sees() && other.sees())
        return (one, other)
    }

    /// The first of two nodes handles a write of /a while the engine is frozen. Both nodes have stored /a before.
    /// - Returns: the two nodes, and the text of the stored response.
    func writeWhileFrozen() throws -> (FleetMember, FleetMember, text: String) {
        let (one, other) = try pair { $0.timeout = 20 }
        _ = try one.get("/a")
        #expect(try one.gave(1))
        let text = try other.get("/a").text
        redis.freeze()
        let write = try one.play.request("PUT", "/a", content: "{}")
        #expect(
            write.status == 200 && write["Cache-Status"]?.hasSuffix("; detail=nodes_not_told") == true, "other nodes are notified later")
        return (one, other, text)
    }

    /// Number of requests for a target at the origin.
    func asked(_ target: String) -> Int { origin.requests.count { $0.target == target } }

    /// The keys of all records.
    var records: [String] {
        redis.direct.ask("KEYS cistern:*").split(separator: "\r\n").map(String.init)
            .filter { $0.hasPrefix("cistern:") && $0.hasSuffix("}") && !$0.hasSuffix("{log}") }
    }

    /// Number of calls of a Redis command.
    func calls(of command: String) -> Int {
        let name = "cmdstat_\(command):calls="
        let line = redis.direct.ask("INFO commandstats").split(separator: "\r\n").first { $0.hasPrefix(name) } ?? ""
        return Int(line.dropFirst(name.count).prefix { $0.isNumber }) ?? 0
    }

    /// ID of the log's last entry, in the format of persisted positions.
    var lastPosition: [UInt8] {
        let lines = redis.direct.ask("XREVRANGE cistern:play:{log} + - COUNT 1").split(separator: "\r\n")
        let numbers = lines.first { $0.contains("-") && $0.first?.isNumber == true }?.split(separator: "-").compactMap { UInt64($0) } ?? []
        return numbers.flatMap { number in withUnsafeBytes(of: number.bigEndian) { Array($0) } }
    }

    var logLength: Int { redis.logLength }

    func end() {
        for node in nodes { node.play.stop() }
        origin.down()
    }

    /// Runs a test with a fleet, and stops it afterwards in any case.
    static func run(
        _ origin: ScriptedOrigin, redis words: [String] = [], _ body: (FleetPlay) throws -> Void
    ) throws {
        let fleet = try FleetPlay(origin, redis: words)
        defer { fleet.end() }
        try body(fleet)
    }

    /// Responds with the number of the request, counted over all targets.
    static func numbered(_ fields: [String] = ["Cache-Control: max-age=600"]) -> ScriptedOrigin {
        let count = Mutex(0)
        return ScriptedOrigin { request in
            let number = count.withLock { count in
                count += 1
                return count
            }
            return [.json("{\"n\":\(number)}", request.method == "GET" ? fields : [])]
        }
    }
}
