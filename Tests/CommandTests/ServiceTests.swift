// Tests of `cistern serve` as a service with the real binary: signals, shutdown, and communication with systemd.

import CSystem
import CacheStore
import Glibc
import TestSupport
import Testing

@Suite("Running as a service", .play, .realTime)
struct ServiceTests {
    private let temporary = TestTools.temporaryDirectory()
    private var directory: String { temporary.path }

    private func serve(
        _ more: String = "", to origin: ScriptedOrigin, environment: [String: String] = [:], activated: [Int32] = []
    ) throws -> RunningCommand {
        try RunningCommand(
            "serve --upstream http://127.0.0.1:\(origin.port) --cache-dir \(directory)/cache --shards 2 \(more)", in: directory,
            environment: environment, activated: activated)
    }

    private let origin = ScriptedOrigin { _ in [.json("{}")] }

    // MARK: Shutdown

    @Test("after SIGTERM, /readyz returns 503 for timeouts.drain_delay while requests are served; a second signal exits with 0", .slow)
    func drainDelay() throws {
        let serve = try serve("--set timeouts.drain_delay=1h", to: origin)
        #expect(try serve.get("/readyz").status == 200)
        let kept = try TestClient(port: serve.port)
        #expect(kept.get("/a")?.status == 200)
        serve.send(SIGTERM)
        while try serve.get("/readyz").status == 200 {}
        #expect(try serve.get("/readyz").text == "stopping\n")
        #expect(try serve.get("/b").status == 200)
        #expect(kept.get("/c").map { $0["Connection"] == nil } == true)
        let outcome = serve.stop(SIGINT)
        #expect(outcome.status == 0 && outcome.text.contains("/readyz returns 503, and requests are served for another 3600000 ms"))
    }

    @Test("the process exits by itself after a short drain delay")
    func shortDelay() throws {
        #expect(try serve("--set timeouts.drain_delay=1ms", to: origin).stop().status == 0)
    }

    // MARK: Descriptors

    @Test(
        "without a free descriptor a request is rescued or fails as an error of Cistern, and the upstream does not count as down",
        .enabled(if: TestTools.has("prlimit")))
    func descriptors() throws {
        let gate = Gate()
        defer { gate.open() }
        let origin = ScriptedOrigin { $0.target == "/slow" ? [.pass(gate), .json("{}")] : [.json("{}")] }
        let serve = try RunningCommand(
            "serve --upstream http://127.0.0.1:\(origin.port) --cache-dir \(directory)/cache --shards 1", in: directory)
        let (slow, client) = (try TestClient(port: serve.port), try TestClient(port: serve.port))
        #expect(client.get("/a")?.status == 200)
        slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(origin.waitForRequests(2))
        #expect(try CommandLineTool.run(program: "prlimit --pid \(serve.process) --nofile=0:").status == 0)
        for _ in 0..<4 {
            #expect(client.get("/a")?["Cache-Status"]?.contains("detail=proxy_internal_error") == true)
            #expect(client.get("/b")?.status == 500)
        }
        #expect(try CommandLineTool.run(program: "prlimit --pid \(serve.process) --nofile=1000:").status == 0)
        #expect(client.get("/b")?.status == 200)
        #expect(serve.stop().status == 0)
    }

    // MARK: Signals

    @Test("a SIGTERM during startup causes an orderly shutdown")
    func whileItStarts() throws {
        // Sends the signal as soon as the program blocks or ignores it. The shell's copy before it blocks it for a moment, too.
        let script = """
            \(CommandLineTool.path) serve --upstream http://127.0.0.1:\(origin.port) --listen 127.0.0.1:0 --cache-dir \(directory)/cache & \
            until grep -q '^Name:.*cistern' /proc/$!/status && grep -Eq 'Sig(Ign|Blk):.*[4-7c-f]...$' /proc/$!/status; do :; done
            kill $!; wait $!
            """
        let outcome = try CommandLineTool.run(program: "timeout 20 bash -c \"\(script.replacing("$", with: "\\$"))\"")
        #expect(outcome.status == 0 && outcome.text.contains("stopping"), "\(outcome.text)")
    }

    @Test("SIGUSR1 and SIGHUP reopen the access log", arguments: [SIGUSR1, SIGHUP])
    func reopening(signal: Int32) throws {
        let log = directory + "/access.log"
        let serve = try serve("--access-log \(log)", to: origin)
        #expect(rename(log, log + ".1") == 0)
        serve.send(signal)
        while access(log, F_OK) != 0 { _ = try serve.get("/a") }
        #expect(serve.stop().status == 0)
    }

    // MARK: Notifications to systemd

    @Test("systemd is notified of readiness, reload and shutdown", arguments: ["/notify", "@cistern.test."])
    func notifications(name: String) throws {
        let manager = try ServiceManagerPeer(name.hasPrefix("@") ? "\(name)\(getpid())" : directory + name)
        let serve = try serve(to: origin, environment: ["NOTIFY_SOCKET": manager.name])
        #expect(manager.next() == ["READY=1", "STATUS=listening on 127.0.0.1:\(serve.port)"])
        serve.send(SIGHUP)
        let reloading = manager.next()
        #expect(reloading.first == "RELOADING=1" && reloading.last?.hasPrefix("MONOTONIC_USEC=") == true)
        #expect(manager.next().first == "READY=1")
        #expect(serve.stop().status == 0)
        #expect(manager.next() == ["STOPPING=1", "STATUS=stopping", "EXTEND_TIMEOUT_USEC=40000000"])
    }

    @Test("SIGUSR2 starts a new process that takes over the systemd sockets and becomes the main process")
    func upgraded() throws {
        let manager = try ServiceManagerPeer(directory + "/notify")
        let web = try ServiceManagerPeer.listening()
        defer { close(web.descriptor) }
        let old = try serve(
            "--set listen=systemd:web", to: origin,
            environment: ["NOTIFY_SOCKET": manager.name, "LISTEN_FDNAMES": "web", "WATCHDOG_USEC": "60000000"], activated: [web.descriptor])
        while manager.next().first != "READY=1" {}
        #expect(try old.get("/a").status == 200)
        old.send(SIGUSR2)
        let new = try #require(manager.nextMain())
        #expect(try old.get("/b").status == 200)
        let outcome = old.wait()
        #expect(outcome.status == 0 && outcome.text.contains("started process \(new) to take over"), "\(outcome.text)")
        #expect(try old.get("/c").status == 200)
        ServiceManagerPeer.stop(new, cache: directory + "/cache")
    }

    @Test("after a failed SIGUSR2 take-over the old process continues and logs the reason")
    func notUpgraded() throws {
        let old = try serve("--set admin.socket=off", to: origin)
        old.send(SIGUSR2)
        while !old.text.contains("ended with 1 before it took over; this process continues") {
            #expect(try old.get("/a").status == 200)
        }
        #expect(try old.get("/metrics").text.contains("cistern_take_overs_total{result=\"failed\"} 1\n"))
        #expect(old.stop().text.contains("the take-over failed: admin.socket is off"))
    }

    @Test("watchdog notifications are sent if systemd requests them from this process")
    func watchdog() throws {
        let manager = try ServiceManagerPeer(directory + "/notify")
        let serve = try serve(to: origin, environment: ["NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "4000"])
        var seen: [[String]] = []
        while seen.count(where: { $0 == ["WATCHDOG=1"] }) < 5 || !seen.contains(where: { $0.first == "READY=1" }) {
            seen.append(manager.next())
        }
        #expect(seen.count(where: { $0.first == "READY=1" }) == 1)
        #expect(serve.stop().status == 0)
    }

    @Test("no watchdog notifications are sent if they are requested from another process")
    func watchdogOfAnotherProcess() throws {
        let manager = try ServiceManagerPeer(directory + "/notify")
        let serve = try serve(
            to: origin, environment: ["NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "4000", "WATCHDOG_PID": "1"])
        #expect(try serve.get("/a").status == 200)
        #expect(serve.stop().status == 0)
        #expect(manager.next().first == "READY=1")
        #expect(manager.next().first == "STOPPING=1")
    }

    // MARK: Sockets from systemd

    @Test("all event loops listen on a socket passed by systemd, and the socket outlives the process", .slow)
    func activated() throws {
        let (web, admin) = (try ServiceManagerPeer.listening(), try ServiceManagerPeer.listening())
        defer { for one in [web, admin] { close(one.descriptor) } }
        let serve = try serve(to: origin, environment: ["LISTEN_FDNAMES": "web:admin"], activated: [web.descriptor, admin.descriptor])
        #expect(serve.port == web.port)
        for _ in 0..<8 { #expect(try serve.get("/a").status == 200) }
        #expect(try TestClient(port: admin.port).get("/metrics")?.text.contains("cistern_requests_total") == true)
        #expect(serve.stop().status == 0)
        let waiting = try TestClient(port: web.port)
        waiting.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n")
        let next = try self.serve(
            "--set listen=systemd:web --set admin_listen=systemd:admin", to: origin, environment: ["LISTEN_FDNAMES": "web:admin"],
            activated: [web.descriptor, admin.descriptor])
        #expect(waiting.readResponse()?.status == 200)
        #expect(next.stop().status == 0)
    }

    /// Output of a process that does not start.
    private func refusal(_ more: String, _ names: String, _ activated: [Int32]) throws -> String {
        do {
            _ = try serve(more, to: origin, environment: ["LISTEN_FDNAMES": names], activated: activated)
            return "it started"
        } catch let failure as RunningCommand.NotRunning {
            #expect(failure.status == 78)
            return failure.text
        }
    }

    @Test("a passed descriptor that is not a listening stream socket, or is not configured, prevents the start")
    func invalidDescriptors() throws {
        let (good, deaf, datagrams) = (
            try ServiceManagerPeer.listening(), try ServiceManagerPeer.listening(listens: false),
            try ServiceManagerPeer.listening(Int32(SOCK_DGRAM.rawValue), listens: false)
        )
        let file = csystem_open(CommandLineTool.path, O_RDONLY | O_CLOEXEC, 0)
        defer { for descriptor in [good.descriptor, deaf.descriptor, datagrams.descriptor, file] { close(descriptor) } }
        #expect(try refusal("", "f", [file]).contains("systemd handed over f (descriptor 3): it is not a socket"))
        #expect(try refusal("", "g:d", [good.descriptor, deaf.descriptor]).contains("handed over d (descriptor 4): it does not listen"))
        #expect(try refusal("", "u", [datagrams.descriptor]).contains("u (descriptor 3): it is not a stream socket (use ListenStream=)"))
        let listen = "--set listen=127.0.0.1:0"
        let unnamed = try refusal(listen, "g", [good.descriptor])
        #expect(unnamed.contains("handed over the socket g, which neither listen nor admin_listen names"))
        #expect(
            try refusal("--set listen=systemd:web", "g", [good.descriptor]).contains(
                "systemd:web: systemd handed over no socket of this name (only g)"))
    }
}
