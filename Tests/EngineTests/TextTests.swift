// Tests of server addresses in settings and in replies of servers.

import TestSupport
import Testing

@testable import Engine

@Suite("Parsing of server addresses and replies")
struct TextTests {
    @Test(
        "a server address in the settings is parsed",
        arguments: [
            ("redis://h1:6379", EngineServer.host("h1", port: 6379), false), ("redis://h1", .host("h1", port: 6379), false),
            ("redis://h1/", .host("h1", port: 6379), false), ("rediss://h1:1", .host("h1", port: 1), true),
            ("valkey://10.0.0.1:7000", .host("10.0.0.1", port: 7000), false), ("valkeys://a.b", .host("a.b", port: 6379), true),
            ("redis://[::1]:6380", .host("::1", port: 6380), false), ("redis://[::1]", .host("::1", port: 6379), false),
            ("unix:///run/redis.sock", .unix("/run/redis.sock"), false), ("/run/redis.sock", .unix("/run/redis.sock"), false),
        ])
    func good(text: String, server: EngineServer, isTLS: Bool) throws {
        let read = try EngineServer.read(text)
        #expect(read.server == server && read.isTLS == isTLS && read.database == 0)
    }

    @Test(
        "the database number after the port is parsed",
        arguments: [("redis://h1:1/3", 3), ("rediss://h1/15", 15), ("valkeys://[::1]:7/0", 0)])
    func database(text: String, number: Int) throws { #expect(try EngineServer.read(text).database == number) }

    @Test(
        "an invalid address is rejected with its cause",
        arguments: [
            ("h1:6379", EngineAddressProblem.scheme), ("http://h1", .scheme), ("", .scheme), ("redis://", .host), ("redis://:6379", .host),
            ("redis://u:p@h1", .credentials), ("redis://h1:0", .port), ("redis://h1:65536", .port), ("redis://h1:+1", .port),
            ("redis://h1:", .port), ("redis://h1:6379/a", .rest), ("redis://h1/1/2", .rest), ("redis://h1/-1", .rest),
            ("redis://h1/65536", .rest), ("redis://u:p/w@h1", .credentials), ("redis://h1?x", .rest), ("redis://[::1]x", .rest),
            ("redis://[::1", .host),
            ("redis://h 1", .host), ("unix://run", .path), ("/" + String(repeating: "a", count: 107), .path), ("/", .path),
        ])
    func bad(text: String, problem: EngineAddressProblem) {
        #expect(throws: problem) { try EngineServer.read(text) }
    }

    @Test(
        "an error reply is classified",
        arguments: [
            ("MOVED 3999 127.0.0.1:6381", ErrorMeaning.moved(slot: 3999, .host("127.0.0.1", port: 6381))),
            ("MOVED 0 ::1:6381", .moved(slot: 0, .host("::1", port: 6381))), ("MOVED 1 :6381", .moved(slot: 1, .host("asked", port: 6381))),
            ("MOVED 1 ?:6381", .moved(slot: 1, .host("asked", port: 6381))), ("ASK 16383 h:1", .ask(.host("h", port: 1))),
            ("MOVED 16384 h:1", .failure(.protocolError)), ("MOVED -1 h:1", .failure(.protocolError)),
            ("MOVED 1 h:0", .failure(.protocolError)),
            ("MOVED 1 h:65536", .failure(.protocolError)), ("MOVED 1 h", .failure(.protocolError)), ("MOVED", .failure(.protocolError)),
            ("ASK 1", .failure(.protocolError)), ("ASK 1 h\u{7}:1", .failure(.protocolError)), ("TRYAGAIN Multiple keys", .tryAgain),
            ("LOADING Redis is loading", .failure(.loading)), ("CLUSTERDOWN Hash slot not served", .failure(.clusterDown)),
            ("READONLY You can't write", .failure(.readOnly)), ("NOAUTH Authentication required.", .failure(.denied)),
            ("WRONGPASS invalid", .failure(.denied)),
            ("NOPERM this user has no permissions to run the 'get' command", .failure(.commandForbidden)),
            ("NOPERM User key has no permissions to run the 'get' command", .failure(.commandForbidden)),
            ("NOPERM this user has no permissions to access one of the keys used as arguments", .failure(.keyForbidden)),
            ("NOPERM No permissions to access a key", .failure(.keyForbidden)), ("OOM command not allowed", .failure(.full)),
            ("WRONGTYPE Operation", .other), ("ERR unknown", .other), ("", .other),
        ])
    func errors(text: String, meaning: ErrorMeaning) {
        #expect(ErrorMeaning.of(Array(text.utf8), from: .host("asked", port: 7)) == meaning)
    }

    private func range(_ first: Int64, _ last: Int64, _ host: String?, _ port: Int64, replica: Int64? = nil) -> EngineReply {
        let host = host.map { EngineReply.bytes(Array($0.utf8)) } ?? .nothing
        return .list(
            [.integer(first), .integer(last), .list([host, .integer(port)])] + (replica.map { [.list([host, .integer($0)])] } ?? []))
    }

    @Test("a slot map names the owner of each slot; an entry without a host means the queried server")
    func map() throws {
        let asked = EngineServer.host("me", port: 7)
        let reply = EngineReply.list([range(0, 99, "a", 1, replica: 9), range(200, 16383, nil, 2), range(100, 150, "", 3)])
        let map = try #require(SlotMap(reply, from: asked, limit: 10))
        #expect(map.owner(of: 0) == .host("a", port: 1) && map.owner(of: 99) == .host("a", port: 1))
        #expect(map.owner(of: 100) == .host("me", port: 3) && map.owner(of: 151) == nil && map.owner(of: 16383) == .host("me", port: 2))
        #expect(map.primaries.count == 3 && map.replicas == [.host("a", port: 9)])
    }

    @Test("an invalid slot map is rejected at bounded cost")
    func badMaps() {
        let asked = EngineServer.host("me", port: 7)
        let bad: [EngineReply] = [
            .nothing, .list([.nothing]), .list([.list([])]), .list([range(5, 4, "a", 1)]), .list([range(-1, 4, "a", 1)]),
            .list([range(0, 16384, "a", 1)]), .list([range(0, 1, "a", 0)]), .list([range(0, 1, "a", 70_000)]),
            .list([range(0, 16383, "a", 1), range(0, 16383, "a", 1)]), .list((0..<11).map { range($0, $0, "a", $0 + 1) }),
        ]
        for reply in bad { #expect(SlotMap(reply, from: asked, limit: 10) == nil) }
    }

    @Test("printed settings never contain a password")
    func password() {
        var settings = EngineSettings(servers: [.host("h", port: 1)])
        settings.passwordFile = TestTools.file("hunter2")
        var dumped = ""
        dump(settings, to: &dumped)
        let text = "\(settings) \(String(reflecting: settings)) \(dumped)"
        #expect(text.contains("h:1") && !text.contains("hunter2") && !text.contains("104, 117"))
    }
}
