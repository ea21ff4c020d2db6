// Tests of upstream failures: each setting that `why` names changes the outcome. The compiler requires a row for a new failure.

import Decisions
import Explanation
import JSON
import TestSupport
import Testing
import Upstream

@Suite("Advice on upstream failures", .play)
struct FailureAdviceTests {
    /// A response that begins at once and continues when the gate opens.
    private static let watch: AdviceTrial.Script = { _, gate in
        [
            .send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n"), .pass(gate),
            .send("3\r\n{}\n\r\n0\r\n\r\n"),
        ]
    }
    private static let late: AdviceTrial.Script = { _, gate in [.pass(gate), .json("{}")] }

    /// nil if no setting is advised, or a play cannot cause a failure of the network or the resolver.
    private static func trial(_ error: UpstreamError.Kind) throws -> AdviceTrial? {
        switch error {
        case .connectionReadTimeout:
            return AdviceTrial(
                script: late, changes: ["upstream.first_byte_timeout": .init("upstream: {first_byte_timeout: 5m, total_timeout: 10m}")],
                act: { try $0.ask(whileWaiting: .seconds(61)) })
        case .responseTimeout:
            return AdviceTrial(
                "upstream: {total_timeout: 10s}", script: late, changes: ["upstream.total_timeout": .init("upstream: {total_timeout: 5m}")],
                act: { try $0.ask(whileWaiting: .seconds(11)) })
        case .connectionLimitReached:
            return AdviceTrial(
                "upstream: {connections: 1, queue: 0}",
                script: AdviceTrial.holdingB,
                changes: ["upstream.queue": .init("upstream: {connections: 1, queue: 10}")]
            ) { stage in
                let (first, second) = (try stage.play.client(), try stage.play.client())
                first.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(stage.play.origin.waitForRequests(1))
                second.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
                if stage.isChanged { stage.gate.open() }
                #expect(second.readResponse() != nil)
                stage.gate.open()
                #expect(first.readResponse()?.status == 200)
            }
        case .tlsCertificateError:
            var trial = AdviceTrial(
                "", .json("{}"), changes: ["upstream.ca_file": .init("upstream: {ca_file: \"\(SharedCertificates.authority)\"}")])
            trial.tls = SharedCertificates.tls
            return trial
        case .tunnelRefused:
            let proxy = ScriptedOrigin { _ in [.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")] }
            let trusted = "ca_file: \"\(SharedCertificates.authority)\""
            var trial = AdviceTrial(
                "upstream: {proxy: \"http://127.0.0.1:\(proxy.port)\", \(trusted)}", .json("{}"),
                changes: ["upstream.proxy": .init("upstream: {proxy: \"\", \(trusted)}")]
            ) { stage in _ = try withExtendedLifetime(proxy) { try stage.play.get("/a") } }
            trial.tls = SharedCertificates.tls
            return trial
        case .dnsTimeout, .connectionTimeout, .dnsError, .connectionRefused, .connectionTerminated, .connectionWriteTimeout,
            .destinationIPUnroutable, .responseIncomplete, .responseHeaderTooLarge, .responseBodyTooLarge, .transferCoding, .protocolError,
            .tlsProtocolError, .tlsAlertReceived, .proxyInternalError:
            return nil
        }
    }

    /// Timeouts of libcurl's clock, which plays cannot advance, and failures that `UpstreamConnectionCauseTests` covers.
    private static let isElsewhere: [UpstreamError.Kind] = [.dnsTimeout, .connectionTimeout, .connectionRefused]

    @Test("the advised setting avoids an upstream transfer error", arguments: UpstreamError.Kind.allCases)
    func errors(_ error: UpstreamError.Kind) throws {
        guard let trial = try Self.trial(error) else {
            return #expect(FetchFailure.transfer(UpstreamError(error)).advice(isUnderWay: false) == nil || Self.isElsewhere.contains(error))
        }
        try trial.verify(isMet: { $0["upstream"]?["error"]?.string == error.rawValue }, isHelped: { $0["status"] == 200 })
    }

    @Test(
        "a response that grows over time, such as a watch, gets the advice to set routes.stream",
        arguments: [("between_bytes_timeout: 30s", 31), ("between_bytes_timeout: 1h, total_timeout: 2m", 121)])
    func watch(_ settings: String, _ seconds: Int) throws {
        let upstream = "upstream: {\(settings)}\n"
        let trial = AdviceTrial(
            upstream, script: Self.watch,
            changes: ["routes.stream": .init(upstream + "routes: [{name: watch, path: /a, stream: true}]\ntimeouts: {stream: 1h}")]
        ) { try $0.ask(whileWaiting: .seconds(seconds)) }
        try trial.verify(
            isMet: { ["connection_read_timeout", "http_response_timeout"].contains($0["upstream"]?["error"]?.string) },
            isHelped: { $0["status"] == 200 && $0["upstream"]?["error"] == .null })
    }

    @Test("with the advised cache.rescue_after, a slow upstream response is awaited instead of rescued")
    func slow() throws {
        let script: AdviceTrial.Script = { request, gate in
            request["User-Agent"] == "first" ? [.json("{}", ["Cache-Control: max-age=1"])] : [.pass(gate), .json("{}")]
        }
        let trial = AdviceTrial(script: script, changes: ["cache.rescue_after": .init("cache: {rescue_after: 0}")]) { stage in
            _ = try stage.play.get("/a", [("User-Agent", "first")])
            stage.play.time.advance(by: .seconds(2))
            try stage.ask(whileWaiting: .seconds(3), behind: 1)
        }
        try trial.verify(isMet: { $0["reason"] == "slow" }, isHelped: { $0["result"] == "miss" })
    }

    @Test("with the advised upstream.connections, a request succeeds beside many open streams")
    func streams() throws {
        let script: AdviceTrial.Script = { _, gate in
            [.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: 1\n\n"), .pass(gate), .close]
        }
        let trial = AdviceTrial(
            "upstream: {connections: 4}", script: script, changes: ["upstream.connections": .init("upstream: {connections: 20}")]
        ) { stage in
            let clients = try (0..<3).map { _ in try stage.play.client() }
            // Each path is of another family, because paths of one family share half of the connections.
            for (client, target) in zip(clients, ["/b/1", "/c/1", "/a"]) {
                client.send("GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(client.readResponseHead() != nil)
            }
            stage.gate.open()
            _ = clients[2].readResponse()
        }
        try trial.verify(isMet: { $0["upstream"]?["error"] == "too_many_streams" }, isHelped: { $0["status"] == 200 })
    }

    // MARK: Failure scopes

    private static func stopped(_ kind: FailureScopeKind) -> AdviceTrial {
        /// Stores /a, then makes the upstream fail until its failure scope opens. With the change, the upstream has recovered at the end of the
        /// wait, and a request or a check reaches it.
        func failing(
            _ settings: String, _ change: [String: String], _ failure: OriginStep?, wait: Duration = .zero, targets: [String] = ["/a"]
        ) -> AdviceTrial {
            AdviceTrial(settings, .json("{}", ["Cache-Control: max-age=1"]), changes: change.mapValues { .init($0) }) { stage in
                for target in Set(targets) { _ = try stage.play.get(target) }
                stage.play.time.advance(by: .seconds(2))
                if let failure { stage.play.origin.react { _ in [failure] } } else { stage.play.origin.down() }
                for target in targets { _ = try stage.play.get(target) }
                let isRecovering = stage.isChanged && failure != nil
                if isRecovering { stage.play.origin.react { _ in [.json("{}")] } }
                stage.play.time.advance(by: wait)
                if isRecovering {
                    #expect(try eventually { try stage.play.get("/a").isFromUpstream })
                } else {
                    _ = try stage.play.get("/a")
                }
            }
        }
        let unavailable = OriginStep.json("{}", status: "503 No")
        switch kind {
        case .address:
            var trial = failing("failure: {threshold: 1}", ["failure.threshold": "failure: {threshold: 100}"], nil)
            trial.againstCause = ["upstream.url"]
            return trial
        case .key:
            return failing(
                "failure: {recheck: 60s}", ["failure.recheck": "failure: {recheck: 1s}"], unavailable, wait: .seconds(5),
                targets: ["/a", "/a"])
        case .pause:
            return failing(
                "", ["failure.retry_after_limit": "failure: {retry_after_limit: 5s}"],
                .json("{}", status: "503 No", ["Retry-After: 100"]), wait: .seconds(10))
        case .upstream, .route:
            let many = (1...30).map { "/\($0)" }
            return failing("", ["failure.window": "failure: {window: 10m}"], unavailable, wait: .seconds(15), targets: many + ["/a"] + many)
        }
    }

    @Test("requests stopped by the failure memory get advice with their reason", arguments: [FailureScopeKind.address, .key, .pause])
    func stops(_ kind: FailureScopeKind) throws {
        try Self.stopped(kind).verify(isMet: { $0["reason"]?.string == kind.label })
    }

    // MARK: Unusable responses

    @Test("with the advised routes.good.shrink_limit, a shrunken response is accepted")
    func shrunk() throws {
        let route = { (limit: Int) in "routes: [{name: r, path: /**, good: {shrink_limit: \(limit)}}]" }
        let trial = AdviceTrial(
            route(50), .json("[\(String(repeating: "1,", count: 100))1]", ["Cache-Control: max-age=1"]),
            changes: ["routes.good.shrink_limit": .init(route(0))]
        ) { stage in
            _ = try stage.play.get("/a")
            stage.play.time.advance(by: .seconds(2))
            stage.play.origin.react { _ in [.json("[1]")] }
            _ = try stage.play.get("/a")
        }
        try trial.verify(isMet: { $0["reason"] == "shrunk" }, isHelped: { $0["result"] == "miss" })
    }

    @Test(
        "a response that violates a routes.good rule beside a stored response gets advice that names the rule",
        arguments: [
            ("routes.good.min_bytes", "min_bytes: 5"), ("routes.good.must_have", "must_have: [/a]"),
            ("routes.good.must_not_have", "must_not_have: [/b]"),
        ])
    func notGood(_ setting: String, _ demand: String) throws {
        let trial = AdviceTrial(
            "routes: [{name: r, path: /**, good: {\(demand)}}]", .json("{\"a\":1}", ["Cache-Control: max-age=1"]),
            changes: [setting: .init("")]
        ) { stage in
            _ = try stage.play.get("/a")
            stage.play.time.advance(by: .seconds(2))
            stage.play.origin.react { _ in [.json(demand.hasPrefix("must_not") ? "{\"b\":1}" : "{}")] }
            _ = try stage.play.get("/a")
        }
        try trial.verify(isMet: { $0["result"] == "rescued" }, isHelped: { $0["result"] == "miss" })
    }

    @Test("with the advised cache.gone, a stored response is served after the upstream reported the resource gone")
    func gone() throws {
        let trial = AdviceTrial(
            "", .json("{}", ["Cache-Control: max-age=1"]), changes: ["cache.gone": .init("cache: {gone: ignore}")]
        ) { stage in
            _ = try stage.play.get("/a")
            stage.play.time.advance(by: .seconds(2))
            stage.play.origin.react { _ in [.json("{}", status: "410 Gone")] }
            _ = try stage.play.get("/a")
            stage.play.origin.react { _ in [.close] }
            _ = try stage.play.get("/a")
        }
        try trial.verify(isMet: { $0["result"] == "rescued" && $0["status"] == 410 }, isHelped: { $0["status"] == 200 })
    }

    // MARK: Other settings

    @Test("advice covers missing freshness, unknown request fields, cache modes and content above the buffer limit")
    func others() throws {
        let twice = { (stage: AdviceStage) throws in for _ in 0..<2 { _ = try stage.play.get("/a") } }
        try AdviceTrial(
            "", .json("{}"), changes: ["cache.freshness.default": .init("cache: {freshness: {default: 60s}}")], act: twice
        ).verify(isMet: { $0["reason"] == "no_freshness" }, isHelped: { $0["result"] == "hit" })
        try AdviceTrial(
            "", .json("{}"), changes: ["cache.harmless_fields": .init("cache: {harmless_fields: [+x-mood], freshness: {default: 60s}}")]
        ) { stage in
            for mood in ["good", "bad"] { _ = try stage.play.get("/a", [("X-Mood", mood)]) }
        }.verify(isMet: { $0["result"] == "miss" }, isHelped: { $0["result"] == "hit" })
        try AdviceTrial("cache: {mode: offline}", .json("{}"), changes: ["cache.mode": .init("")]).verify(
            isMet: { $0["reason"] == "offline" }, isHelped: { $0["status"] == 200 })
        let content = String(repeating: "x", count: 2_000)
        try AdviceTrial(
            "limits: {request_buffer: 1KiB}", .json("{}"), changes: ["limits.request_buffer": .init("limits: {request_buffer: 4KiB}")]
        ) { _ = try $0.play.request("PUT", "/a", content: content) }.verify(
            isMet: { $0["request_content"]?["outcome"] == "streamed_too_long" }, isHelped: { $0["request_content"]?["outcome"] == "whole" })
    }
}
