// Tests what a reload must not do: lose data for rescues, mix users, keep closed listeners or routes open, or never finish.

import Addresses
import Administration
import CachePolicy
import CacheStore
import Downstream
import Forwarding
import Glibc
import Identity
import ReverseProxy
import Server
import TestSupport
import Testing
import Upstream

@Suite("What a reload preserves and prevents", .play)
struct ReloadBoundaryTests {
    private static func origin(_ name: String = "origin") -> ScriptedOrigin {
        ScriptedOrigin { [.json("\"\(name) \($0.target)\"", ["Cache-Control: max-age=60"])] }
    }

    private static func isApplied(_ outcome: ReloadOutcome?) -> Bool { outcome?.label == "applied" }

    @Test("looked-up user identities survive a reload, so their stored responses rescue")
    func lookedUpIdentities() throws {
        let origin = ScriptedOrigin {
            guard $0["Authorization"] != nil else { return [.json("{}", status: "401 No")] }
            return $0.target == "/me" ? [.json("{\"id\":\"ann\"}")] : [.json("\"hers\"", ["Cache-Control: private, max-age=3600"])]
        }
        let play = try ProxyPlay(origin) {
            $0.otherRoute.lookUp.path = "/me"
            $0.otherRoute.lookUp.pointers = ["/id"]
        }
        let ann = [("Authorization", "Bearer 0123456789abcdef")]
        _ = try play.get("/hello", ann)
        #expect(try play.waitFor("cistern_identity_lookups_total{result=\"told\"}", 1))
        #expect(try play.get("/a", ann).status == 200)
        origin.down()
        #expect(Self.isApplied(play.reload { $0.settings.forwarding.name = "other" }))
        #expect(try play.get("/a", ann)["Cache-Status"]?.contains("hit") == true)
        #expect(try play.metric("cistern_identity_lookups_total{result=\"told\"}") == 1)
    }

    @Test("a request under new rules does not join a fetch under the old rules")
    func flights() throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { request in
            [.open(asked), .pass(gate), .json("\"\(request["X-Who"] ?? "nobody")\"", ["Cache-Control: max-age=60"])]
        }
        let play = try ProxyPlay(origin)
        let (alice, other) = (try play.client(), try play.client())
        alice.send("GET /echo HTTP/1.1\r\nHost: a\r\nX-Who: alice\r\n\r\n")
        asked.pass()
        #expect(Self.isApplied(play.reload { $0.settings.policy.credentials.fields.append("x-who") }))
        other.send("GET /echo HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(origin.waitForRequests(2))
        gate.open()
        #expect(alice.readResponse()?.text == "\"alice\"" && other.readResponse()?.text == "\"nobody\"")
    }

    @Test("a port used by another process is not shared with it")
    func port() throws {
        let (play, other) = (try ProxyPlay(Self.origin()), try ProxyPlay(Self.origin("other")))
        // A separate socket with SO_REUSEPORT, as of another process.
        let taken = try BoundSocket(.ipv4(host: "127.0.0.2", port: play.port), backlog: 1)
        for host in ["127.0.0.2", "0.0.0.0"] {
            let outcome = play.reload {
                $0.settings.listening.listeners.append(ListenerSettings(.ipv4(host: host, port: play.port)))
            }
            #expect(outcome?.label == "refused", "\(host)")
        }
        #expect(try play.get("/a").text == "\"origin /a\"")
        withExtendedLifetime((taken, other)) {}
    }

    @Test("a listener can change between one address and all addresses without losing connected clients")
    func wildcard() throws {
        let play = try ProxyPlay(Self.origin())
        let (port, kept) = (play.port, try play.client())
        for host in ["0.0.0.0", "127.0.0.1", "0.0.0.0"] {
            #expect(
                Self.isApplied(play.reload { $0.settings.listening.listeners = [ListenerSettings(.ipv4(host: host, port: port))] }),
                "\(host)")
            #expect(try TestClient(port: port).get("/a")?.status == 200, "\(host)")
        }
        #expect(kept.get("/a")?["Connection"] == "close")
    }

    @Test("an IPv6 listener can change to all addresses, independent of IPv4 listeners on the port")
    func wildcardOfIPv6() throws {
        let play = try ProxyPlay(Self.origin()) { $0.listening.listeners = [ListenerSettings(.ipv4(host: "0.0.0.0", port: 0))] }
        let clear = ListenerSettings(.ipv4(host: "0.0.0.0", port: play.port))
        for host in ["::1", "::"] {
            let outcome = play.reload {
                $0.settings.listening.listeners = [clear, ListenerSettings(.ipv6(host: host, port: play.port))]
            }
            #expect(Self.isApplied(outcome), "\(host)")
            #expect(try TestClient(.ipv6(host: "::1", port: play.port)).get("/a")?.status == 200, "\(host)")
        }
    }

    @Test("an administrator can connect when the client connection limit is reached")
    func reserve() throws {
        let play = try ProxyPlay(Self.origin()) { $0.downstream.maximumConnections = 1 }
        let client = try play.client()
        #expect(client.get("/a")?.status == 200)
        #expect(try play.admin("GET", "/-/stats").status == 200)
        #expect(client.get("/a")?.status == 200)
    }

    @Test("a connection from before client certificates were required must reconnect", .serialized, arguments: [false, true])
    func certificates(isUnchanged: Bool) throws {
        let authority = SharedCertificates.authority
        let play = try ProxyPlay(Self.origin(), clientProtocol: .tls)
        let kept = try play.client()
        #expect(kept.get("/a")?.status == 200)
        let outcome = play.reload {
            guard !isUnchanged else { return }
            $0.settings.listening.tls.certificates[0].clientAuthorities = authority
            $0.settings.listening.tls.certificates[0].verification = .required
        }
        #expect(Self.isApplied(outcome))
        #expect((kept.get("/a")?["Connection"] == "close") == !isUnchanged)
        #expect((try play.client().get("/a")?.status == 200) == isUnchanged)
    }

    @Test("a path moved to another API is not served from the first API's memory")
    func memos() throws {
        let (first, second) = (Self.origin("first"), Self.origin("second"))
        func api(_ settings: ProxySettings, _ name: String, _ path: String, _ origin: ScriptedOrigin) -> ProxySettings {
            var api = settings
            (api.apiName, api.scope.path, api.upstream.port) = (name, Array(path.utf8), origin.port)
            return api
        }
        let play = try ProxyPlay(first) { $0.apis = [api($0, "a", "", first)] }
        for _ in 1...3 { #expect(try play.get("/users/1").text == "\"first /users/1\"") }
        let outcome = play.reload {
            var settings = $0.settings
            settings.apis = []
            $0.settings.apis.append(api(settings, "b", "/users", second))
            $0.unchangedAPIs = ["a"]
        }
        #expect(Self.isApplied(outcome))
        for _ in 1...2 { #expect(try play.get("/users/1").text == "\"second /users/1\"") }
    }

    @Test("a reload that renames or removes an API warns that its stored responses are not used")
    func renamed() throws {
        let play = try ProxyPlay(Self.origin()) { settings in
            var apis = [settings, settings]
            for (place, name) in ["a", "b"].enumerated() { (apis[place].apiName, apis[place].scope.path) = (name, Array("/\(name)".utf8)) }
            settings.apis = apis
        }
        func warnings(_ change: @escaping (inout ProxySettings) -> Void) -> [String] {
            guard case .applied(let applied) = play.reload({ change(&$0.settings) }) else { return ["not applied"] }
            return applied.warnings
        }
        #expect(warnings { _ in }.isEmpty)
        let ofRename = warnings { $0.apis[1].apiName = "bee" }
        let sentence = "API b is removed: its stored responses are not used"
        #expect(ofRename.count == 1 && ofRename.first?.hasPrefix(sentence) == true, "\(ofRename)")
        let ofRemoval = warnings { $0.apis.removeLast() }
        #expect(ofRemoval.count == 1 && ofRemoval.first?.hasPrefix("API bee is removed: ") == true, "\(ofRemoval)")
        #expect(warnings { $0.apis[0].scope.path = [] }.isEmpty)
    }

    @Test("splitting one API into several keeps the mode and warns that stored responses are keyed by name")
    func names() throws {
        let play = try ProxyPlay(Self.origin())
        #expect(try play.get("/a").status == 200)
        #expect(try play.admin("PUT", "/-/mode?mode=offline").status == 200)
        let outcome = play.reload {
            var api = $0.settings
            api.apiName = "a"
            $0.settings.apis = [api]
        }
        let warnings: [String] = if case .applied(let applied) = outcome { applied.warnings } else { [] }
        #expect(warnings.contains { $0.contains("cache keys contain the name") })
        #expect(try play.get("/b").status == 504)
    }

    @Test("adding https beside http keeps stored responses, and writes also invalidate those that are unreachable meanwhile")
    func schemes() throws {
        let play = try ProxyPlay(Self.origin())
        let pair = SharedCertificates.proxy
        func reload(_ schemes: [Bool]) -> [String] {
            let outcome = play.reload {
                $0.settings.listening.tls.certificates = [.init(file: pair.certificate, keyFile: pair.key)]
                $0.settings.listening.listeners = schemes.map { isTLS in
                    var listener = ListenerSettings(.ipv4(host: "127.0.0.1", port: isTLS ? 0 : play.port))
                    listener.isTLS = isTLS
                    return listener
                }
            }
            return if case .applied(let applied) = outcome { applied.warnings } else { ["refused"] }
        }
        func secured() throws -> TestResponse? { try TestClient(port: play.ports[1], TLSOffer()).get("/a") }
        func isHit(_ response: TestResponse?) -> Bool { response?["Cache-Status"]?.hasPrefix("cistern; hit") == true }
        #expect(try !isHit(play.get("/a")))
        #expect(reload([false, true]).contains { $0.contains("now have separate cache keys") })
        #expect(try isHit(play.get("/a")))
        #expect(try !isHit(secured()) && isHit(secured()))
        #expect(reload([false]).contains { $0.contains("no longer have separate cache keys") })
        #expect(try isHit(play.get("/a")))
        #expect(try play.request("POST", "/a", content: "{}").status == 200)
        #expect(!reload([false, true]).contains("refused"))
        #expect(try !isHit(secured()) && !isHit(play.get("/a")))
    }

    @Test("active faults end when fault injection is disabled")
    func faults() throws {
        let play = try ProxyPlay(Self.origin()) { $0.admin.allowsFaults = true }
        #expect(try play.admin("POST", "/-/faults?path=/a&effect=refuse").status == 200)
        #expect(try play.metric("cistern_fault_rules") == 1)
        #expect(Self.isApplied(play.reload { $0.settings.admin.allowsFaults = false }))
        #expect(try play.metric("cistern_fault_rules") == 0)
    }

    @Test("the admin socket is accessible only to its owner, also if it was a listener before")
    func adminSocket() throws {
        let file = TestTools.temporaryDirectory()
        let path = file.path + "/a.sock"
        let play = try ProxyPlay(Self.origin()) {
            $0.listening.listeners.append(ListenerSettings(.unix(path: path)))
        }
        let outcome = play.reload {
            $0.settings.listening.listeners.removeLast()
            $0.settings.admin.socket = path
        }
        #expect(Self.isApplied(outcome))
        var status = stat()
        #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o600)
    }
}
