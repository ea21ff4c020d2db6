// Tests of TLS to the upstream: sessions, tickets, keys, ends, and changed files. The peers are Debian's nginx and OpenSSL.

import CacheStore
import Figures
import HTTPCore
import Reactor
import TestSupport
import Testing

@testable import Upstream

@Suite("TLS to the upstream", .play, .enabled(if: WebServer.isInstalled, "nginx or openssl is missing: make test installs them"))
struct TLSTests {
    private func asking(_ port: UInt16, _ authority: String, _ change: (inout UpstreamSettings) -> Void = { _ in }) -> Asking {
        var settings = UpstreamSettings(host: "127.0.0.1", port: port)
        settings.isTLS = true
        settings.caFile = authority
        change(&settings)
        return Asking(settings)
    }

    @Test("every connection except the first resumes a TLS session, as reported by nginx", arguments: ["TLSv1.2", "TLSv1.3"])
    func resumed(version: String) throws {
        let certificates = try TestCertificates()
        var setup = WebServer.Setup()
        setup.listens = "ssl"
        setup.certificate = try certificates.make("server")
        setup.more = "ssl_protocols \(version); keepalive_timeout 0;"
        setup.response = "return 200 '$ssl_protocol $ssl_session_reused';"
        let server = try WebServer(setup)
        let asking = asking(server.port, certificates.authority)
        defer { asking.end() }
        let seen = (0..<10).map { _ in
            let recorder = asking.ask("GET", "/a")
            #expect(recorder.end() == .success(true))
            return String(decoding: recorder.now.content, as: UTF8.self)
        }
        #expect(seen == ["\(version) ."] + [String](repeating: "\(version) r", count: 9))
        #expect(asking.counters[.upstreamHandshakesFull] == 1)
        #expect(asking.counters[.upstreamHandshakesResumed] == 9)
    }

    @Test("TLS sessions are resumed however the earlier connections ended", arguments: [OriginStep.close, .cut], [false, true])
    func resumedAfterEnds(end: OriginStep, isOld: Bool) {
        let origin = ScriptedOrigin(tls: isOld ? SharedCertificates.oldTLS : SharedCertificates.tls) { _ in [.json("1"), end] }
        let asking = Asking(origin, isTLS: true)
        defer { asking.end() }
        for _ in 0..<10 { #expect(asking.ask("GET", "/a").end() == .success(true)) }
        #expect(origin.resumedCount == 9)
        #expect(origin.connectionCount == 10)
    }

    @Test("session tickets and key updates do not end a kept connection", arguments: [OriginStep.ticket, .keyUpdate])
    func bareRecords(step: OriginStep) {
        let origin = ScriptedOrigin(tls: SharedCertificates.tls) { request in
            [.json("\"\(request.target)\""), step, step]
        }
        let asking = Asking(origin, isTLS: true)
        defer { asking.end() }
        for number in 0..<12 {
            let recorder = asking.ask(number % 2 == 0 ? "GET" : "POST", "/\(number)")
            #expect(recorder.end() == .success(true))
            #expect(recorder.now.content.elementsEqual("\"/\(number)\"".utf8))
        }
        #expect(asking.counters[.upstreamConnections] == 1)
    }

    @Test(
        "large content arrives intact in both directions, with TLS records of any size", .slow, arguments: [1, 100, 16_384, 60_000],
        [false, true])
    func contents(pieceBytes: Int, isOld: Bool) {
        let count = pieceBytes == 1 ? 5_000 : 1 << 20
        let text = String(repeating: "0123456789abcdef", count: count / 16)
        let origin = ScriptedOrigin(tls: isOld ? SharedCertificates.oldTLS : SharedCertificates.tls) { request in
            let content = Array(text.utf8)
            let head = "HTTP/1.1 200 OK\r\nX-Count: \(request.content.count)\r\nContent-Length: \(content.count)\r\n\r\n"
            let pieces = stride(from: 0, to: content.count, by: pieceBytes).map { start in
                String(decoding: content[start..<min(content.count, start + pieceBytes)], as: UTF8.self)
            }
            return [.records([head] + pieces)]
        }
        let asking = Asking(origin, isTLS: true)
        defer { asking.end() }
        for _ in 0..<2 {
            let recorder = asking.ask("PUT", "/a", content: .length(text.utf8.count)) { transfer in
                _ = transfer?.write(Array(text.utf8).span)
                transfer?.endContent()
            }
            #expect(recorder.end() == .success(true))
            #expect(recorder.now.content.elementsEqual(text.utf8))
            #expect(origin.requests.last?.content.count == text.utf8.count)
        }
        #expect(asking.counters[.upstreamConnections] == 1)
    }

    @Test("paused content is delivered completely after resuming, including bytes buffered by TLS")
    func paused() {
        let origin = ScriptedOrigin(tls: SharedCertificates.tls) { _ in
            [.records(["HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n"] + (0..<30).map { _ in String(repeating: "x", count: 100) })]
        }
        let asking = Asking(origin, isTLS: true)
        defer { asking.end() }
        // Pauses the transfer for each piece, and resumes it at the end of the batch of events.
        let recorder = Recorder { transfer, event in
            guard event > 0 else { return }
            transfer.pause()
            transfer.client.loop.atEndOfBatch { transfer.resume() }
        }
        #expect(asking.ask("GET", "/a", recorder: recorder).end() == .success(true))
        #expect(recorder.now.content.count == 3_000)
    }

    @Test("a replaced CA file applies to the next connection, and an unreadable one keeps the previous certificates")
    func renewed() throws {
        let origin = ScriptedOrigin(tls: SharedCertificates.tls) { _ in [.json("1"), .close] }
        let directory = TestTools.temporaryDirectory()
        let file = "\(directory.path)/authority.pem"
        let others = try TestCertificates()
        try TestTools.copy(others.authority, to: file)
        let asking = asking(origin.port, file)
        defer { asking.end() }
        #expect(asking.ask("GET", "/a").end() == .failure(.tlsCertificateError))
        try TestTools.copy(SharedCertificates.authority, to: file)
        #expect(asking.ask("GET", "/a").end() == .success(true))
        try TestTools.write("no certificate", to: file)
        let reports = Mutex<[Bool]>([])
        asking.onLoop { $0.onTLSFilesChange = { _, areUsable in reports.withLock { $0.append(areUsable) } } }
        #expect(asking.ask("GET", "/b").end() == .success(true))
        try TestTools.copy(SharedCertificates.authority, to: file)
        #expect(asking.ask("GET", "/b").end() == .success(true))
        #expect(reports.withLock { $0 } == [false, true])
    }

    @Test(
        "an upstream that closes during the TLS handshake or does not speak TLS counts as unreachable",
        arguments: [OriginStep.close, .reset, .send("HTTP/1.1 400 Bad Request\r\n\r\n")])
    func noTLS(step: OriginStep) {
        let origin = ScriptedOrigin(greeting: [step]) { _ in [.close] }
        let asking = asking(origin.port, SharedCertificates.authority)
        defer { asking.end() }
        // A reset may arrive before libcurl has reported the connection.
        var errors = [UpstreamError.Kind.tlsProtocolError]
        if case .reset = step { errors.append(.connectionRefused) }
        let end = asking.ask("POST", "/a").end()
        #expect(errors.contains { end == .failure($0) && asking.attempts == [$0] }, "\(end), \(asking.attempts)")
    }
}
