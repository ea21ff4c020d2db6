// Tests of bytes that belong to no request (RFC 9112 §9.2): surplus, duplicate, late and early ones, with and without TLS. Each response
// names its request, and must not reach another one.

import Figures
import HTTPCore
import TestSupport
import Testing

@testable import Upstream

/// A way in which an origin sends more than its response.
struct StrayBytes: Sendable, CustomTestStringConvertible {
    let name: String
    var method = "GET"
    /// Pieces of the right response. Over TLS each is one record.
    let records: [String]
    /// Whether the last piece includes the surplus.
    var isTogether = true
    /// Whether the surplus is sent after the response was read.
    var isLate = false

    var testDescription: String { name }

    static func response(_ target: String, filler: Int = 0) -> String {
        let content = "\"\(target)\"" + String(repeating: " ", count: filler)
        return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(content.utf8.count)\r\n\r\n" + content
    }

    static let stray = response("/stray")

    func steps(_ surplus: String, whole: Gate, sent: Gate) -> [OriginStep] {
        guard !isLate else { return [.records(records), .pass(whole), .send(surplus), .delivered, .open(sent)] }
        let pieces = isTogether ? records.dropLast() + [records[records.count - 1] + surplus] : records + [surplus]
        return [.records(Array(pieces)), .open(sent)]
    }

    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n"
    private static let chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    private static let long = response("/first", filler: 20_000)

    private static let framings: [StrayBytes] = [
        StrayBytes(name: "a length", records: [head + "\"/first\""]),
        StrayBytes(name: "Content-Length, with the head in its own record", records: [head, "\"/first\""]),
        StrayBytes(name: "20 kB", records: [String(long.prefix(16_000)), String(long.dropFirst(16_000))]),
        StrayBytes(name: "chunks", records: [chunkedHead, "8\r\n\"/first\"\r\n0\r\n\r\n"]),
        StrayBytes(name: "HEAD", method: "HEAD", records: [head]),
        StrayBytes(name: "204", method: "DELETE", records: ["HTTP/1.1 204 No Content\r\n\r\n"]),
        StrayBytes(name: "304", records: ["HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n"]),
        StrayBytes(name: "no content", method: "PUT", records: ["HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]),
        StrayBytes(name: "103 and a length", records: ["HTTP/1.1 103 Early Hints\r\n\r\n", head + "\"/first\""]),
    ]

    static let all: [StrayBytes] = framings.flatMap { row in
        [("in the same record", true, false), ("in another record", false, false), ("late", false, true)].map { place, isTogether, isLate in
            StrayBytes(
                name: "\(row.name), \(place)", method: row.method, records: row.records, isTogether: isTogether, isLate: isLate)
        }
    }
}

@Suite("Unsolicited bytes from the upstream", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct StrayBytesTests {
    private static let surpluses = [StrayBytes.stray, StrayBytes.stray + StrayBytes.stray, "H", "\r\n"]

    private func origin(_ isTLS: Bool, _ script: @escaping ScriptedOrigin.Script) -> ScriptedOrigin {
        ScriptedOrigin(tls: isTLS ? SharedCertificates.tls : nil, script)
    }

    private func expectOwn(_ recorder: Recorder, _ target: String, _ comment: String) {
        #expect(recorder.end() == .success(true), "\(comment): \(target)")
        #expect(recorder.now.content.elementsEqual("\"\(target)\"".utf8), "\(comment): \(target)")
    }

    @Test(
        "surplus bytes end the connection and reach no client, whether the next request waits or comes later", arguments: StrayBytes.all,
        [false, true])
    func surplus(_ row: StrayBytes, isTLS: Bool) {
        for surplus in Self.surpluses {
            let (whole, sent) = (Gate(), Gate())
            let origin = origin(isTLS) { request in
                request.target == "/first" ? row.steps(surplus, whole: whole, sent: sent) : [.send(StrayBytes.response(request.target))]
            }
            let asking = Asking(origin, isTLS: isTLS) { $0.maximumConnections = 1 }
            defer { asking.end() }
            let first = asking.ask(row.method, "/first")
            if row.isLate {
                #expect(first.end() != nil)
                whole.open()
                sent.pass()
            }
            let waiting = ["/user-1", "/user-2"].map { ($0, asking.ask("GET", $0)) }
            if !row.isLate { #expect(first.end() != nil) }
            #expect(!String(decoding: first.now.content, as: UTF8.self).contains("stray"))
            for (target, recorder) in waiting { expectOwn(recorder, target, row.name) }
            for target in ["/user-3", "/user-4"] { expectOwn(asking.ask("POST", target), target, row.name) }
            #expect(asking.counters[.upstreamConnections] >= 2, "\(row.name)")
            #expect(asking.ended(.surplus) + asking.ended(.error) >= 1, "\(row.name)")
        }
    }

    @Test("bytes that arrive after the next request was written affect only that request", arguments: [false, true])
    func tooLate(isTLS: Bool) {
        let origin = origin(isTLS) { request in
            request.target == "/second"
                ? [.records([StrayBytes.stray, StrayBytes.response("/second")])] : [.send(StrayBytes.response(request.target))]
        }
        let asking = Asking(origin, isTLS: isTLS) { $0.maximumConnections = 1 }
        defer { asking.end() }
        expectOwn(asking.ask("GET", "/first"), "/first", "before")
        let harmed = asking.ask("GET", "/second")
        let waiting = ["/third", "/fourth"].map { ($0, asking.ask("GET", $0)) }
        #expect(harmed.end() != nil)
        for (target, recorder) in waiting { expectOwn(recorder, target, "after") }
        #expect(asking.counters[.upstreamConnections] == 2)
        #expect(asking.ended(.surplus) == 1)
    }

    @Test(
        "a response that arrives before the request head is written is discarded: a safe request is retried, a write fails", .slow,
        arguments: [false, true])
    func early(isTLS: Bool) {
        let long = "/" + String(repeating: "x", count: 4 << 20)
        for (method, isRepeated) in [("GET", true), ("POST", false)] {
            let (gate, ended) = (Gate(), Gate())
            let origin = origin(isTLS) { request in
                guard request.target == "/first" else { return [.json("\"late\"")] }
                // The origin does not read the second request, which has begun to arrive.
                return [.send(StrayBytes.response("/first")), .pass(gate), .awaitInput, .send(StrayBytes.stray), .pass(ended), .cut]
            }
            let asking = Asking(origin, isTLS: isTLS)
            defer { asking.end() }
            expectOwn(asking.ask("GET", "/first"), "/first", method)
            let second = asking.ask(method, long)
            gate.open()
            if isRepeated {
                #expect(second.end() == .success(true))
                #expect(second.now.content.elementsEqual("\"late\"".utf8))
            } else {
                #expect(second.end() == .failure(.protocolError))
            }
            ended.open()
            #expect(asking.ended(.earlyBytes) == 1)
        }
    }

    @Test("bytes that arrive before a request is sent move it to another connection, also a write", arguments: [false, true])
    func beforeRequest(isTLS: Bool) {
        let (gate, sent) = (Gate(), Gate())
        let origin = origin(isTLS) { request in
            request.target == "/first"
                ? [.send(StrayBytes.response("/first")), .pass(gate), .send(StrayBytes.stray), .delivered, .open(sent)]
                : [.send(StrayBytes.response(request.target))]
        }
        let asking = Asking(origin, isTLS: isTLS)
        defer { asking.end() }
        expectOwn(asking.ask("GET", "/first"), "/first", "before")
        // Runs in the batch of events in which the request gets its connection.
        let write = asking.ask("POST", "/second") { _ in
            gate.open()
            sent.pass()
        }
        expectOwn(write, "/second", "behind")
        #expect(asking.counters[.upstreamConnections] == 2)
        #expect(asking.ended(.surplus) == 1)
        #expect(asking.counters[.upstreamRetries] == 0)
    }

    @Test("a response that was sent before any byte of the request arrived is discarded", arguments: [false, true])
    func beforeFirstRequestByte(isTLS: Bool) {
        let content = [UInt8](repeating: 0x20, count: 3 << 18)
        for (method, isRepeated) in [("GET", true), ("POST", false)] {
            let (first, second, ended) = (Gate(), Gate(), Gate())
            let origin = origin(isTLS) { [.send(StrayBytes.response($0.target))] }
            // The origin reads no content, so the next request stays in our send queue.
            origin.reactToExpectation { _ in
                [.pass(first), .send(StrayBytes.response("/first")), .pass(second), .send(StrayBytes.stray), .pass(ended), .cut]
            }
            let asking = Asking(origin, isTLS: isTLS)
            defer { asking.end() }
            expectOwn(asking.ask("GET", "/before"), "/before", method)
            var request = Asking.request("POST", "/first", content: .length(content.count))
            request.fields.append(.expect, "100-continue")
            let before = asking.ask(request) { transfer in
                _ = transfer?.write(content.span)
                transfer?.endContent()
            }
            first.open()
            expectOwn(before, "/first", method)
            let harmed = asking.ask(method, "/second")
            second.open()
            if isRepeated {
                expectOwn(harmed, "/second", method)
            } else {
                #expect(harmed.end() == .failure(.protocolError))
            }
            ended.open()
            #expect(asking.ended(.earlyBytes) == 1)
        }
    }

    /// On the first connection each response is sent after the next request, so one surplus response shifts all later ones. HTTP/1.1 does
    /// not number responses: while requests follow closely, no client can detect the shift.
    @Test(
        "a surplus response affects only requests that follow closely, until their connection becomes idle", .slow,
        arguments: [false, true])
    func shifted(isTLS: Bool) throws {
        let all = 1...64
        let gates = all.map { _ in Gate() }
        let origin = origin(isTLS) { request in
            let number = Int(request.target.dropFirst()) ?? 0
            let gate = OriginStep.pass(gates[number - 1])
            let response = OriginStep.send(StrayBytes.response(request.target))
            guard request.connection == 1 else { return [response] }
            return number == 1 ? [response, gate, .send(StrayBytes.stray)] : [gate, response]
        }
        let asking = Asking(origin, isTLS: isTLS)
        defer {
            for gate in gates { gate.open() }
            asking.end()
        }
        var wrong: [Int] = []
        for number in all {
            let recorder = asking.ask("GET", "/\(number)")
            if number > 1 { gates[number - 2].open() }
            #expect(recorder.end() == .success(true))
            if !recorder.now.content.elementsEqual("\"/\(number)\"".utf8) { wrong.append(number) }
            // The first connection now pauses as soon as the spare connection is ready.
            if number == 16 { #expect(try eventually { asking.counters[.upstreamConnections] == 2 }) }
            // Its last response arrives while it is idle, which ends it.
            if number == 17 { #expect(try eventually { asking.ended(.surplus) > 0 }) }
        }
        #expect(wrong == Array(2...16))
    }
}
