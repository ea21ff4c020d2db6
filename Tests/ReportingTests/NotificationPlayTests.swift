// Tests of notifications over real sockets: outages with a scripted receiver, which may fail in many ways.

import Administration
import Figures
import Glibc
import JSON
import Logging
import Notifications
import Reactor
import ReverseProxy
import Server
import Sharing
import TestSupport
import Testing

@testable import Notifying

@Suite("Notifications of operators", .play)
struct NotificationPlayTests {
    /// A proxy with one webhook.
    private final class Scene {
        let webhook: ScriptedOrigin
        let play: ProxyPlay
        let said = CapturedLines()

        init(
            _ configure: @escaping (inout NotificationTarget, inout NotificationTarget.Webhook) -> Void = { _, _ in },
            origin: ScriptedOrigin = ScriptedOrigin { _ in [.json("1", ["Cache-Control: no-cache"])] }, fleet: FleetSettings? = nil,
            receiver script: @escaping ScriptedOrigin.Script = { _ in [.json("{}")] }
        ) throws {
            webhook = ScriptedOrigin(script)
            let target = Self.target(webhook, configure)
            play = try ProxyPlay(origin, fleet: fleet, log: said) { $0.notify = [target] }
        }

        static func target(
            _ webhook: ScriptedOrigin,
            _ configure: (inout NotificationTarget, inout NotificationTarget.Webhook) -> Void = { _, _ in }
        ) -> NotificationTarget {
            var hook = NotificationTarget.Webhook(url: "http://127.0.0.1:\(webhook.port)/hush/hook?key=hush")
            var target = NotificationTarget("ops", .webhook(hook))
            (target.pauseMilliseconds, target.timeoutMilliseconds) = (1, 5_000)
            configure(&target, &hook)
            target.receiver = .webhook(hook)
            return target
        }

        /// Takes the upstream down, so that its address counts as unreachable.
        func takeDown() throws {
            for number in 1...6 { _ = try play.get("/\(number)") }
            play.origin.down()
            for number in 1...6 { _ = try play.get("/\(number)") }
        }

        /// Brings the upstream up again, and waits until requests reach it.
        func bringUp() throws {
            play.origin.up()
            let isReached = try eventually {
                play.time.advance(by: .seconds(1))
                return try play.get("/new").status == 200
            }
            #expect(isReached)
        }

        func counter(_ outcome: String, _ event: String) -> String {
            "cistern_notifications_\(outcome)_total{target=\"ops\",event=\"\(event)\"}"
        }

        /// Advances the clock until a sample was taken and its notification delivered.
        func waitFor(_ outcome: String, _ event: String, _ count: Double = 1) throws -> Bool {
            try play.waitFor(counter(outcome, event), count, advancing: .milliseconds(500))
        }

        var events: [String] { webhook.requests.compactMap { JSONValue($0.content)?["event"]?.string } }
    }

    // MARK: Outages

    @Test("an outage, its rescues and its end are notified once each, and no output shows the URL")
    func outage() throws {
        let scene = try Scene { _, hook in (hook.token, hook.secret) = (Array("hush-token".utf8), Array("hush-secret-hush".utf8)) }
        try scene.takeDown()
        #expect(try scene.waitFor("sent", "upstream_down"))
        #expect(try scene.waitFor("sent", "rescues_began"))
        try scene.bringUp()
        #expect(try scene.waitFor("sent", "upstream_up"))
        #expect(try scene.waitFor("sent", "rescues_ended"))
        #expect(scene.events.sorted() == ["rescues_began", "rescues_ended", "upstream_down", "upstream_up"])
        let request = try #require(scene.webhook.requests.first { JSONValue($0.content)?["event"] == "upstream_down" })
        #expect(request.method == "POST" && request.target == "/hush/hook?key=hush")
        #expect(request["Content-Type"] == "application/json" && request["Cistern-Event"] == "upstream_down")
        #expect(request["Authorization"] == "Bearer hush-token")
        let signature = NotificationChannel.signature(of: request.content, Array("hush-secret-hush".utf8))
        #expect(request["Cistern-Signature"] == "sha256=" + signature)
        let value = JSONValue(request.content)
        #expect(value?["cause"] == "connection_refused" && value?["api"] == .null && value?["node"] == .string(Notifier.machine))
        #expect(scene.said.count(of: "hush") == 0)
        let pages = try scene.play.get("/metrics").text + scene.play.admin("GET", "/-/stats").text
        #expect(!pages.contains("hush"))
    }

    @Test("the signature is HMAC-SHA256 (RFC 4231, test case 2)")
    func signature() {
        #expect(
            NotificationChannel.signature(of: Array("what do ya want for nothing?".utf8), Array("Jefe".utf8))
                == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    }

    @Test("a webhook in Slack's format gets a text only")
    func slack() throws {
        let scene = try Scene { target, hook in (target.events, hook.format) = ([.upstreamDown], .slack) }
        try scene.takeDown()
        #expect(try scene.waitFor("sent", "upstream_down"))
        let value = try #require(JSONValue(scene.webhook.requests[0].content))
        #expect(value.members?.count == 1 && value["text"]?.string?.contains("the upstream is down (connection refused)") == true)
    }

    @Test("a target that a reload adds is notified of a present outage, and a removed one no longer")
    func reloaded() throws {
        let (first, second) = (ScriptedOrigin { _ in [.json("{}")] }, ScriptedOrigin { _ in [.json("{}")] })
        let scene = try Scene()
        try scene.takeDown()
        #expect(try scene.waitFor("sent", "upstream_down"))
        #expect(scene.play.reload { $0.settings.notify = [] }?.label == "applied")
        #expect(scene.play.reload { $0.settings.notify = [Scene.target(first)] }?.label == "applied")
        #expect(try scene.waitFor("sent", "upstream_down", 2))
        #expect(scene.play.reload { $0.settings.notify = [Scene.target(second)] }?.label == "applied")
        #expect(try scene.waitFor("sent", "upstream_down", 3))
        try scene.bringUp()
        #expect(try scene.waitFor("sent", "upstream_up"))
        #expect(first.requests.allSatisfy { JSONValue($0.content)?["event"] != "upstream_up" })
        #expect(second.requests.contains { JSONValue($0.content)?["event"] == "upstream_up" })
    }

    // MARK: Certificates and the fleet

    @Test("a certificate that expires within 14 days is notified, again when it has expired, and when another one is valid for longer")
    func certificate() throws {
        let scene = try ProxyPlay.$clientProtocol.withValue(.tls) { try Scene() }
        let left = try #require(try scene.play.metric("cistern_tls_certificate_left_seconds{name=\"cistern.test\"}"))
        scene.play.time.set(by: .seconds(left - 10 * 86_400))
        #expect(try scene.waitFor("sent", "certificate_expiring"))
        let soon = try #require(JSONValue(scene.webhook.requests[0].content))
        #expect(soon["event"] == "certificate_expiring" && soon["subject"] == "cistern.test")
        #expect(soon["cause"]?.string?.hasPrefix("expires in ") == true, "\(soon)")
        scene.play.time.set(by: .seconds(11 * 86_400))
        scene.play.time.advance(by: .milliseconds(ConditionWatch.pause))
        #expect(try scene.waitFor("sent", "certificate_expiring", 2))
        #expect(JSONValue(scene.webhook.requests[1].content)?["cause"] == "has expired")
        scene.play.time.set(by: .seconds(-30 * 86_400))
        #expect(try scene.waitFor("sent", "certificate_renewed"))
    }

    @Test("a node that does not see the purges of its fleet is notified after a minute")
    func fleet() throws {
        let scene = try Scene(fleet: .ofNobody)
        #expect(try scene.waitFor("sent", "fleet_disconnected"))
        let value = try #require(JSONValue(scene.webhook.requests[0].content))
        #expect(value["event"] == "fleet_disconnected" && value["node"]?.string?.isEmpty == false, "\(value)")
        #expect(scene.play.time.monotonicMilliseconds >= 1_060_000)
    }

    // MARK: Receivers that fail

    @Test(
        "after an error that may pass, the notification is sent again and then once only",
        arguments: ["500 Trouble", "503 Busy", "429 Too Many", "408 Late", "reset", "close", "long"])
    func retried(_ answer: String) throws {
        let asked = Mutex(0)
        let script: ScriptedOrigin.Script = { _ in
            let number = asked.withLock { asked in
                asked += 1
                return asked
            }
            guard number <= 2 else { return [.json("{}")] }
            switch answer {
            case "reset": return [.reset]
            case "close": return [.close]
            // A response of any length is a response.
            case "long": return [.json(String(repeating: "x", count: 200_000), status: "500 Trouble")]
            case "429 Too Many": return [.json("{}", status: answer, ["Retry-After: 1"])]
            default: return [.json("{}", status: answer)]
            }
        }
        let scene = try Scene({ target, _ in target.events = [.upstreamDown] }, receiver: script)
        try scene.takeDown()
        #expect(try scene.waitFor("sent", "upstream_down"))
        let contents = scene.webhook.requests.map(\.content)
        #expect(contents.count == 3 && Set(contents).count == 1)
        #expect(try scene.play.metric(scene.counter("failed", "upstream_down")) == 0)
        #expect(scene.said.count(of: "notifications to ops cannot be delivered") == 1)
        #expect(scene.said.count(of: "notifications to ops are delivered again") == 1)
    }

    @Test(
        "a rejected notification is not sent again, and redirects are not followed",
        arguments: ["302 Found", "307 Elsewhere", "404 None", "401 No"])
    func rejected(_ status: String) throws {
        let other = ScriptedOrigin { _ in [.json("{}")] }
        let script: ScriptedOrigin.Script = { _ in [.json("{}", status: status, ["Location: http://127.0.0.1:\(other.port)/"])] }
        let scene = try Scene({ target, _ in target.events = [.upstreamDown] }, receiver: script)
        try scene.takeDown()
        #expect(try scene.waitFor("failed", "upstream_down"))
        #expect(scene.webhook.requests.count == 1 && other.requests.isEmpty)
        #expect(scene.said.count(of: "the notification upstream_down to ops was not delivered") == 1)
    }

    @Test("requests and the stop do not wait for a webhook that never responds")
    func hanging() throws {
        let scene = try Scene(receiver: { _ in [.hang] })
        try scene.takeDown()
        for _ in 0..<20 {
            scene.play.time.advance(by: .seconds(5))
            for number in 1...6 { #expect(try scene.play.get("/\(number)").status == 200) }
        }
        #expect(scene.webhook.waitForRequests(1))
        scene.play.stop()
        #expect(scene.said.count(of: "was not delivered") == 1)
    }

    @Test("a certificate that is not trusted gets no notification")
    func untrusted() throws {
        let webhook = ScriptedOrigin(tls: SharedCertificates.tls) { _ in [.json("{}")] }
        var target = NotificationTarget("ops", .webhook(.init(url: "https://127.0.0.1:\(webhook.port)/")))
        let test = Notification(testFrom: NotifyingNode(name: "n"), id: "1", wall: 0)
        #expect(NotificationChannel.deliver(test, to: target).trouble?.isEmpty == false && webhook.requests.isEmpty)
        var hook = NotificationTarget.Webhook(url: "https://127.0.0.1:\(webhook.port)/")
        hook.authorities = SharedCertificates.authority
        target.receiver = .webhook(hook)
        #expect(NotificationChannel.deliver(test, to: target) == .sent && webhook.requests.count == 1)
    }

    // MARK: Floods

    @Test("a flood of failing paths gives one notification with five paths and without argument values")
    func flood() throws {
        let origin = ScriptedOrigin { request in
            request.target.hasPrefix("/bad") ? [.json("{}", status: "503 No")] : [.json("1", ["Cache-Control: no-cache"])]
        }
        let scene = try Scene(origin: origin)
        for number in 0..<40 {
            // A path fails by itself if others succeed between its failures.
            for _ in 0..<2 {
                _ = try scene.play.get("/bad/!here/\(number)?token=hush&n=\(number)")
                _ = try scene.play.get("/good/\(number)")
            }
        }
        #expect(try scene.waitFor("sent", "path_failing"))
        let value = JSONValue(scene.webhook.requests.first { JSONValue($0.content)?["event"] == "path_failing" }?.content ?? [])
        #expect(value?["paths"]?.array?.count == 5 && value?["path_count"] == 40)
        #expect(value?["paths"]?.array?.first?.string?.hasPrefix("/bad/") == true)
        #expect(scene.webhook.requests.allSatisfy { !String(decoding: $0.content, as: UTF8.self).contains("hush") })
        #expect(scene.events.count { $0 == "path_failing" } == 1)
    }

    @Test("the queue of a hanging target is bounded, and drops are counted")
    func bounded() throws {
        let webhook = ScriptedOrigin { _ in [.hang] }
        let target = Scene.target(webhook) { target, _ in target.perHour = 1_000 }
        let notifier = Notifier(fleetNode: "", isContinued: false, Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        notifier.use([target])
        var sample = NotificationSample(now: 0, wall: 0)
        sample.apis = Set((0..<200).map { "api\($0)" } + [""])
        sample.conditions = (0..<200).map { ObservedCondition(.upstream, api: "api\($0)") }
        notifier.note(sample)
        #expect(webhook.waitForRequests(1))
        let figures = notifier.figures
        #expect(figures.waiting.first?.count == DeliveryQueue.limit)
        #expect(figures.counts["dropped"]?.first { $0.event == "upstream_down" }?.count == UInt64(200 - DeliveryQueue.limit))
        webhook.down()
        notifier.finish()
        #expect(notifier.figures.waiting.first?.count == 0)
    }
}
