// Tests of client connections in a take-over: running HTTP/2 streams, TLS sessions, Unix sockets, and faults.

import CSystem
import CacheStore
import Downstream
import Glibc
import TestSupport
import Testing

@Suite(
    "Take-over with all kinds of listeners", .slow, .play, .realTime,
    .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct TakeOverListenersTests {
    private let temporary = TestTools.temporaryDirectory()
    private var directory: String { temporary.path }
    private var cache: String { directory + "/cache" }

    @Test("in a take-over open streams finish in the old process, TLS sessions resume, and faults stay active")
    func clientProtocols() throws {
        let (came, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { request in
            request.target == "/slow"
                ? [.open(came), .pass(gate), .json("{\"slow\":true}")] : [.json("{}", ["Cache-Control: max-age=600"])]
        }
        let manager = try ServiceManagerPeer(directory + "/notify")
        let (web, secured) = (try ServiceManagerPeer.listening(), try ServiceManagerPeer.listening())
        defer { for one in [web, secured] { close(one.descriptor) } }
        let pair = SharedCertificates.proxy
        let file = directory + "/cistern.yaml"
        try TestTools.write(
            """
            upstream: {url: 'http://127.0.0.1:\(origin.port)'}
            listen: ['systemd:web', 'https://systemd:secured', 'unix:\(directory)/clients.sock']
            tls: {certificates: [{certificate: \(pair.certificate), key: \(pair.key)}]}
            admin: {faults: true}
            store: {directory: \(cache)}
            """, to: file)
        let old = try RunningCommand(
            "serve --config \(file)", in: directory,
            environment: ["NOTIFY_SOCKET": manager.name, "LISTEN_FDNAMES": "web:secured"], activated: [web.descriptor, secured.descriptor])
        #expect(manager.next().first == "READY=1")
        let running = try HTTP2TestClient(port: secured.port, isSecured: true)
        let stream = try #require(running.begin("GET", "/slow"))
        came.pass()
        let first = try secure(secured.port)
        #expect(first.get("/a")?.status == 200 && first.tls?.isResumed == false)
        #expect(try old.get("/c").status == 200)
        #expect(try CommandLineTool.run("drill add --path /b --status 503 --admin unix:\(cache)/admin.sock").status == 0)

        old.send(SIGUSR2)
        let new = try #require(manager.nextMain())
        #expect(try secure(secured.port, first.tls?.session).tls?.isResumed == true)
        #expect(try old.get("/b").status == 503)
        let local = try TestClient(.unix(path: directory + "/clients.sock"))
        #expect(local.get("/c")?["Cache-Status"]?.hasPrefix("cistern; hit") == true)
        gate.open()
        #expect(running.response(of: stream)?.text == "{\"slow\":true}")
        #expect(running.waitForGoAway() != nil)
        #expect(old.wait().status == 0)
        ServiceManagerPeer.stop(new, cache: cache)
        #expect(access(directory + "/clients.sock", F_OK) != 0)
    }

    private func secure(_ port: UInt16, _ session: TLSSession? = nil) throws -> TestClient {
        var offer = TLSOffer()
        (offer.authority, offer.session) = (nil, session)
        return try TestClient(port: port, offer)
    }
}
