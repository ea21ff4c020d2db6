// Tests of /metrics as Prometheus reads it, and of the health pages.

import Downstream
import Glibc
import ReverseProxy
import TestSupport
import Testing

@Suite("Internal pages", .play, .clientProtocols)
struct OwnPagesTests {
    @Test("promtool accepts the metrics", .slow)
    func promtool() throws {
        guard system("command -v promtool >/dev/null 2>&1") == 0 else {
            Issue.record("promtool is missing: make test installs it (Debian's prometheus)")
            return
        }
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] })
        for target in ["/a", "/a", "/b?x=\"y\""] { _ = try? play.get(target) }
        play.origin.down()
        _ = try play.get("/c")
        let page = try play.get("/metrics")
        #expect(page["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8")
        let pipe = try #require(popen("promtool check metrics 2>&1 >/dev/null; test $? = 0", "we"))
        _ = page.content.withUnsafeBytes { fwrite($0.baseAddress, 1, $0.count, pipe) }
        #expect(pclose(pipe) == 0)
    }

    @Test(
        "a query or trailing slash does not matter, and no such request reaches the upstream",
        arguments: ["/metrics?x", "/metrics/", "/metrics/?x=/y", "/healthz?", "/healthz/", "/readyz?verbose=1"])
    func spellings(target: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        #expect(try play.get(target)["Content-Type"]?.hasPrefix("text/plain") == true)
        #expect(play.origin.requests.isEmpty)
        for other in ["/metrics//", "/metricsx", "/metric", "/a?/metrics", "/readyz/x/"] { #expect(try play.get(other).text == "{}") }
    }

    @Test("internal pages are counted with result own")
    func counted() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        for page in ["/healthz", "/readyz", "/metrics"] { _ = try play.get(page) }
        // The three requests above and the one that reads the metric.
        #expect(try play.metric(#"cistern_requests_total{result="own",method="GET",status_class="2xx"}"#) == 4)
        #expect(play.origin.requests.isEmpty)
    }

    @Test("OpenMetrics is served when requested")
    func openMetrics() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        let page = try play.get("/metrics", [("Accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")])
        #expect(page["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8")
        #expect(page.text.hasSuffix("# EOF\n"))
        #expect(page.text.contains("# TYPE cistern_requests counter\n"))
    }

    @Test("counters of all shards are summed")
    func shards() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { $0.shards = 3 }
        for _ in 0..<20 { #expect(try play.client().get("/a")?.status == 200) }
        #expect(try play.metric("cistern_requests_total{result=\"miss\",method=\"GET\",status_class=\"2xx\"}") == 20)
    }

    @Test("health pages are served locally, and other paths are forwarded")
    func health() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        #expect(try play.get("/healthz").text == "ok\n")
        #expect(try play.get("/readyz").text == "ready\n")
        #expect(play.origin.requests.isEmpty)
        #expect(try play.get("/healthz/x").status == 200)
        #expect(play.origin.requests.count == 1)
    }

    @Test("with a separate admin address the internal pages are not on the proxy's address")
    func adminListen() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"api\":1}")] }) { settings in
            settings.listening.adminListeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
        }
        #expect(try play.get("/metrics").text == "{\"api\":1}")
    }

    @Test("stopping closes idle connections and does not hang")
    func gracefulStop() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        let idle = try play.client()
        #expect(idle.get("/a")?.status == 200)
        play.stop()
        #expect(idle.isClosedByServer())
    }

    @Test("after a shutdown announcement /readyz returns 503 while all other requests are still served")
    func announcedStop() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        let kept = try play.client()
        #expect(kept.get("/readyz")?.status == 200)
        #expect(try play.metric("cistern_ready") == 1)
        play.announceStop()
        #expect(try play.metric("cistern_ready") == 0)
        for client in [kept, try play.client()] {
            let ready = client.get("/readyz")
            #expect(ready?.status == 503 && ready?.text == "stopping\n")
            for target in ["/healthz", "/a"] {
                let response = client.get(target)
                #expect(response?.status == 200 && response?["Connection"] == nil)
            }
        }
    }

    @Test("an address in use by another process is refused; shards of one proxy share theirs")
    func busyAddress() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { $0.shards = 2 }
        #expect(throws: ListenError.self) { _ = try BoundSocket(.ipv4(host: "127.0.0.1", port: play.port), backlog: 1) }
    }
}
