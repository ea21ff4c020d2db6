// Tests an exchange for each reason for not storing: the setting that `why` names makes Cistern store the response. The compiler requires a
// row for a new reason. If `why` names no setting, the test tries all settings, and none helps.

import CachePolicy
import Explanation
import JSON
import Settings
import TestSupport
import Testing

/// One exchange without a stored response, and the advice for it.
private struct NotStoredWay {
    var method = "GET"
    var target = "/a"
    var fields: [(String, String)] = []
    var content: String?
    var response: [OriginStep] = [.json("{}")]
    var settings = ""
    /// Changed settings, by the advised setting.
    var changes: [String: AdviceTrial.Change] = [:]
    /// Request that is sent before the upstream responds.
    var meanwhile: (method: String, fields: [(String, String)])?

    static func route(_ settings: String) -> String { "routes: [{name: r, path: /**, \(settings)}]\n" }

    /// A request.
    init(_ method: String = "GET", _ fields: [(String, String)] = [], content: String? = nil, _ changes: [String: String] = [:]) {
        (self.method, self.fields, self.content) = (method, fields, content)
        self.changes = changes.mapValues { AdviceTrial.Change($0) }
    }

    /// A response.
    init(_ response: OriginStep..., settings: String = "", changes: [String: String] = [:]) {
        (self.response, self.settings) = (response, settings)
        self.changes = changes.mapValues { AdviceTrial.Change($0) }
    }

    /// Content of a POST on a route that uses it in the cache key.
    init(keptByContent content: String, _ limits: String, _ changes: [String: String] = [:]) {
        self.init("POST", [("Content-Type", "application/json")], content: content, changes)
        settings = Self.route("methods: [POST], content_limit: 100") + limits
    }

    init(meanwhile method: String, _ fields: [(String, String)] = [], _ changes: [String: String] = [:]) {
        meanwhile = (method, fields)
        self.changes = changes.mapValues { AdviceTrial.Change($0) }
    }

    /// Table with a line for each reason. nil for a reason that only imported archives or several requests have.
    init?(to reason: NotStoredReason) {
        let any = "cache: {store: any}"
        switch reason {
        case .methodNotCacheable:
            self.init("POST", [("Content-Type", "application/json")], content: "[1]", ["routes.methods": Self.route("methods: [POST]")])
        case .requestContent: self.init("GET", content: "{}")
        case .longContent:
            let content = "[\(String(repeating: "1,", count: 60))1]"
            self.init(keptByContent: content, "", ["routes.content_limit": Self.route("methods: [POST], content_limit: 1KiB")])
        case .changingContent: self.init(keptByContent: "{\"query\":\"mutation { a }\"}", "")
        case .unreadContent:
            let content = "[\(String(repeating: "1,", count: 120))1]"
            let route = Self.route("methods: [POST]")
            self.init(keptByContent: content, "")
            settings = route + "limits: {request_buffer: 300, request_buffers: 230}"
        case .connectionUser: self.init("GET", [("Authorization", "Negotiate a")])
        case .cacheOff: self.init(.json("{}"), settings: Self.route("cache: off"), changes: ["routes.cache": Self.route("cache: on")])
        case .rangeRequest: self.init("GET", [("Range", "bytes=0-0")])
        case .preconditions: self.init("GET", [("If-Match", "\"a\"")])
        case .requestNoStore: self.init("GET", [("Cache-Control", "no-store")])
        case .userUnknown:
            self.init("GET", [("Cookie", "locale=en")], ["cache.credential_cookies": "cache: {credential_cookies: [locale]}"])
            response = [.json("{}", ["Cache-Control: private"])]
        case .oneTimeCredentials:
            self.init(
                "GET", [("Authorization", "AWS4-HMAC-SHA256 Credential=a, Signature=b")],
                ["credentials.partition": "credentials: {partition: ignore}"])
        case .authorized:
            self.init("GET", [("Authorization", "Bearer a")], ["cache.credential_fields": "cache: {credential_fields: [authorization]}"])
            settings = "cache: {credential_fields: []}"
        case .notAllowed: self.init("OPTIONS", [("Origin", "https://a.test"), ("Access-Control-Request-Method", "PUT")])
        // Tested with the requests that these reasons need (UnknownFieldTests, ResponseMemoryPlays).
        case .changingField, .memoryLimit: return nil
        case .outdated: self.init(meanwhile: "GET", [("Cache-Control", "no-cache")])
        case .invalidated: self.init(meanwhile: "PUT", [], ["routes.invalidates_target": Self.route("invalidates_target: off")])
        case .storeRefused:
            self.init(.json("{}"), settings: "store: {directory: /proc/cistern}", changes: ["store.directory": ""])
        case .status: self.init(.json("{}", status: "404 Not Found"), changes: ["cache.store": any])
        case .setCookie:
            self.init(
                .json("{}", ["Set-Cookie: a=1"]), settings: "cache: {set_cookie: refuse}",
                changes: ["cache.set_cookie": "cache: {set_cookie: strip}"])
        case .noContent: self.init(.send("HTTP/1.1 204 No Content\r\n\r\n"), changes: ["cache.store": any])
        // A 206 to a range request has another reason, and an unrequested 206 is an invalid response.
        case .partial: return nil
        case .noStore:
            self.init(
                .json("{}", ["Cache-Control: no-store"]),
                changes: ["routes.freshness.ignore": Self.route("freshness: {ignore: [no-store]}")])
        case .privateResponse: self.init(.json("{}", ["Cache-Control: private"]), changes: ["cache.role": "cache: {role: private}"])
        case .varyStar: self.init(.json("{}", ["Vary: *"]))
        case .tooManyMembers:
            self.init(
                .json("{}", ["Cache-Groups: " + (0..<129).map { "\"\($0)\"" }.joined(separator: ",")]))
        case .contentType:
            self.init(.answer("<p>", type: "text/html"), changes: ["cache.content_types": "cache: {content_types: [\"*\"]}"])
        case .contentCoding: self.init(.json("{}", ["Content-Encoding: compress"]), changes: ["cache.store": any])
        case .tooLarge:
            self.init(
                .json("[\(String(repeating: "1,", count: 600))1]"), settings: "cache: {buffer_limit: 1KiB}",
                changes: ["cache.buffer_limit": "cache: {buffer_limit: 2KiB}"])
        case .invalidJSON: self.init(.json("{"))
        case .empty: self.init(.json(""))
        case .unprovenEnd: self.init(.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n1"), .close)
        case .undecodable: self.init(.json("x", ["Content-Encoding: gzip"]))
        case .tooDeep: self.init(.json(String(repeating: "[", count: 600) + String(repeating: "]", count: 600)))
        case .notGood:
            self.init(
                .json("{}"), settings: Self.route("good: {min_bytes: 100}"),
                changes: ["routes.good.min_bytes": Self.route("good: {min_bytes: 2}")])
        case .notKept:
            self.init(
                .json("{}"), settings: Self.route("keep_if: {must_have: [/a]}"),
                changes: ["routes.keep_if.must_have": Self.route("keep_if: {must_have: []}")])
        case .graphQLError:
            self.init(.json("{\"errors\":[1]}"))
            target = "/a?query=%7Ba%7D"
        case .stream: self.init(.answer("data: 1\n\n", type: "text/event-stream"))
        }
    }

    /// Sends the request, with the concurrent one if any.
    func play(_ stage: AdviceStage, path: String? = nil) throws {
        let target = path ?? target
        guard let meanwhile else {
            _ = try stage.play.request(method, target, fields, content: content)
            return
        }
        let slow = try stage.play.client(sending: "GET \(target) HTTP/1.1\r\nHost: a\r\nUser-Agent: slow\r\n\r\n")
        #expect(stage.play.origin.waitForRequests(1))
        _ = try stage.play.request(meanwhile.method, target, meanwhile.fields)
        stage.gate.open()
        #expect(slow.readResponse()?.status == 200)
    }

    var trial: AdviceTrial {
        let (response, waits) = (response, meanwhile != nil)
        let script: AdviceTrial.Script = { request, gate in
            guard waits else { return response }
            return request["User-Agent"] == "slow" ? [.pass(gate)] + response : [.json("2", ["Cache-Control: max-age=60"])]
        }
        return AdviceTrial(settings, script: script, changes: changes) { try play($0) }
    }
}

@Suite("Advice on responses that were not stored", .play)
struct NotStoredAdviceTests {
    @Test(
        "each reason occurs in an exchange, and the advised setting makes Cistern store the response", arguments: NotStoredReason.allCases)
    func each(_ reason: NotStoredReason) throws {
        guard let way = NotStoredWay(to: reason) else { return }
        try way.trial.verify(
            isMet: { $0["not_stored"]?.string == reason.rawValue && $0["stored"] == .bool(false) },
            isHelped: { $0["stored"] == .bool(true) })
        #expect((reason.advice == nil) == way.changes.isEmpty)
    }

    /// A status, and the setting that stores its responses; nil if none is advised.
    @Test(
        "the advice for a status that is not stored depends on the status",
        arguments: [
            (301, "cache.store", "cache: {store: any}", ""), (302, "cache.store", "cache: {store: any}", "max-age=60"),
            (403, "cache.negative", "cache: {negative: 60s, negative_statuses: [403]}", ""),
            (404, "cache.store", "cache: {store: any}", ""),
            (409, "cache.negative", "cache: {negative: 60s, negative_statuses: [409]}", ""),
            (410, "cache.store", "cache: {store: any}", ""),
            (201, nil, "", ""), (400, nil, "", ""), (401, nil, "", ""), (429, nil, "", ""), (500, nil, "", ""),
            (503, nil, "", ""),
        ] as [(Int, String?, String, String)])
    func status(_ status: Int, _ setting: String?, _ settings: String, _ control: String) throws {
        let script = { (fields: [String]) -> AdviceTrial.Script in
            { _, _ in [.json("{}", status: "\(status) X", ["Location: /b"] + fields)] }
        }
        var trial = AdviceTrial(script: script([]))
        if let setting {
            trial.changes = [setting: .init(settings, origin: script(control.isEmpty ? [] : ["Cache-Control: \(control)"]))]
        }
        try trial.verify(
            isMet: { $0["not_stored"]?.string == "status" && $0["stored"] == .bool(false) }, isHelped: { $0["stored"] == .bool(true) })
    }

    @Test(
        "the advice names the routes.good rule that the response violates",
        arguments: [
            ("routes.good.min_bytes", "min_bytes: 100", "min_bytes: 1"), ("routes.good.must_have", "must_have: [/b]", "must_have: [/a]"),
            ("routes.good.must_not_have", "must_not_have: [/a]", "must_not_have: [/b]"),
            ("routes.good.min_bytes", "max_bytes: 2", "max_bytes: 9"),
            ("routes.good.content_types", "content_types: [text/plain]", "content_types: [application/json]"),
        ])
    func good(_ setting: String, _ demand: String, _ other: String) throws {
        let trial = AdviceTrial(
            NotStoredWay.route("good: {\(demand)}"), .json("{\"a\":1}"), changes: [setting: .init(NotStoredWay.route("good: {\(other)}"))])
        try trial.verify(isMet: { $0["not_stored"]?.string == "not_good" }, isHelped: { $0["stored"] == .bool(true) })
    }

    @Test("a failure without a stored response shows why the earlier response was not stored, and the setting to change")
    func before() throws {
        for (response, settings, setting, change) in [
            (
                OriginStep.json("{}", ["Cache-Control: no-store"]), "", "routes.freshness.ignore",
                NotStoredWay.route("freshness: {ignore: [no-store]}")
            ),
            (.answer("<p>", type: "text/html"), "", "cache.content_types", "cache: {content_types: [\"*\"]}"),
            (.json("{}", status: "403 Forbidden"), "", "cache.negative", nil),
            (.json("{}", status: "429 Too Many Requests"), "", nil, nil),
        ] as [(OriginStep, String, String?, String?)] {
            let trial = AdviceTrial(settings, response, changes: setting.map { [$0: .init(change ?? "")] } ?? [:]) { stage in
                _ = try stage.play.get("/a")
                stage.play.origin.react { _ in [.close] }
                _ = try stage.play.get("/a")
            }
            let isError = { (exchange: JSONValue) in exchange["result"] == "error" }
            // A stored 403 is no better than the error, so it is not served.
            try trial.verify(isMet: isError, isHelped: change == nil ? isError : { $0["result"] == "rescued" })
        }
    }

    // MARK: Reasons without a setting

    /// Reasons for which no setting is named.
    private static let unchanged = NotStoredReason.allCases.filter { $0.advice == nil && NotStoredWay(to: $0) != nil }
    /// Exchanges that need no special settings, each below a separate path.
    private static let ways = unchanged.compactMap { reason in NotStoredWay(to: reason).map { (reason, way: $0) } }.filter {
        $0.way.meanwhile == nil && $0.0 != .unreadContent
    }

    /// Settings that may affect storing, with each relevant value, as lines of a file.
    private static let alternatives: [String] = {
        let groups = ["cache.", "credentials.", "forwarding.", "limits.", "failure.", "cors."]
        let whole = SettingsTable.current.filter { setting in groups.contains { setting.path.hasPrefix($0) } }.flatMap { setting in
            values(setting).map { file(setting.path, $0) }
        }
        let ofRoute = RouteTable.current.filter { !["name", "path"].contains($0.path) }.flatMap { setting in
            values(setting).map { "routes: [{name: r, path: /**, \(file(setting.path, $0))}]" }
        }
        return whole + ofRoute
    }()

    /// `a.b.c` with a value, as nested mappings in one line.
    private static func file(_ path: String, _ value: String) -> String {
        let names = path.split(separator: ".")
        return names.joined(separator: ": {") + ": \(value)" + String(repeating: "}", count: names.count - 1)
    }

    /// Values of lists that permit the most storing.
    private static let lists = [
        "content_types": "[\"*\"]", "ignore": "[no-store, no-cache, private, max-age, expires, must-revalidate, vary]",
        "negative_statuses": "[403, 404, 410, 500, 501, 502, 503, 504]", "methods": "[POST, QUERY]", "credential_fields": "[]",
        "origins": "[\"https://a.test\"]", "set": "[\"X-A: b\"]",
    ]

    private static func values<Root>(_ setting: Setting<Root>) -> [String] {
        let name = String(setting.path.split(separator: ".").last ?? "")
        return switch setting.binding.kind {
        case .choice(let words): words.map { $0.isEmpty ? "\"\"" : $0 }
        case .flag: ["on", "off"]
        case .list: lists[name].map { [$0] } ?? ["[]", "[\"a\"]"]
        case .number(.share, _), .text, .items: []
        case .number(.duration, let range): ["\(range.lowerBound)ms", "\(range.upperBound)ms"]
        case .number(_, let range): ["\(range.lowerBound)", "\(min(range.upperBound, 1 << 30))"]
        }
    }

    @Test("no setting makes Cistern store a response for which none is advised", .slow)
    func none() throws {
        #expect(Self.alternatives.count > 150 && Self.ways.count >= 12)
        for settings in Self.alternatives {
            let found = try stored(settings)
            #expect(found.isEmpty, "\(settings): \(found)")
        }
    }

    /// Reasons for which a response is stored with these settings.
    private func stored(_ settings: String) throws -> [NotStoredReason] {
        let responses = Dictionary(uniqueKeysWithValues: Self.ways.map { ("/\($0.0.rawValue)", $0.way.response) })
        let origin = ScriptedOrigin { request in
            responses[String(request.target.prefix { $0 != "?" })] ?? [.json("{}")]
        }
        let play = try AdviceTrial.play(settings, origin)
        return try Self.ways.filter { reason, way in
            let query = way.target.drop { $0 != "?" }
            // Some settings refuse the request.
            guard (try? play.request(way.method, "/\(reason.rawValue)\(query)", way.fields, content: way.content)) != nil else {
                return false
            }
            let record = JSONValue(try play.admin("GET", "/-/why?path=/\(reason.rawValue)&last=1").content)?["exchanges"]?.array?.first
            return record?["stored"] == .bool(true)
        }.map(\.0)
    }
}
