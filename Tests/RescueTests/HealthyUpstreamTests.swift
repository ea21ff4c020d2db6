// Tests that responses of a healthy upstream reach the client, even unexpected ones. Over real sockets, with clients of several addresses
// behind a trusted proxy.

import Addresses
import CachePolicy
import Downstream
import JSON
import ReverseProxy
import TestSupport
import Testing

@Suite("Valid upstream responses are not replaced", .play, .clientProtocols)
struct HealthyUpstreamTests {
    private static let good = "{\"id\":1}"
    private static let noContent = OriginStep.send("HTTP/1.1 204 No Content\r\n\r\n")
    /// How Spring and Express respond if there is nothing to send.
    private static let nothing = OriginStep.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    private static let notFound = OriginStep.json("{}", status: "404 Not Found")
    private static let page = OriginStep.answer("<p>", type: "text/html", status: "403 Forbidden")

    private static func moved(_ location: String) -> OriginStep {
        .send("HTTP/1.1 302 Found\r\nLocation: \(location)\r\nContent-Length: 0\r\n\r\n")
    }

    /// JSON with one byte that is invalid UTF-8.
    private static func latin(_ type: String = "application/json; charset=iso-8859-1", _ fields: String = "") -> [OriginStep] {
        let content = Array("{\"name\":\"caf".utf8) + [0xe9] + Array("\"}".utf8)
        return [
            .send("HTTP/1.1 200 OK\r\nContent-Type: \(type)\r\n\(fields)Content-Length: \(content.count)\r\n\r\n"), .sendBytes(content),
        ]
    }

    private func play(_ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        let trusted = try NetworkList.local()
        return try ProxyPlay(ScriptedOrigin { _ in [.json(Self.good)] }) {
            $0.downstream.trustedProxies = trusted
            configure(&$0)
        }
    }

    private func from(_ client: Int, _ more: [(String, String)] = []) -> [(String, String)] {
        [("X-Forwarded-For", "192.0.2.\(client)")] + more
    }

    // MARK: Statuses

    @Test(
        "a response that the client can use is passed on at once, and the stored response is kept",
        arguments: [
            noContent, nothing, .send("HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n"), moved("https://files.test/1?sig=a"),
            moved("/results/1"), page, notFound, .json("{}", status: "401 Unauthorized"),
        ])
    func usableResponses(_ step: OriginStep) throws {
        let play = try play()
        _ = try play.get("/a")
        play.origin.react { _ in [step] }
        for _ in 0..<3 { #expect(try play.get("/a")["Cache-Status"]?.contains("hit") != true) }
        play.origin.react { _ in [.answer("<p>", type: "text/html")] }
        #expect(try play.get("/a")["Cache-Status"]?.contains("unexpected_type") == true)
    }

    @Test("redirects with a different URL per target are passed on; one URL for several targets is treated as a gateway's")
    func signedURLs() throws {
        let play = try play()
        for target in 1...9 { _ = try play.get("/f/\(target)") }
        play.origin.react { [Self.moved("https://files.test/\($0.target.dropFirst(3))?sig=\($0.target.count)")] }
        for target in 1...9 { #expect(try play.get("/f/\(target)").status == 302) }
        play.origin.react { [Self.moved("https://gate.test/start?from=\($0.target)")] }
        #expect(try (1...3).map { try play.get("/f/\($0)").status } == [302, 200, 200])
        #expect(try play.get("/f/1").text == Self.good)
        #expect(try play.metric("cistern_rescued_requests_total{cause=\"redirected\"}") == 3)
    }

    @Test("a gateway failure for many targets is rescued until one target succeeds", arguments: [notFound, page])
    func gateway(_ step: OriginStep) throws {
        let play = try play()
        for target in 0..<20 { _ = try play.get("/\(target)", from(target % 2)) }
        play.time.advance(by: .seconds(60))
        play.origin.react { _ in [step] }
        let replaced = try (0..<20).map { try play.get("/\($0)", from($0 % 2)).text == Self.good }
        #expect(replaced == Array(repeating: false, count: 9) + Array(repeating: true, count: 11))
        #expect(try play.get("/0", from(7)).text == Self.good)
        #expect(try play.metric("cistern_rescued_requests_total{cause=\"crowd\"}") == 12)
        // Responses are forwarded for targets without a stored response, and if they are of another kind.
        #expect(try play.get("/new").text != Self.good)
        play.origin.react { _ in [Self.moved("/results/1")] }
        #expect(try play.get("/4").status == 302)
        play.origin.react { $0.target == "/3" ? [.json(Self.good)] : [step] }
        #expect(try play.get("/3").status == 200 && play.get("/4").text != Self.good)
    }

    @Test("clients that poll queues receive each 204 and empty 200, also beside a failing gateway", arguments: [noContent, nothing])
    func emptyQueues(_ empty: OriginStep) throws {
        let play = try play()
        for target in 0..<20 { _ = try play.get("/\(target)", from(target % 2)) }
        play.time.advance(by: .seconds(60))
        play.origin.react { _ in [empty] }
        for target in 0..<40 { #expect(try play.get("/\(target % 20)", from(target % 2)).text.isEmpty) }
        #expect(try play.metric("cistern_failure_scopes{scope=\"key\"}") == 0)
        play.origin.react { [$0.target == "/0" ? empty : Self.notFound] }
        let replaced = try (1..<20).map { try play.get("/\($0)", from($0 % 2)).text == Self.good }
        #expect(replaced.last == true)
        #expect(try play.get("/0", from(0)).text.isEmpty)
        play.origin.down()
        #expect(try play.get("/0", from(0)).text == Self.good)
    }

    @Test(
        "empty content with a type, or without a length, is a failure",
        arguments: [
            [.json("")], [.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")],
            [.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"), .close],
        ] as [[OriginStep]])
    func emptyFailures(_ steps: [OriginStep]) throws {
        let play = try play()
        _ = try play.get("/a")
        play.origin.react { _ in steps }
        #expect(try play.get("/a").text == Self.good)
        #expect(try play.metric("cistern_rescued_requests_total{cause=\"empty_content\"}") == 1)
    }

    @Test("failures seen by one client alone do not count as a gateway failure")
    func oneClient() throws {
        let play = try play()
        for target in 0..<30 { _ = try play.get("/\(target)", from(target < 20 ? 1 : 2)) }
        play.time.advance(by: .seconds(60))
        for target in 20..<30 { _ = try play.get("/\(target)", from(2)) }
        play.origin.react { _ in [Self.notFound] }
        for target in 0..<20 { #expect(try play.get("/\(target)", from(1)).status == 404) }
        #expect(try play.get("/20", from(2)).status == 404)
    }

    // MARK: JSON

    @Test("JSON with other bytes, charset or BOM is passed on and replaces only similar responses")
    func lenient() throws {
        let play = try play()
        _ = try play.get("/a")
        play.origin.react { _ in Self.latin() }
        for target in ["/a", "/a", "/b"] {
            let response = try play.get(target)
            #expect(response.content.contains(0xe9) && response["ETag"] == nil && response["Cache-Status"]?.contains("hit") != true)
        }
        play.origin.react { _ in Self.latin("application/json", "X-New: 1\r\n") }
        for target in ["/a", "/b"] { #expect(try play.get(target)["X-New"] == "1") }
        #expect(try play.metric("cistern_not_stored_total{reason=\"invalid_json\"}") == 3)
        play.origin.down()
        #expect(try play.get("/a").text == Self.good)
        let kept = try play.get("/b")
        #expect(kept.content.contains(0xe9) && kept["X-New"] == "1")
        // Strictly valid JSON replaces it.
        play.origin.up()
        play.origin.react { _ in [.json(Self.good)] }
        play.time.advance(by: .seconds(60))
        var attempts = 0
        while try play.get("/b").text != Self.good, attempts < 100 { attempts += 1 }
        play.origin.down()
        #expect(try play.get("/b").text == Self.good)
    }

    @Test("truncated JSON is always invalid; JSON extensions are valid only if configured", arguments: [false, true])
    func extensions(isLenient: Bool) throws {
        let play = try play { $0.policy.reading = isLenient ? .extensions : .otherBytes }
        let texts = ["{\"a\":NaN}", ")]}'\n{\"a\":1}", "[Infinity]"]
        // Each path fails once, because a second failure in a row would be remembered.
        for index in 0...texts.count { _ = try play.get("/\(index)") }
        for (index, text) in texts.enumerated() {
            play.origin.react { _ in [.json(text)] }
            #expect(try play.get("/\(index)").text == (isLenient ? text : Self.good))
        }
        play.origin.react { _ in [.json("{\"a\":\"NaN\"")] }
        #expect(try play.get("/\(texts.count)").text == Self.good)
        #expect(try play.metric("cistern_rescued_requests_total{cause=\"invalid_json\"}") == (isLenient ? 1 : 4))
    }

    @Test("another content type is rescued for requests with that Accept field, until other requests get good JSON")
    func otherForms() throws {
        let play = try play()
        let (json, any) = ([("Accept", "application/json")], [("Accept", "*/*")])
        _ = try play.get("/a", json)
        play.origin.react { $0["Accept"] == "*/*" ? [.answer("text", type: "text/plain")] : [.json(Self.good)] }
        #expect(try play.get("/a", any).text == Self.good && play.get("/a", json).text == Self.good)
        for _ in 0..<3 { #expect(try play.get("/a", any).text == "text") }
        // All clients get this response, so it counts as a gateway's.
        play.time.advance(by: .seconds(60))
        play.origin.react { _ in [.answer("text", type: "text/plain")] }
        #expect(try play.get("/a", any).text == Self.good && play.get("/a", json).text == Self.good)
    }

    // MARK: A client's own writes

    @Test(
        "a client that has just written receives the upstream's response; other clients and targets are rescued as usual",
        arguments: [(noContent, false), (.json(""), true), (moved("/login"), true), (page, false)])
    func ownWrite(_ step: OriginStep, isReplacedForOthers: Bool) throws {
        let play = try play { $0.otherRoute.invalidatesTarget = false }
        for target in ["/a", "/b"] { _ = try play.get(target) }
        let isRescued = { (target: String, client: Int) in try play.get(target + "?x=1", from(client)).text == Self.good }
        for target in ["/a", "/b"] { _ = try isRescued(target, 1) }
        #expect(try play.request("POST", "/a", from(1), content: "{}").status == 200)
        play.origin.react { _ in [step] }
        #expect(try !isRescued("/a", 1))
        #expect(try isRescued("/a", 2) == isReplacedForOthers && isRescued("/b", 1) == isReplacedForOthers)
        play.time.advance(by: .seconds(11))
        #expect(try isRescued("/a", 1) == isReplacedForOthers)
        play.origin.down()
        #expect(try isRescued("/a", 1))
    }

    // MARK: keep_if and GraphQL

    @Test("a response excluded by keep_if is passed on, is no failure, and keeps the stored response")
    func keepIf() throws {
        let play = try play { settings in
            settings.otherRoute.kept.mustNotHave = ["/errors"].compactMap { JSONPointer($0) }
        }
        _ = try play.get("/a")
        play.origin.react { _ in [.json("{\"errors\":[1],\"data\":{}}")] }
        for _ in 0..<6 { #expect(try play.get("/a")["Cache-Status"]?.contains("detail=keep_if") == true) }
        #expect(try play.get("/b").text.contains("errors"))
        let why = JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first
        #expect(why?["advice"]?.array?.compactMap { $0["setting"]?.string } == ["routes.keep_if.must_have"])
        #expect(try play.metric("cistern_failure_scopes{scope=\"key\"}") == 0)
        play.origin.down()
        #expect(try play.get("/a").text == Self.good)
        #expect(try play.get("/b").status == 502)
    }

    @Test("an unknown persisted query is passed on and keeps the stored response, also without a route")
    func persisted() throws {
        let play = try play()
        let target = "/graphql?extensions=%7B%22persistedQuery%22%3A%7B%22sha256Hash%22%3A%22a%22%7D%7D"
        _ = try play.get(target)
        let unknown = "{\"errors\":[{\"message\":\"PersistedQueryNotFound\"}]}"
        play.origin.react { _ in [.json(unknown)] }
        #expect(try play.get(target).text == unknown)
        #expect(try play.metric("cistern_not_stored_total{reason=\"graphql_error\"}") == 1)
        // Other spellings have the same cache key.
        for spelled in ["%65xtensions", "e%78tensions", "EXTENSIONS"] {
            #expect(try play.get(target.replacing("extensions", with: spelled)).text == unknown)
        }
        play.origin.down()
        #expect(try play.get(target).text == Self.good)
    }

    // MARK: Gone, and revoked permissions

    @Test(
        "a 404 marks a resource as gone only if its request matches that of the stored response",
        arguments: [("Accept", "text/html"), ("Accept-Language", "de"), ("Accept-Encoding", "br")])
    func equality(name: String, value: String) throws {
        let play = try play()
        _ = try play.get("/a", [("Accept", "application/json")])
        play.origin.react { _ in [Self.notFound] }
        let fields = name == "Accept" ? [(name, value)] : [("Accept", "application/json"), (name, value)]
        #expect(try play.get("/a", fields).status == 404)
        #expect(try play.metric("cistern_gone_total{event=\"remembered\"}") == 0)
        #expect(try play.get("/a", [("Accept", "application/json")]).status == 404)
        #expect(try play.metric("cistern_gone_total{event=\"remembered\"}") == 1)
    }

    @Test(
        "a JSON 403 blocks a user's stored response until a later success, but not a rate limit or an HTML page",
        arguments: [
            (["Authorization"], "application/json", "", true), ([], "application/json", "", false),
            (["Authorization"], "text/html", "", false), (["Authorization"], "application/json", "Retry-After: 5", false),
            (["Authorization"], "application/json", "X-RateLimit-Remaining: 0", false),
            (["Authorization"], "application/json", "X-RateLimit-Remaining: 10", true),
            (["Authorization"], "application/json", "RateLimit: \"default\";r=0;t=5", false),
            (["Authorization"], "application/json", "RateLimit: limit=100, remaining=0, reset=5", false),
        ] as [([String], String, String, Bool)])
    func rights(credentials: [String], type: String, field: String, isTaken: Bool) throws {
        let play = try play()
        let fields = credentials.map { ($0, "Bearer a") }
        _ = try play.get("/me", fields)
        play.origin.react { _ in [.answer("{}", type: type, status: "403 Forbidden", field.isEmpty ? [] : [field])] }
        #expect(try play.get("/me", fields).status == 403)
        play.origin.down()
        #expect(try play.get("/me", fields).status == (isTaken ? 403 : 200))
        let why = String(decoding: try play.admin("GET", "/-/why?path=/me&last=1").content, as: UTF8.self)
        #expect(why.contains("that this user may not read it (403)") == isTaken && !why.contains("that it is gone"))
        #expect(try play.get("/me", [("Authorization", "Bearer b")]).status == 502 || credentials.isEmpty)
        play.origin.up()
        play.origin.react { _ in [.json(Self.good)] }
        play.time.advance(by: .seconds(60))
        var attempts = 0
        while try play.get("/me", fields)["Cache-Status"]?.contains("hit") != false, attempts < 100 { attempts += 1 }
        play.origin.down()
        #expect(try play.get("/me", fields).text == Self.good)
    }
}
