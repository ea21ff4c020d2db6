// Tests of requirements of RFC 9111 and of the settings that relax them, over real sockets.

import CachePolicy
import HTTPCore
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Strict conformance to RFC 9111", .play)
struct StrictConformanceTests {
    private static let fresh = "Cache-Control: max-age=60"

    private func isHit(_ response: TestResponse) -> Bool { response["Cache-Status"]?.contains("; hit") == true }

    @Test("content in an unknown coding goes out as it came to requests that allow the coding; other requests reach the upstream")
    func unknownCoding() throws {
        let counter = Counter()
        let origin = ScriptedOrigin { _ in
            [.answer("\(counter.next())\u{1}xyz", type: "application/json", ["Content-Encoding: exi", Self.fresh, "ETag: \"a\""])]
        }
        let play = try ProxyPlay(origin) {
            $0.policy.keepsAny = true
            $0.content.compressFromBytes = 1
        }
        let first = try play.get("/a", [("Accept-Encoding", "exi, gzip")])
        #expect(first.text == "1\u{1}xyz" && first["Content-Encoding"] == "exi" && first["ETag"] == "\"a\"")
        for fields in [[("Accept-Encoding", "exi, gzip")], [("Accept-Encoding", "gzip;q=0, *;q=0.1")], []] {
            let hit = try play.get("/a", fields)
            #expect(isHit(hit) && hit.text == first.text && hit["Content-Encoding"] == "exi" && hit["Content-Length"] == "5")
        }
        #expect(try play.get("/a", [("Accept-Encoding", "exi"), ("Range", "bytes=1-2")]).content == [1, 0x78])
        let other = try play.get("/a", [("Accept-Encoding", "gzip")])
        #expect(other.text == "2\u{1}xyz" && other["Cache-Status"] == "cistern; fwd=vary-miss; stored")
        // A rescue does not use a stored response in a coding that the client does not accept.
        origin.down()
        play.time.advance(by: .seconds(70))
        #expect(try play.get("/a", [("Accept-Encoding", "br")]).status == 502)
        #expect(try play.get("/a", [("Accept-Encoding", "exi")]).text == other.text)
    }

    /// A request after one with `Accept-Encoding: gzip` and `Accept: application/json` was answered in an unknown coding.
    struct CodedRow: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var method = "GET"
        var fields = [("Accept-Encoding", "gzip"), ("Accept", "application/json")]
        let isHit: Bool
    }

    @Test(
        "content in a coding that the request did not allow is a hit for requests with equal Accept fields",
        arguments: [
            CodedRow(testDescription: "the fields of the first request", isHit: true),
            CodedRow(testDescription: "HEAD", method: "HEAD", isHit: true),
            CodedRow(
                testDescription: "a part", fields: [("Accept-Encoding", "gzip"), ("Accept", "application/json"), ("Range", "bytes=1-2")],
                isHit: true),
            CodedRow(
                testDescription: "another order of fields, and a harmless field",
                fields: [("User-Agent", "b"), ("accept", "application/json"), ("accept-encoding", "gzip")], isHit: true),
            CodedRow(testDescription: "no Accept-Encoding: all codings are allowed", fields: [], isHit: true),
            CodedRow(testDescription: "another coding", fields: [("Accept-Encoding", "br"), ("Accept", "application/json")], isHit: false),
            CodedRow(
                testDescription: "an additional coding", fields: [("Accept-Encoding", "gzip, br"), ("Accept", "application/json")],
                isHit: false),
            CodedRow(testDescription: "another Accept", fields: [("Accept-Encoding", "gzip"), ("Accept", "*/*")], isHit: false),
        ], [false, true])
    func codingOfOwnRequest(row: CodedRow, isRestarted: Bool) throws {
        let counter = Counter()
        let origin = ScriptedOrigin { request in
            if request["If-None-Match"] != nil { return [.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\(Self.fresh)\r\n\r\n")] }
            let fields = ["Content-Encoding: exi", Self.fresh, "ETag: \"a\""]
            return [.answer("\(counter.next())\u{1}xyz", type: "application/json", fields)]
        }
        let play = try ProxyPlay(origin) { $0.policy.keepsAny = true }
        let own = [("Accept-Encoding", "gzip"), ("Accept", "application/json")]
        #expect(try play.get("/a", own).text == "1\u{1}xyz")
        // A 304 for the equal request confirms the copy.
        play.time.advance(by: .seconds(70))
        #expect(try play.get("/a", own).text == "1\u{1}xyz")
        if isRestarted {
            play.flushStore()
            try play.restart()
        }
        let response = try play.request(row.method, "/a", row.fields)
        #expect(isHit(response) == row.isHit, "\(response["Cache-Status"] ?? "")")
        #expect(response["Content-Encoding"] == "exi")
        #expect(counter.next() == (row.isHit ? 2 : 3))
        // In an outage the copy serves an equal request, and no request that does not accept its coding.
        guard row.isHit else { return }
        origin.down()
        play.time.advance(by: .seconds(70))
        #expect(try play.get("/a", own).text == "1\u{1}xyz")
        #expect(try play.get("/a", [("Accept-Encoding", "br")]).status == 502)
    }

    @Test("no-transform: content is kept in its coding where every response is kept")
    func noTransform() throws {
        let origin = ScriptedOrigin { _ in
            [
                .sendBytes(
                    Array(
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: zstd\r\nContent-Length: 11\r\nCache-Control: max-age=60, no-transform\r\n\r\n"
                            .utf8) + [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x02, 0x11, 0x00, 0x00, 0x7b, 0x7d])
            ]
        }
        let play = try ProxyPlay(origin) { $0.policy.keepsAny = true }
        let first = try play.get("/a", [("Accept-Encoding", "zstd")])
        #expect(first["Content-Encoding"] == "zstd" && first.content.count == 11)
        let hit = try play.get("/a", [("Accept-Encoding", "zstd")])
        #expect(isHit(hit) && hit["Content-Encoding"] == "zstd" && hit.content == first.content)
        #expect(!isHit(try play.get("/a", [("Accept-Encoding", "gzip")])))
    }

    @Test("a request with no-transform gets stored content as it is (RFC 9111 §5.2.1.6)")
    func requestNoTransform() throws {
        let long = "[" + String(repeating: "1, ", count: 500) + "1]"
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(long, [Self.fresh])] }) { $0.content.compressFromBytes = 1 }
        let accepting = ("Accept-Encoding", "gzip")
        _ = try play.get("/a", [accepting])
        #expect(try play.get("/a", [accepting])["Content-Encoding"] == "gzip")
        let plain = try play.get("/a", [accepting, ("Cache-Control", "no-transform")])
        #expect(isHit(plain) && plain["Content-Encoding"] == nil && plain.text == long)
    }

    @Test(
        "Set-Cookie in a 304 or HEAD response is stored, stripped or prevents the update, as configured",
        arguments: SetCookieTreatment.allCases, ["GET", "HEAD"])
    func cookies(treatment: SetCookieTreatment, method: String) throws {
        let counter = Counter()
        let update = "ETag: \"a\"\r\n\(Self.fresh)\r\nX-New: 1\r\nSet-Cookie: s=2\r\n\r\n"
        let origin = ScriptedOrigin { request in
            if counter.next() == 1 { return [.json("1", ["Cache-Control: max-age=10", "ETag: \"a\""])] }
            if request.method == "HEAD" {
                return [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n" + update)]
            }
            return [.send("HTTP/1.1 304 Not Modified\r\n" + update)]
        }
        let play = try ProxyPlay(origin) { $0.policy.setCookie = treatment }
        _ = try play.get("/a")
        play.time.advance(by: .seconds(20))
        #expect(try play.request(method, "/a").all("Set-Cookie") == ["s=2"])
        let then = try play.get("/a", [("Cache-Control", "max-stale")])
        #expect(isHit(then))
        #expect(then.all("Set-Cookie") == (treatment == .keep ? ["s=2"] : []))
        #expect(then["X-New"] == (treatment == .refuse ? nil : "1"))
    }

    @Test("in strict mode a HEAD response with equal length but no validator freshens the stored response", arguments: Strictness.allCases)
    func head(strictness: Strictness) throws {
        let origin = ScriptedOrigin { request in
            request.method == "HEAD"
                ? [.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\(Self.fresh)\r\nX-New: 1\r\n\r\n")]
                : [.json("1", ["Cache-Control: max-age=10"])]
        }
        let play = try ProxyPlay(origin) { $0.policy.strictness = strictness }
        _ = try play.get("/a")
        play.time.advance(by: .seconds(20))
        _ = try play.request("HEAD", "/a")
        let then = try play.get("/a")
        #expect(isHit(then) == (strictness == .strict) && (then["X-New"] == "1") == (strictness == .strict))
    }

    @Test("an invalid Age and dates in any letter case do not make a response stale")
    func ageAndDates() throws {
        let origin = ScriptedOrigin { request in
            let fields = request.target == "/age" ? ["Age: soon", Self.fresh] : ["Expires: tHU, 01 jan 2099 00:00:00 gmt"]
            return [.json("1", fields)]
        }
        let play = try ProxyPlay(origin)
        for target in ["/age", "/date"] {
            _ = try play.get(target)
            let hit = try play.get(target)
            #expect(isHit(hit) && hit["Age"] == "0", "\(target)")
        }
    }

    @Test("store_errors: a fresh 400 is stored only in strict mode", arguments: [true, false])
    func errors(isLetter: Bool) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", status: "400 Bad Request", [Self.fresh])] }) {
            $0.policy.keepsAny = true
            $0.policy.keepsAnyError = isLetter
        }
        _ = try play.get("/a")
        let second = try play.get("/a")
        #expect(second.status == 400 && isHit(second) == isLetter)
    }
}
