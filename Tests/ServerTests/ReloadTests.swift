// Tests of reloads during requests: all settings change at one moment, and no request fails.

import Addresses
import Administration
import CachePolicy
import CacheStore
import Downstream
import Forwarding
import HTTPCore
import ReverseProxy
import Server
import TestSupport
import Testing
import Upstream

@Suite("Reloading the settings", .play)
struct ReloadTests {
    private static func origin(_ name: String = "origin") -> ScriptedOrigin {
        ScriptedOrigin { [.json("\"\(name) \($0.target)\"", ["Cache-Control: max-age=60"])] }
    }

    private static func isApplied(_ outcome: ReloadOutcome?) -> Bool { outcome?.label == "applied" }

    private static func isRefused(_ outcome: ReloadOutcome?) -> Bool { outcome?.label == "refused" }

    // MARK: Applied changes

    @Test("existing connections use the new settings and find stored responses", .clientProtocols)
    func applied() throws {
        let play = try ProxyPlay(Self.origin()) { $0.shards = 2 }
        #expect(try play.get("/a")["Cache-Status"]?.hasPrefix("cistern;") == true)
        #expect(Self.isApplied(play.reload { $0.settings.forwarding.name = "other" }))
        let hit = try play.get("/a")
        #expect(hit["Cache-Status"]?.hasPrefix("other; hit") == true, "\(hit)")
        #expect(Self.isApplied(play.reload { $0.changed = [] }))
        #expect(try play.get("/a")["Cache-Status"]?.hasPrefix("other; hit") == true)
        #expect(play.origin.requests.count == 1)
        #expect(try play.metric("cistern_settings_reloads_total{result=\"applied\"}") == 2)
        #expect(try play.metric("cistern_settings_last_reload{result=\"applied\"}") == 1)
    }

    @Test("requests in progress finish with the old upstream, which is then released")
    func inFlight() throws {
        let (asked, gate) = (Gate(), Gate())
        let old = ScriptedOrigin { $0.target == "/slow" ? [.open(asked), .pass(gate), .json("\"old\"")] : [.json("\"old\"")] }
        let new = Self.origin("new")
        let play = try ProxyPlay(old)
        let slow = try play.client(getting: "/slow")
        asked.pass()
        #expect(Self.isApplied(play.reload { $0.settings.upstream.port = new.port }))
        #expect(try play.get("/b").text == "\"new /b\"")
        play.time.advance(by: .seconds(2))
        #expect(try play.get("/c").text == "\"new /c\"")
        gate.open()
        #expect(slow.readResponse()?.text == "\"old\"")
        #expect(slow.get("/d")?.text == "\"new /d\"")
        play.time.advance(by: .seconds(2))
        #expect(try play.waitFor("cistern_upstream_active_requests", 0))
        #expect(try play.metric("cistern_upstream_requests_total") == 4)
        #expect(try play.metric("cistern_upstream_connections_total") == 2)
    }

    @Test("counters continue across a reload")
    func counts() throws {
        let play = try ProxyPlay(Self.origin()) { $0.background.probe.path = "/probe" }
        for round in 1...3 {
            #expect(try play.get("/\(round)").status == 200)
            play.origin.down()
            #expect(try play.get("/\(round)/down").status >= 502)
            play.origin.up()
            #expect(Self.isApplied(play.reload { $0.settings.upstream.queueLimit = 100 + round }))
            play.time.advance(by: .seconds(2))
        }
        #expect(try play.metric("cistern_stored_total") == 3)
        #expect(try play.metric("cistern_requests_total{result=\"miss\",method=\"GET\",status_class=\"2xx\"}") == 3)
        #expect(try play.metric("cistern_upstream_requests_total") ?? 0 >= 6)
    }

    @Test("new connection settings and limits apply to new and existing connections")
    func limits() throws {
        let play = try ProxyPlay(Self.origin())
        let kept = try play.client()
        #expect(kept.get("/a")?.status == 200)
        #expect(
            Self.isApplied(
                play.reload {
                    $0.settings.downstream.requestLimits.targetBytes = 10
                    $0.settings.downstream.maximumConnections = 77
                }))
        #expect(kept.get("/a-path-that-is-longer")?.status == 414)
        #expect(try play.metric("cistern_connections_limit") == 77)
    }

    // MARK: Several APIs

    @Test("unchanged APIs keep their connections while others are added, changed and removed")
    func apis() throws {
        let (users, orders) = (Self.origin("users"), Self.origin("orders"))
        func api(_ settings: ProxySettings, _ name: String, _ origin: ScriptedOrigin) -> ProxySettings {
            var api = settings
            (api.apiName, api.scope.path, api.upstream.port) = (name, Array("/\(name)".utf8), origin.port)
            return api
        }
        let play = try ProxyPlay(users) { $0.apis = [api($0, "users", users), api($0, "orders", orders)] }
        for target in ["/users/1", "/orders/1"] { #expect(try play.get(target).status == 200) }
        let outcome = play.reload {
            var settings = $0.settings
            settings.apis = []
            $0.settings.apis = [api(settings, "more", orders), $0.settings.apis[0]]
            $0.unchangedAPIs = ["users"]
        }
        #expect(Self.isApplied(outcome))
        #expect(try play.get("/orders/1").status == 404)
        #expect(try play.get("/more/1").text == "\"orders /more/1\"")
        #expect(try play.get("/users/1")["Cache-Status"]?.contains("hit") == true)
        #expect(try play.get("/users/2").status == 200)
        #expect(users.connectionCount == 1)
        #expect(try play.metric("cistern_api_requests_total{api=\"users\",result=\"hit\"}") == 1)
        #expect(try play.metric("cistern_api_requests_total{api=\"more\",result=\"miss\"}") == 1)
        let why = try play.admin("GET", "/-/why?last=20").text
        #expect(why.contains("\"api\": \"users\"") && why.contains("\"api\": \"more\""), "\(why)")
    }

    // MARK: State that survives a reload

    @Test("modes set by the administrator survive a reload, unless the file changes that mode")
    func modes() throws {
        let play = try ProxyPlay(Self.origin()) { settings in
            for name in ["one", "two"] {
                var route = Route()
                (route.name, route.pattern) = (name, RoutePattern("/\(name)/**"))
                settings.routes.append(route)
            }
        }
        for query in ["mode=offline&prefix=/a", "mode=offline&route=one", "mode=offline&route=two"] {
            #expect(try play.admin("PUT", "/-/mode?\(query)").status == 200)
        }
        let outcome = play.reload {
            $0.settings.routes.reverse()
            $0.settings.routes[0].mode = .record
        }
        #expect(Self.isApplied(outcome))
        for (target, isOffline) in [("/a/1", true), ("/one/1", true), ("/two/1", false), ("/b", false)] {
            #expect(try (play.get(target).status == 504) == isOffline, "\(target)")
        }
    }

    @Test("upstream failures are remembered across a reload for the same upstream")
    func failures() throws {
        let play = try ProxyPlay(Self.origin())
        #expect(try play.get("/a").status == 200)
        play.origin.down()
        for _ in 1...6 { _ = try play.get("/b") }
        #expect(try play.admin("GET", "/-/upstream").text.contains("\"up\": false"))
        #expect(Self.isApplied(play.reload { $0.settings.forwarding.name = "other" }))
        #expect(try play.admin("GET", "/-/upstream").text.contains("\"up\": false"))
        #expect(Self.isApplied(play.reload { $0.settings.upstream.connectTimeout = .seconds(1) }))
        #expect(try play.admin("GET", "/-/upstream").text.contains("\"up\": true"))
    }

    // MARK: Listeners

    @Test("a new address is listened on; a removed one lets its clients finish", .clientProtocols)
    func listeners() throws {
        let play = try ProxyPlay(Self.origin()) { $0.shards = 2 }
        #expect(try play.get("/a").status == 200)
        let former = play.port
        let outcome = play.reload { settings in
            var other = settings.settings.listening.listeners[0]
            other.address = .ipv4(host: "127.0.0.2", port: former)
            settings.settings.listening.listeners.append(other)
        }
        #expect(Self.isApplied(outcome))
        #expect(play.addresses == [.ipv4(host: "127.0.0.1", port: former), .ipv4(host: "127.0.0.2", port: former)])
        #expect(try play.get("/a").status == 200)
        #expect(Self.isApplied(play.reload { $0.settings.listening.listeners.removeFirst() }))
        #expect(play.addresses == [.ipv4(host: "127.0.0.2", port: former)])
        #expect(throws: TestClient.NoConnection.self) { try TestClient(port: former) }
        // The listener that stayed.
        #expect(try play.get("/a").status == 200)
    }

    @Test("a persistent connection of a removed address closes after its next response")
    func lastResponse() throws {
        let play = try ProxyPlay(Self.origin())
        let (address, kept) = (play.addresses[0], try play.client())
        #expect(kept.get("/a").map { $0["Connection"] == nil } == true)
        let outcome = play.reload {
            $0.settings.listening.listeners = [ListenerSettings(.ipv4(host: "127.0.0.3", port: address.port ?? 0))]
        }
        #expect(Self.isApplied(outcome))
        #expect(kept.get("/a")?["Connection"] == "close")
        #expect(kept.isClosedByServer())
    }

    @Test("the protocol of an address can change, also for connections waiting to be accepted")
    func protocolChanges() throws {
        let play = try ProxyPlay(Self.origin())
        let clear = try play.client()
        #expect(clear.get("/a")?.status == 200)
        let (pair, address) = (SharedCertificates.proxy, play.addresses[0])
        let outcome = play.reload {
            $0.settings.listening.listeners = [ListenerSettings(address)]
            $0.settings.listening.listeners[0].isTLS = true
            $0.settings.listening.tls.certificates = [ServerTLSSettings.Certificate(file: pair.certificate, keyFile: pair.key)]
        }
        #expect(Self.isApplied(outcome))
        #expect(clear.get("/a")?["Connection"] == "close")
        let secured = try TestClient(address)
        try secured.secure()
        #expect(secured.get("/a")?.status == 200)
    }

    @Test("a renewed certificate is reported with its remaining validity")
    func renewed() throws {
        let (certificates, folder) = (try TestCertificates(), TestTools.temporaryDirectory())
        let (file, key) = (folder.path + "/served.pem", folder.path + "/served.key")
        func serve(_ name: String) throws {
            let pair = try certificates.make(name)
            try TestTools.write(TestTools.read(pair.certificate), to: file)
            try TestTools.write(TestTools.read(pair.key), to: key)
        }
        try serve("first")
        let play = try ProxyPlay(Self.origin(), clientProtocol: .tls) {
            $0.listening.tls.certificates = [ServerTLSSettings.Certificate(file: file, keyFile: key)]
        }
        func changed() -> [String] { if case .applied(let applied) = play.reload({ $0.changed = [] }) { applied.changed } else { ["?"] } }
        #expect(changed() == [])
        try serve("second")
        let named = changed()
        #expect(named.count == 1 && named[0].hasPrefix("\(file) (until ") && named[0].hasSuffix(" GMT)"), "\(named)")
    }

    // MARK: Rejected reloads

    @Test("a reload that cannot be fully applied changes nothing and is reported")
    func refused() throws {
        let (taken, play) = (Self.origin(), try ProxyPlay(Self.origin()))
        let kept = try play.client()
        #expect(kept.get("/a")?.status == 200)
        let port = play.port
        let changes: [(inout NewSettings) -> Void] = [
            { $0.settings.listening.listeners.append(ListenerSettings(.ipv4(host: "127.0.0.1", port: taken.port))) },
            {
                $0.settings.listening.listeners[0].isTLS = true
                $0.settings.listening.tls.certificates = [ServerTLSSettings.Certificate(file: "/nowhere.pem")]
            },
        ]
        for change in changes {
            let outcome = play.reload {
                $0.settings.forwarding.name = "other"
                change(&$0)
            }
            #expect(Self.isRefused(outcome))
            let response = try #require(kept.get("/a"))
            #expect(response["Cache-Status"]?.hasPrefix("cistern; hit") == true && response["Connection"] == nil)
            #expect(play.port == port)
        }
        #expect(try play.metric("cistern_settings_reloads_total{result=\"refused\"}") == 2)
        #expect(try play.metric("cistern_settings_last_reload{result=\"refused\"}") == 1)
    }

    @Test("a required restart is reported")
    func restart() throws {
        let play = try ProxyPlay(Self.origin())
        #expect(play.reload { $0.awaitingRestart = ["shards"] }?.label == "restart_needed")
        #expect(try play.metric("cistern_settings_last_reload{result=\"restart_needed\"}") == 1)
    }
}
