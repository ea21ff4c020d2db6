// Tests that a node of a fleet still receives and sends purges after a take-over, with the real binary.

import CacheStore
import Glibc
import Reactor
import TestSupport
import Testing

@Suite(
    "Take-over of a fleet node", .slow, .play, .realTime,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct FleetTakeOverTests {
    private let temporary = TestTools.temporaryDirectory()

    /// - Parameters:
    ///   - name: name of the node. Each node has a store.
    ///   - number: number of the process.
    private func serve(_ name: String, _ number: Int, _ more: String = "", to origin: ScriptedOrigin, _ redis: RedisProcess) throws
        -> RunningCommand
    {
        let directory = "\(temporary.path)/\(name)\(number)"
        mkdir(directory, 0o700)
        let secret = temporary.path + "/secret"
        if access(secret, F_OK) != 0 { try TestTools.write(String(repeating: "fleet", count: 8), to: secret) }
        let file = directory + "/cistern.yaml"
        try TestTools.write(
            """
            upstream: {url: "http://127.0.0.1:\(origin.port)"}
            store: {directory: \(temporary.path)/cache-\(name)}
            share: {servers: ["redis://127.0.0.1:\(redis.port)"], fleet: play, secret_file: \(secret), timeout: 10s}
            """, to: file)
        return try RunningCommand("serve --config \(file) --shards 2 \(more)", in: directory)
    }

    private func purge(_ name: String, _ arguments: String) throws -> Int32 {
        try CommandLineTool.run("purge \(arguments) --admin unix:\(temporary.path)/cache-\(name)/admin.sock").status
    }

    private func sees(_ node: RunningCommand) throws -> Bool {
        try eventually { try node.get("/metrics").text.contains("cistern_share_seeing 1\n") }
    }

    @Test("after a take-over the new process uses shared responses, applies and publishes purges, and restores nothing purged")
    func takenOver() throws {
        let count = Mutex(0)
        let origin = ScriptedOrigin { request in
            let number = count.withLock { count in
                count += 1
                return count
            }
            return [.json("{\"n\":\(number)}", request.method == "GET" ? ["Cache-Control: max-age=600"] : [])]
        }
        let redis = try RedisProcess()
        #expect(redis.direct.ask("PING").contains("PONG"))
        let (one, old) = (try serve("one", 1, to: origin, redis), try serve("other", 1, to: origin, redis))
        #expect(try sees(one) && sees(old))
        for target in ["/a", "/b", "/c"] { #expect(try old.get(target).status == 200) }
        let before = try old.get("/a").text
        let new = try serve("other", 2, "--take-over", to: origin, redis)
        #expect(new.port == old.port)
        #expect(try purge("one", "--prefix /a") == 0)
        #expect(try eventually { try new.get("/a").text != before })
        #expect(old.wait().status == 0)
        #expect(try sees(new))
        // Stored responses are still available.
        #expect(try new.get("/b")["Cache-Status"]?.contains("; hit") == true)
        // Checks the new process's log and lease.
        let asked = origin.requests.count
        #expect(try new.get("/d").status == 200)
        #expect(try eventually { try one.get("/d")["Cache-Status"]?.contains("; hit") == true })
        #expect(origin.requests.count <= asked + 2)
        let text = try one.get("/d").text
        #expect(try purge("other", "--prefix /d") == 0)
        #expect(try eventually { try one.get("/d").text != text })
        // A restart with the existing store.
        #expect(new.stop().status == 0)
        #expect(try purge("one", "--prefix /b") == 0)
        let third = try serve("other", 3, to: origin, redis)
        #expect(try third.get("/b").text != "{\"n\":2}")
        #expect(third.stop().status == 0 && one.stop().status == 0)
        #expect(redis.direct.ask("PING").contains("PONG"))
    }

    @Test("responses that were fetched after another node's writes remain after a take-over, also in an outage")
    func fetchedAfterWrites() throws {
        let (count, isDown) = (Mutex(0), Mutex(false))
        let origin = ScriptedOrigin { request in
            if isDown.withLock({ $0 }) { return [.json("{}", status: "503 Service Unavailable")] }
            let number = count.withLock { count in
                count += 1
                return count
            }
            return [.json("{\"n\":\(number)}", request.method == "GET" ? ["Cache-Control: max-age=600"] : [])]
        }
        let redis = try RedisProcess()
        #expect(redis.direct.ask("PING").contains("PONG"))
        let (one, old) = (try serve("one", 1, to: origin, redis), try serve("other", 1, to: origin, redis))
        #expect(try sees(one) && sees(old))
        let targets = ["/a", "/b", "/c"]
        let texts = try targets.map { try old.get($0).text }
        // A node stores its position at most every two seconds, so it stores none between this and the take-over.
        let position = temporary.path + "/cache-other/fleet-position"
        let stored = try TestTools.readBytes(position)
        #expect(try one.request("PUT", "/first", content: "{}").status == 200)
        #expect(try eventually { try TestTools.readBytes(position) != stored })
        for target in targets { #expect(try one.request("PUT", target, content: "{}").status == 200) }
        for (target, text) in zip(targets, texts) { #expect(try eventually { try old.get(target).text != text }) }
        let new = try serve("other", 2, "--take-over", to: origin, redis)
        #expect(old.wait().status == 0)
        #expect(try sees(new))
        isDown.withLock { $0 = true }
        for target in targets {
            let response = try new.get(target)
            #expect(response.status == 200 && response["Cache-Status"]?.hasPrefix("cistern; hit") == true, "\(target): \(response)")
        }
        #expect(new.stop().status == 0 && one.stop().status == 0)
    }
}
