// Tests that the status page, `cistern status` and /-/stats report the actual state of upstreams: unused, partially failing or asking for
// pauses.

import Addresses
import Administration
import CachePolicy
import Downstream
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Accuracy of the status page", .play)
struct StatusTruthTests {
    private static let token = "0123456789abcdef"

    private static func play(
        _ origin: ScriptedOrigin, _ configure: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws -> ProxyPlay {
        try ProxyPlay(origin) { settings in
            settings.listening.adminListeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
            settings.admin.token = Array(token.utf8)
            configure(&settings)
        }
    }

    private static func kept() -> ScriptedOrigin { ScriptedOrigin(respond) }

    @Sendable private static func respond(_ request: OriginRequest) -> [OriginStep] {
        switch request.target {
        case let target where target.hasPrefix("/down"): [.json("{}", status: "503 No")]
        case let target where target.hasPrefix("/bad"): [.json("{}", status: "500 No")]
        case let target where target.hasPrefix("/private"): [.json("1", ["Cache-Control: private"])]
        default: [.json("1", ["Cache-Control: max-age=60"])]
        }
    }

    /// The page that administrators see.
    private static func page(_ play: ProxyPlay) throws -> String {
        try #require(TestClient(port: play.adminPort).get("/-/status/exchanges", [("Authorization", "Bearer " + token)])).text
    }

    /// The state's sentence, which the page and /-/stats have in common.
    private static func said(_ play: ProxyPlay) throws -> (words: String, level: String) {
        let state = try #require(JSONValue(try play.admin("GET", "/-/stats").content)?["state"])
        let words = try #require(state["sentence"]?.string)
        #expect(try page(play).contains(words))
        return (words, state["level"]?.string ?? "")
    }

    /// Texts of the cells in the row with this name.
    private static func row(_ page: String, _ name: String) -> [String] {
        let rows = page.split(separator: "<tr role=\"row\">").dropFirst().map { row in
            (row.split(separator: "</tr>").first ?? "").split(separator: "<t").map { cell in
                cell.split(separator: "<", omittingEmptySubsequences: false).flatMap { $0.split(separator: ">").dropFirst().prefix(1) }
                    .joined(separator: " ")
            }.filter { !$0.isEmpty }
        }
        return rows.first { $0.first == name } ?? []
    }

    @Test("while all requests fail the page never reports a healthy state, also without failure memory", .slow)
    func noMemory() throws {
        let play = try Self.play(Self.kept()) { $0.upstream.failure.isOn = false }
        play.origin.down()
        for number in 0..<20 { #expect(try play.get("/\(number)").status == 502) }
        let said = try Self.said(play)
        #expect(said.words == "The upstream has not sent a good response yet, and 20 requests failed in the last 5 min.")
        #expect(said.level == "strained")
        let row = Self.row(try Self.page(play), "The upstream")
        #expect(
            row == [
                "The upstream", "Unknown the last 20 requests failed", "–", "connection refused", "–",
                "failures are not remembered here (failure.recheck is 0)",
            ])
        play.origin.up()
        _ = try play.get("/a")
        play.time.advance(by: .seconds(310))
        _ = try play.get("/b")
        for _ in 0..<70 {
            play.time.advance(by: .seconds(5))
            _ = try Self.said(play)
        }
        #expect(try Self.said(play) == ("The upstream is up (last response 5 min ago).", "well"))
    }

    @Test("rescues before an upstream counts as down belong to its outage")
    func earlyRescues() throws {
        let isFailing = Mutex(false)
        let play = try Self.play(
            ScriptedOrigin { _ in
                isFailing.withLock { $0 } ? [.json("{}", status: "503 No")] : [.json("1", ["Cache-Control: max-age=60"])]
            })
        for number in 0..<12 { _ = try play.get("/\(number)") }
        play.time.advance(by: .seconds(100))
        _ = try Self.said(play)
        isFailing.withLock { $0 = true }
        for number in 0..<4 { #expect(try play.get("/\(number)").text == "1") }
        #expect(try Self.said(play).words.hasPrefix("The upstream is up"))
        for number in 0..<12 {
            play.time.advance(by: .seconds(5))
            #expect(try play.get("/\(number)").text == "1")
        }
        let words = try Self.said(play).words
        #expect(words.hasPrefix("The upstream has been down for 1 min (status 503); 16 requests rescued"), "\(words)")
    }

    @Test("failures without a failure scope are shown, and no setting that would store errors is advised")
    func errors() throws {
        let play = try Self.play(Self.kept())
        for number in 0..<12 { #expect(try play.get("/bad/\(number)").status == 500) }
        let none = "The upstream has not sent a good response yet, and 12 requests failed in the last 5 min."
        #expect(try Self.said(play) == (none, "strained"))
        _ = try play.get("/private")
        #expect(try Self.said(play) == ("The upstream is up, but 12 requests failed in the last 5 min.", "strained"))
        let page = try Self.page(play)
        #expect(Self.row(page, "The upstream").dropFirst().first == "Up 12 of 13 responses 5xx in the last 5 min")
        #expect(!page.contains("cache.store") && page.contains("Setting cache.role"))
        #expect(page.contains("<span class=\"badge down\">miss</span>") && Self.row(page, "/bad/1") == ["/bad/1", "1"])
    }

    @Test("the upstream counts as responding only after a response since startup; a hit is not enough")
    func noResponseYet() throws {
        let play = try Self.play(Self.kept())
        _ = try play.get("/a")
        play.flushStore()
        play.origin.down()
        try play.restart()
        #expect(try play.get("/a")["Cache-Status"]?.contains("hit") == true)
        #expect(try Self.said(play) == ("The upstream has received no request yet.", "well"))
        #expect(Self.row(try Self.page(play), "The upstream").dropFirst().first == "No request yet")
    }

    /// Three APIs without routes.
    private static func several() throws -> (play: ProxyPlay, origins: [ScriptedOrigin]) {
        let origins = (0..<3).map { _ in kept() }
        let play = try play(origins[0]) { settings in
            var apis = [settings, settings, settings]
            for (place, name) in ["rest", "users", "orders"].enumerated() {
                (apis[place].apiName, apis[place].upstream.port) = (name, origins[place].port)
                if place > 0 { apis[place].scope.path = Array("/\(name)".utf8) }
            }
            settings.apis = [apis[1], apis[2], apis[0]]
        }
        return (play, origins)
    }

    @Test("the state of each upstream follows its own responses, and each API has a row, with or without routes")
    func apis() throws {
        let (play, origins) = try Self.several()
        for _ in 0..<3 { _ = try play.get("/users/1") }
        #expect(try Self.said(play) == ("1 of 3 upstreams is up and 2 have received no request yet.", "well"))
        for target in ["/orders/1", "/a"] { _ = try play.get(target) }
        #expect(try Self.said(play) == ("All 3 upstreams are up.", "well"))
        let row = Self.row(try Self.page(play), "users: all paths")
        #expect(row == ["users: all paths", "3", "66.7 %", "0", "0", "– measured only with routes", "–"])
        origins[2].down()
        #expect(try play.get("/orders/2").status == 502)
        let words = try Self.said(play).words
        #expect(words == "All 3 upstreams are up, but 1 request for orders failed in the last 5 min.")
    }

    @Test("client errors do not count as failures, with one API and with several")
    func clientErrors() throws {
        let alone = try Self.play(Self.kept())
        let (several, _) = try Self.several()
        for play in [alone, several] {
            _ = try play.get("/a")
            for _ in 0..<5 { #expect(try play.request("TRACE", "/a").status == 405) }
            #expect(try !Self.said(play).words.contains("failed"))
            #expect(try !Self.page(play).contains("Failed, without a copy"))
        }
    }

    @Test("a requested pause is not a recovery, and the page states whose stored responses are served", arguments: [false, true])
    func pause(hasCredentials: Bool) throws {
        let play = try Self.play(Self.kept())
        let fields = hasCredentials ? [("Authorization", "Bearer a")] : []
        _ = try play.get("/a", fields)
        play.origin.react { _ in [.json("{}", status: "503 No", ["Retry-After: 120"])] }
        for number in 0..<3 { #expect(try play.get("/new/\(number)", fields).status == 503) }
        play.time.advance(by: .seconds(30))
        let said = try Self.said(play)
        let page = try Self.page(play)
        #expect(said.level == "strained" && !said.words.contains("again"))
        if hasCredentials {
            #expect(said.words == "The upstream is up (the last 3 requests failed), but 3 requests failed in the last 5 min.")
            #expect(page.contains("stored responses for this client are served at once"))
            #expect(
                Self.row(page, "The upstream: 3 pauses that it requested from single users /new/0, /new/1, /new/2").dropFirst().first
                    == "Paused"
            )
        } else {
            #expect(
                said.words
                    == "The upstream is up (the last 3 requests failed), but it asked for a pause on 3 paths 30 s ago (status 503); nothing rescued, 3 failed."
            )
            #expect(page.contains("stored responses for this client are served at once") && !page.contains("this user"))
        }
    }

    @Test("with several addresses the page shows which are down and which replace them")
    func addresses() throws {
        let origins = [Self.kept(), Self.kept()]
        let play = try Self.play(origins[0]) {
            $0.upstream.fallbacks = [UpstreamAddress(isTLS: false, host: "127.0.0.1", port: origins[1].port, basePath: "")]
        }
        _ = try play.get("/a")
        origins[0].down()
        #expect(try play.get("/b").status == 200)
        #expect(
            try Self.said(play) == ("The upstream is up, but 1 of 2 addresses has been down for 0 s (connection refused).", "strained"))
        #expect(Self.row(try Self.page(play), "The upstream: address 1 of 2").last == "requests use the other addresses")
        origins[1].down()
        for number in 0..<6 { #expect(try play.get("/\(number)").status >= 502) }
        #expect(try Self.said(play).words.hasPrefix("The upstream has been down for 0 s"))
        for place in 1...2 {
            #expect(Self.row(try Self.page(play), "The upstream: address \(place) of 2").last == "there is no other address")
        }
    }

    @Test("targets with the same shown form are merged and leave room for others")
    func alike() throws {
        let play = try Self.play(Self.kept())
        for number in 0..<12 { for _ in 0..<2 { _ = try play.get("/bad/settings?token=s3cr3t\(number)") } }
        _ = try play.get("/bad/other")
        let page = try Self.page(play)
        let failed = String(page.split(separator: "Failed, without a copy, in").last ?? "")
        #expect(Self.row(failed, "/bad/settings 12 different targets") == ["/bad/settings 12 different targets", "24"])
        #expect(Self.row(failed, "/bad/other") == ["/bad/other", "1"])
    }

    @Test("viewers with access to paths see which path fails and since when the upstream fails in part")
    func namedPath() throws {
        let play = try Self.play(Self.kept())
        _ = try play.get("/good/1")
        play.time.advance(by: .seconds(20))
        for number in 0..<6 { for target in ["/down/1?token=s3cr3t", "/good/0\(number)"] { _ = try play.get(target) } }
        play.time.advance(by: .seconds(2))
        _ = try play.get("/good/2")
        let page = try Self.page(play)
        #expect(Self.row(page, "The upstream: 1 path /down/1").dropFirst().first == "Fails")
        let whole = Self.row(page, "The upstream")
        #expect(whole.dropFirst(2).first?.hasPrefix("2 s") == true && whole.last == "requests are sent as usual, except as listed below")
        for (host, isNamed) in [("localhost", true), ("other.test", false)] {
            let anonymous = try #require(TestClient(port: play.adminPort).get("/-/status", [("Host", host)])).text
            #expect(anonymous.contains("The upstream: 1 path") && anonymous.contains("/down/1") == isNamed && !anonymous.contains("token="))
        }
    }

    @Test("the page shows failure and check times, the responsible settings, and the age of stored responses")
    func times() throws {
        let play = try Self.play(Self.kept()) { $0.otherRoute.freshness.staleFor = 3_600 }
        _ = try play.get("/a")
        play.time.advance(by: .seconds(90))
        play.origin.down()
        for number in 0..<6 { _ = try play.get("/\(number)") }
        _ = try play.get("/a")
        let page = try Self.page(play)
        let row = Self.row(page, "The upstream")
        #expect(row.dropFirst(2).first?.hasSuffix(" UTC") == true && row.dropFirst(4).first?.hasSuffix("checked 0 s ago") == true)
        #expect(page.contains("set by failure.threshold (5 in a row)"))
        #expect(page.contains("<span class=\"note\">copy 90 s old</span>") || page.contains("<span class=\"note\">copy 1 min old</span>"))
        #expect(
            page.contains("The stored response was 1 min old; it may be served in an outage for another 59 min (cache.stale_for: 60 min)."))
        #expect(page.contains("<h3>Store entries</h3>") && !page.contains("From the store"))
        #expect(page.contains("<bdi>/a</bdi>") && page.contains("<a href=\"#h-upstreams\">Upstreams</a>"))
    }

    @Test("among similar unstored responses, those that a setting changes are also listed")
    func similarResponses() throws {
        let play = try Self.play(
            ScriptedOrigin { request in
                [request.target.hasPrefix("/me") ? .json("{") : .answer("<p>", type: "text/html")]
            })
        for number in 0..<9 { _ = try play.get("/me/\(number)") }
        for number in 0..<8 { _ = try play.get("/feed/\(number)") }
        let cell = try #require(Self.row(try Self.page(play), "All paths").last)
        #expect(cell.hasPrefix("9 ×: the media type is JSON, but the content is not valid JSON. No setting changes that. 8 ×: "))
        #expect(cell.contains("Setting cache.content_types"))
    }

    @Test("a rescue is shown as strained, an error as down")
    func levels() throws {
        let play = try Self.play(Self.kept())
        _ = try play.get("/a")
        play.time.advance(by: .seconds(61))
        play.origin.down()
        _ = try play.get("/a")
        var page = try Self.page(play)
        #expect(page.contains("<li class=\"tile strained\"><h3>Rescued</h3>") && !page.contains("<li class=\"tile down\">"))
        _ = try play.get("/b")
        page = try Self.page(play)
        #expect(page.contains("<li class=\"tile down\"><h3>Errors</h3>"))
    }

    @Test("failed targets are listed for an hour despite many hits, and long targets stay distinct")
    func tops() throws {
        let play = try Self.play(Self.kept()) { $0.records = 20 }
        let long = "/bad/" + String(repeating: "x", count: 300)
        for number in 0..<3 { _ = try play.get("\(long)\(number)?api_key=s3cr3t") }
        for _ in 0..<8 { _ = try play.get("/bad/often?token=s3cr3t") }
        for _ in 0..<60 { _ = try play.get("/a") }
        play.time.advance(by: .seconds(1_800))
        let page = try Self.page(play)
        #expect(Self.row(page, "/bad/often") == ["/bad/often", "8"] && !page.contains("s3cr3t"))
        #expect(page.contains("Failed, without a copy, in the last 30 min") && page.contains("From the store, among the last 20 requests"))
        #expect(page.split(separator: "<span class=\"note\">cut, 3 different targets</span>").count == 2)
        #expect(Self.row(page, "/a") == ["/a", "1"], "/a was forwarded once")
        play.origin.down()
        for _ in 0..<2 { #expect(try play.get("/a").status == 200) }
        play.time.advance(by: .seconds(2))
        let rescued = try Self.page(play).split(separator: "Rescued, in the last 30 min").last ?? ""
        #expect(Self.row(String(rescued), "/a copy 30 min old") == ["/a copy 30 min old", "2"])
    }
}
