// Tests of take-overs with the real binary: no stored response is lost, nothing outdated returns, and after a failed take-over the old
// process continues.

import CSystem
import CacheStore
import Downstream
import Glibc
import Reactor
import TakeOver
import TestSupport
import Testing

@Suite("Take-over", .slow, .play, .realTime)
struct TakeOverTests {
    private let temporary = TestTools.temporaryDirectory()
    private var cache: String { temporary.path + "/cache" }
    private var door: ListenAddress { .unix(path: cache + "/admin.sock.take-over") }

    /// - Parameter number: number of the process. Each has a directory for its output.
    private func serve(_ number: Int, _ more: String = "", to origin: ScriptedOrigin, shards: Int = 2) throws -> RunningCommand {
        let directory = temporary.path + "/\(number)"
        mkdir(directory, 0o700)
        return try RunningCommand(
            "serve --upstream http://127.0.0.1:\(origin.port) --cache-dir \(cache) --shards \(shards) \(more)", in: directory)
    }

    /// Output of a process that does not take over.
    private func refusal(_ number: Int, _ more: String = "", to origin: ScriptedOrigin) throws -> String {
        do {
            _ = try serve(number, "--take-over \(more)", to: origin)
            return "it took over"
        } catch let failure as RunningCommand.NotRunning {
            #expect(failure.status == 1)
            return failure.text
        }
    }

    private func count(_ name: String, _ page: TestResponse) -> Double? {
        page.text.split(separator: "\n").first { $0.hasPrefix(name + " ") }.flatMap { Double($0.dropFirst(name.count + 1)) }
    }

    private let requests = "cistern_requests_total{result=\"miss\",method=\"GET\",status_class=\"2xx\"}"

    @Test(
        "a take-over preserves listeners, stored responses, modes and counters; the old process exits with 0",
        arguments: [(2, 2), (3, 1), (1, 3)])
    func takenOver(shards: (old: Int, new: Int)) throws {
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }
        let old = try serve(1, to: origin, shards: shards.old)
        let kept = try (0..<6).map { _ in try TestClient(port: old.port) }
        for (place, client) in kept.enumerated() { #expect(client.get("/\(place)")?.status == 200) }
        _ = try CommandLineTool.run("mode offline --prefix /off --admin unix:\(cache)/admin.sock")
        let before = try #require(count(requests, try old.get("/metrics")))
        #expect(before == 6)
        let new = try serve(2, "--take-over", to: origin, shards: shards.new)
        #expect(new.port == old.port)
        // A connection that is idle for a second is closed by then.
        for client in kept { #expect(client.get("/0").map { $0["Connection"] == "close" } ?? true) }
        for place in 0..<6 { #expect(try new.get("/\(place)")["Cache-Status"]?.hasPrefix("cistern; hit") == true) }
        #expect(try new.get("/off/x").status == 504)
        let outcome = old.wait()
        #expect(outcome.status == 0, "\(outcome.text)")
        let after = try #require(count(requests, try new.get("/metrics")))
        #expect(after >= before)
        // A second take-over.
        let third = try serve(3, "--take-over", to: origin)
        #expect(try third.get("/3")["Cache-Status"]?.hasPrefix("cistern; hit") == true)
        #expect(new.wait().status == 0)
        #expect(try #require(count(requests, try third.get("/metrics"))) >= after)
        #expect(third.stop().status == 0)
        // No socket is left, and the store is closed properly.
        #expect(access(cache + "/admin.sock", F_OK) != 0 && access(cache + "/admin.sock.take-over", F_OK) != 0)
        let anew = try serve(4, to: origin)
        #expect(try anew.get("/5")["Cache-Status"]?.hasPrefix("cistern; hit") == true)
        // Includes the record of the latest request.
        #expect(anew.stop().text.contains("7 entries loaded"))
    }

    @Test("a write that finishes in the old process reaches the new process before its response is sent")
    func writes() throws {
        let (came, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { request in
            request.method == "GET"
                ? [.json("{}", ["Cache-Control: max-age=600"])] : [.open(came), .pass(gate), .json("{\"written\":true}")]
        }
        let old = try serve(1, to: origin)
        #expect(try old.get("/a").status == 200)
        #expect(try old.get("/b").status == 200)
        let writing = try TestClient(port: old.port)
        writing.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        came.pass()
        let new = try serve(2, "--take-over", to: origin)
        #expect(try new.get("/a")["Cache-Status"]?.hasPrefix("cistern; hit") == true)
        gate.open()
        #expect(writing.readResponse()?.text == "{\"written\":true}")
        #expect(try new.get("/a")["Cache-Status"]?.hasPrefix("cistern; fwd=") == true)
        #expect(try new.get("/b")["Cache-Status"]?.hasPrefix("cistern; hit") == true)
        #expect(old.wait().status == 0)
        #expect(new.stop().status == 0)
    }

    @Test("a login that finishes in the old process ends the use of the former user in the new process")
    func login() throws {
        let (came, gate, user) = (Gate(), Gate(), Mutex("alice"))
        let origin = ScriptedOrigin { request in
            if request.method == "POST" { return [.open(came), .pass(gate), .json("{}")] }
            let user = user.withLock { $0 }
            guard request["Cookie"] != nil else { return [.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")] }
            let isLookUp = request.target == "/me"
            return [.json("{\"\(isLookUp ? "id" : "of")\":\"\(user)\"}", isLookUp ? [] : ["Cache-Control: private, max-age=600"])]
        }
        let settings = "--set credentials.identity.lookup.path=/me --set credentials.identity.lookup.identity=/id"
        let session = [("Cookie", "sid=0123456789abcdef0123456789abcdef")]
        let old = try serve(1, settings, to: origin)
        let login = try TestClient(port: old.port)
        login.send("POST /login HTTP/1.1\r\nHost: x\r\nCookie: \(session[0].1)\r\nContent-Length: 2\r\n\r\n{}")
        came.pass()
        let new = try serve(2, "--take-over \(settings)", to: origin)
        #expect(try eventually { try new.get("/a", session)["Cache-Status"]?.hasPrefix("cistern; hit") == true })
        #expect(try new.get("/a", session).text == "{\"of\":\"alice\"}")
        user.withLock { $0 = "bob" }
        gate.open()
        #expect(login.readResponse()?.status == 200)
        for _ in 0..<3 { #expect(try new.get("/a", session).text == "{\"of\":\"bob\"}") }
        #expect(old.wait().status == 0)
        #expect(new.stop().status == 0)
    }

    @Test("a write that finishes in the old process invalidates responses that the new process stored or is fetching")
    func writesOfNewCopies() throws {
        let (came, gate, read, reading) = (Gate(), Gate(), Gate(), Gate())
        let origin = ScriptedOrigin { request in
            guard request.method == "GET" else { return [.open(came), .pass(gate), .json("{}")] }
            let copy = [OriginStep.json("{}", ["Cache-Control: max-age=600"])]
            return request.target == "/slow" ? [.open(read), .pass(reading)] + copy : copy
        }
        let old = try serve(1, to: origin)
        let writers = try ["/a", "/slow"].map { target in
            let client = try TestClient(port: old.port)
            client.send("POST \(target) HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
            return client
        }
        came.pass()
        let new = try serve(2, "--take-over", to: origin)
        // Only the new process has stored these.
        for _ in 0..<2 { #expect(try new.get("/a").status == 200) }
        #expect(try new.get("/a")["Cache-Status"]?.hasPrefix("cistern; hit") == true)
        let slow = try TestClient(port: new.port)
        slow.send("GET /slow HTTP/1.1\r\nHost: cistern.test\r\n\r\n")
        read.pass()
        gate.open()
        for client in writers { #expect(client.readResponse()?.status == 200) }
        #expect(try new.get("/a")["Cache-Status"]?.hasPrefix("cistern; fwd=uri-miss") == true)
        // Later requests do not wait for a response that was requested before the write, and do not find it later.
        let later = try TestClient(port: new.port)
        later.send("GET /slow HTTP/1.1\r\nHost: cistern.test\r\n\r\n")
        #expect(try eventually { origin.requests.count { $0.method == "GET" && $0.target == "/slow" } == 2 })
        reading.open()
        #expect(slow.readResponse()?["Cache-Status"]?.contains("; stored") == false)
        #expect(later.readResponse()?["Cache-Status"] == "cistern; fwd=uri-miss; stored")
        #expect(old.wait().status == 0)
        #expect(new.stop().status == 0)
    }

    @Test("the old process does not serve responses that the new process purged or invalidated, not even as a rescue")
    func purgedInNewProcess() throws {
        let isDown = Mutex(false)
        let origin = ScriptedOrigin { request in
            if request.method == "POST" { return [.json("{}")] }
            return isDown.withLock { $0 } ? [.json("{}", status: "503 Service Unavailable")] : [.json("{}", ["Cache-Control: max-age=600"])]
        }
        let old = try serve(1, to: origin)
        let waiting = try ["/purged", "/written", "/kept"].map { target in
            #expect(try old.get(target).status == 200)
            let client = try TestClient(port: old.port)
            // The request has begun, so the old process waits for its end.
            client.send("GET \(target) HTTP/1.1\r\nHost: cistern.test\r\n")
            return client
        }
        let new = try serve(2, "--take-over", to: origin)
        isDown.withLock { $0 = true }
        #expect(try CommandLineTool.run("purge /purged --admin unix:\(cache)/admin.sock").text.contains("1 response"))
        #expect(try new.request("POST", "/written", content: "{}").status == 200)
        for client in waiting { client.send("\r\n") }
        #expect(waiting.map { $0.readResponse()?.status } == [503, 503, 200])
        #expect(try new.get("/written").status == 503)
        #expect(try new.get("/kept").status == 200)
        #expect(old.wait().status == 0)
        #expect(try new.get("/metrics").text.contains("cistern_take_overs_total{result=\"done\"} 1\n"))
        #expect(new.stop().status == 0)
    }

    @Test("the old process answers a write even if the new process has ended")
    func writesAlone() throws {
        let (came, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { request in
            request.method == "GET" ? [.json("{}")] : [.open(came), .pass(gate), .json("{\"written\":true}")]
        }
        let old = try serve(1, to: origin)
        let writing = try TestClient(port: old.port)
        writing.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        came.pass()
        let new = try serve(2, "--take-over", to: origin)
        #expect(new.stop(SIGKILL).status == -1)
        gate.open()
        #expect(writing.readResponse()?.text == "{\"written\":true}")
        #expect(old.wait().status == 0)
    }

    // MARK: Failed take-overs

    @Test("a take-over without a running or willing process fails with one sentence")
    func refused() throws {
        let origin = ScriptedOrigin { _ in [.json("{}")] }
        #expect(try refusal(1, to: origin).contains("the take-over failed: no running Cistern responds"))
        mkdir(cache, 0o700)
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(listener) }
        let bound = door.withSocketAddress { bind(listener, $0, $1) }
        try #require(bound == 0 && listen(listener, 4) == 0)
        TestThread.start {
            let client = accept(listener, nil, nil)
            Self.send(.refused("of another age"), to: client)
            close(client)
        }
        #expect(try refusal(2, to: origin).contains("the take-over failed: of another age"))
        #expect(access(cache + "/lock", F_OK) != 0, "nothing was written")
    }

    @Test("a process with another cache directory cannot take over, and the old process continues")
    func otherDirectory() throws {
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }
        let old = try serve(1, to: origin)
        let other = temporary.path + "/other"
        let sentence = try refusal(2, "--cache-dir \(other) --set admin.socket=\(cache)/admin.sock", to: origin)
        #expect(sentence.contains("the take-over failed: the running process uses another cache directory than \(other)"))
        try goesOn(old)
    }

    @Test("after an incompatible or broken hand-over the old process continues to store responses")
    func oldProcessContinues() throws {
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }
        let old = try serve(1, to: origin)
        func answer(_ message: TakeOverMessage) throws -> String {
            let client = try TestClient(door)
            client.send(Self.framed(message))
            return String(decoding: client.readToEnd(), as: UTF8.self)
        }
        let foreign = Greeting(dialogue: 99, storeFormat: 1, process: 1, version: "9")
        #expect(try answer(.hello(foreign)).contains("their take-over protocols differ"))
        #expect(try answer(.hello(Greeting(storeFormat: 99, process: 1, version: "9"))).contains("stores responses in another format"))
        #expect(try answer(.begin).contains("it sent no valid message"))
        let dying = try TestClient(door)
        dying.send(Self.framed(.hello(Greeting(storeFormat: 1, process: 1, version: "9"))))
        #expect(dying.read(1).count == 1)
        // Its store is locked now.
        #expect(try old.get("/held").status == 200)
        dying.send(Self.framed(.failed("I would rather not")))
        _ = dying.readToEnd()
        try goesOn(old)
    }

    @Test("if the new process dies after the hand-over, the old process exits with 1 to trigger a restart")
    func lostSuccessor() throws {
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }
        let old = try serve(1, to: origin)
        #expect(try old.get("/a").status == 200)
        do {
            let peer = try TestClient(door)
            peer.send(Self.framed(.hello(Greeting(storeFormat: 1, process: 1, version: "9"))))
            while try #require(Self.nextMessage(peer)) != .offered {}
            peer.send(Self.framed(.prepared(listeners: [])))
            while true { if case .committed = try #require(Self.nextMessage(peer)) { break } }
        }
        let outcome = old.wait()
        #expect(
            outcome.status == 1 && outcome.text.contains("the process that took over exited before it served requests"), "\(outcome.text)")
        let anew = try serve(2, to: origin)
        #expect(try anew.get("/a")["Cache-Status"]?.hasPrefix("cistern; hit") == true)
    }

    private static func nextMessage(_ client: TestClient) -> TakeOverMessage? {
        let length = client.read(4).reversed().reduce(0) { $0 << 8 | Int($1) }
        return TakeOverMessage(client.read(length))
    }

    private func goesOn(_ old: RunningCommand) throws {
        #expect(try old.get("/kept").status == 200)
        #expect(try old.get("/kept")["Cache-Status"]?.hasPrefix("cistern; hit") == true)
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }
        #expect(old.stop().status == 0)
        let anew = try serve(9, to: origin)
        #expect(anew.stop().text.contains("entries loaded"))
    }

    private static func framed(_ message: TakeOverMessage) -> [UInt8] {
        let bytes = message.bytes
        return withUnsafeBytes(of: UInt32(bytes.count).littleEndian) { Array($0) } + bytes
    }

    private static func send(_ message: TakeOverMessage, to descriptor: Int32) {
        let bytes = framed(message)
        _ = write(descriptor, bytes, bytes.count)
    }
}
