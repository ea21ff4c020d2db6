// Tests of listeners: several addresses, IPv4, IPv6 and Unix sockets, and addresses in use.

import CacheStore
import Downstream
import Glibc
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Listening", .play)
struct ListeningTests {
    private func origin() -> ScriptedOrigin {
        ScriptedOrigin { request in
            [.json("[\"\(request["X-Forwarded-For"] ?? "-")\",\"\((request["Forwarded"] ?? "-").replacing("\"", with: "'"))\"]")]
        }
    }

    private func listeners(_ addresses: ListenAddress...) -> [ListenerSettings] { addresses.map { ListenerSettings($0) } }

    private func get(_ address: ListenAddress) throws -> TestResponse {
        try #require(TestClient(address).get("/a"))
    }

    @Test("a stopped server releases its event loops and descriptors, over any protocol", .clientProtocols)
    func gone() throws {
        let play = try ProxyPlay(origin())
        #expect(try play.get("/a").status == 200)
        play.stop()
        // Its threads are still ending.
        let end = SystemTime.shared.monotonicMilliseconds + 30_000
        while play.formerServer != nil, SystemTime.shared.monotonicMilliseconds < end { sched_yield() }
        #expect(play.formerServer == nil)
    }

    @Test("IPv4, IPv6 and Unix socket listeners work together on every shard", arguments: [1, 3])
    func several(shards: Int) throws {
        let directory = TestTools.temporaryDirectory()
        let path = "\(directory.path)/cistern"
        let play = try ProxyPlay(origin()) {
            $0.listening.listeners = listeners(.ipv4(host: "127.0.0.1", port: 0), .ipv6(host: "::1", port: 0), .unix(path: path))
            $0.shards = shards
        }
        #expect(play.addresses.count == 3)
        for _ in 0..<6 {
            #expect(try get(play.addresses[0]).text == "[\"127.0.0.1\",\"for=127.0.0.1;proto=http\"]")
            #expect(try get(play.addresses[1]).text == "[\"::1\",\"for='[::1]';proto=http\"]")
            #expect(try get(play.addresses[2]).text == "[\"-\",\"for=unknown;proto=http\"]")
        }
        play.stop()
        #expect(access(path, F_OK) != 0)
    }

    @Test("a stale socket file is replaced; a socket in use or any other file is not")
    func unixSocketFiles() throws {
        let directory = TestTools.temporaryDirectory()
        let path = "\(directory.path)/cistern"
        _ = try BoundSocket(.unix(path: path), backlog: 1)
        let play = try ProxyPlay(origin()) { $0.listening.listeners = listeners(.ipv4(host: "127.0.0.1", port: 0), .unix(path: path)) }
        #expect(try get(play.addresses[1]).status == 200)
        #expect(throws: ListenError.self) { try BoundSocket(.unix(path: path), backlog: 1) }
        #expect(try get(play.addresses[1]).status == 200)

        let file = "\(directory.path)/file"
        try TestTools.write("precious", to: file)
        #expect(throws: ListenError.self) { try BoundSocket(.unix(path: file), backlog: 1) }
        #expect(access(file, F_OK) == 0)
    }

    @Test("an address in use is refused, and no listener is left behind")
    func taken() throws {
        let taken = try BoundSocket(.ipv4(host: "127.0.0.1", port: 0), backlog: 1)
        let free = TestTools.freePort()
        #expect(throws: ListenError.self) {
            _ = try ProxyPlay(origin()) { $0.listening.listeners = listeners(.ipv4(host: "127.0.0.1", port: free), taken.address) }
        }
        #expect(throws: TestClient.NoConnection.self) { try TestClient(port: free) }
    }
}
