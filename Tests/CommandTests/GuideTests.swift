// Tests the guides of Configuration/Guides: their settings with a scripted origin, their commands in a shell.

import CacheStore
import ReverseProxy
import TestSupport
import Testing

@Suite("Guides of the manual", .slow, .play, .enabled(if: TestTools.has("curl")))
struct GuideTests {
    private static let kept = ["Cache-Control: private, no-cache"]

    // MARK: A mobile app's API

    @Test("mobile API guide: a refreshed token gets its user's stored response, and another user's token does not")
    func mobile() throws {
        let issuer = TokenIssuer()
        let origin = ScriptedOrigin { request in
            request.target == "/keys" ? [.json("{\"keys\":[\(issuer.jwk())]}")] : [.json("{\"id\":1}", Self.kept)]
        }
        func token(_ user: String, _ number: Int) -> String {
            let claims = #""iss":"https://id.example.com","aud":"api","sub":"\#(user)","exp":4000000000,"jti":"\#(number)""#
            return issuer.token("{\(claims)}")
        }
        let variables = ["TOKEN": token("ann", 1), "NEW_TOKEN": token("ann", 2), "OTHER_TOKEN": token("bob", 3)]
        let keys = "--set credentials.identity.jwt.keys=http://127.0.0.1:\(origin.port)/keys"
        try Guide("Users-and-Tokens").play(origin, options: keys, variables: variables) { serve in
            for _ in 0..<5_000 where try serve.get("/metrics").text.contains("cistern_token_keys 1\n") { return }
        }
    }

    // MARK: A rate-limited API

    @Test("rate-limited API guide: each resource is requested at most once a minute, whatever the directives")
    func rateLimited() throws {
        let guide = try Guide("Rate-Limited-API").settings()
        let words = ["no-cache", "max-age=0", "max-age=3600", "must-revalidate, max-age=5", ""]
        let origin = ScriptedOrigin { request in
            let number = Int(request.target.dropFirst()) ?? 0
            let word = number < words.count ? words[number] : ""
            let status = number < words.count ? "200 OK" : "404 Not Found"
            return [.json("{}", status: status, (word.isEmpty ? [] : ["Cache-Control: \(word)"]) + ["Expires: 0"])]
        }
        let play = try ProxyPlay(origin) { ($0.policy, $0.routes, $0.otherRoute) = (guide.policy, guide.routes, guide.otherRoute) }
        for minute in 1...2 {
            for second in 0..<6 {
                for target in 0...words.count {
                    let fields = second == 2 ? [("Cache-Control", "no-cache")] : second == 4 ? [("Pragma", "no-cache")] : []
                    #expect(try play.get("/\(target)", fields).status == (target < words.count ? 200 : 404))
                }
                play.time.advance(by: .seconds(10))
            }
            #expect(origin.requests.count == minute * (words.count + 1))
        }
    }

    @Test("rate-limited API guide: the commands print the documented output")
    func rateLimitedCommands() throws {
        try Guide("Rate-Limited-API").play(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: no-cache"])] })
    }

    // MARK: A browser app

    @Test("browser app guide: an app of another origin works with logins and an API without CORS")
    func browserApp() throws {
        let guide = try Guide("Browser-Apps").settings()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: no-cache"])] }) {
            ($0.policy, $0.routes, $0.otherRoute) = (guide.policy, guide.routes, guide.otherRoute)
        }
        let app = [("Origin", "https://app.example.com")]
        let asking = [("Access-Control-Request-Method", "PUT"), ("Access-Control-Request-Headers", "authorization,content-type")]
        func check(_ response: TestResponse, _ status: Int) {
            #expect(response.status == status && response["Access-Control-Allow-Origin"] == "https://app.example.com")
            #expect(response["Access-Control-Allow-Credentials"] == "true")
        }
        for isUp in [true, false] {
            if !isUp { play.origin.down() }
            check(try play.request("OPTIONS", "/items", app + asking), 200)
            check(try play.get("/items", app + [("Authorization", "Bearer ann")]), 200)
        }
        check(try play.get("/never", app + [("Authorization", "Bearer ann")]), 502)
        #expect(try play.get("/items", [("Origin", "https://other.example.com")])["Access-Control-Allow-Origin"] == nil)
    }

    @Test("browser app guide: the commands print the documented output")
    func browserCommands() throws {
        try Guide("Browser-Apps").play(ScriptedOrigin { _ in [.json("{}", Self.kept)] })
    }

    // MARK: GraphQL

    @Test("GraphQL guide: an equivalent query is rescued after a mutation, and mutations are never rescued")
    func graphQL() throws {
        let guide = try Guide("GraphQL")
        try guide.play(ScriptedOrigin { _ in [.json(#"{"data":{"user":{"name":"Ada"}}}"#)] })
        let settings = try guide.settings()
        let origin = ScriptedOrigin { _ in [.json(#"{"data":1}"#)] }
        let play = try ProxyPlay(origin) { ($0.policy, $0.routes, $0.otherRoute) = (settings.policy, settings.routes, settings.otherRoute) }
        func ask(_ query: String) throws -> TestResponse {
            try play.request("POST", "/graphql", [("Content-Type", "application/json")], content: "{\"query\":\"\(query)\"}")
        }
        #expect(try ask("{ a }").text == #"{"data":1}"#)
        // Errors are passed on, and do not replace stored responses.
        origin.react { _ in [.json(#"{"errors":[{"message":"no"}],"data":null}"#)] }
        for query in ["{ a }", "{ b }"] { #expect(try ask(query).text.contains("errors")) }
        origin.down()
        #expect(try ask("{ a }").text == #"{"data":1}"#)
        #expect(try ask("{ b }").status == 502)
    }

    // MARK: A kiosk

    @Test("kiosk guide: a warmed cache serves all responses in an outage and after an offline start")
    func kiosk() throws {
        let script: ScriptedOrigin.Script = { request in
            request.target.hasSuffix(".png") ? [.answer("PNG", type: "image/png")] : [.json("{\"a\":1}", ["Cache-Control: private"])]
        }
        let guide = try Guide("Laptop-and-Kiosk")
        try guide.play(ScriptedOrigin(script))
        let settings = try guide.settings()
        let play = try ProxyPlay(ScriptedOrigin(script)) {
            ($0.policy, $0.routes, $0.otherRoute) = (settings.policy, settings.routes, settings.otherRoute)
        }
        for isUp in [true, false] {
            if !isUp {
                play.origin.down()
                try play.restart()
            }
            for target in ["/menu", "/logo.png"] { #expect(try play.get(target).status == 200) }
        }
    }

    // MARK: Purges

    @Test("guides to rescues, faults and purges: the commands print the documented output")
    func simple() throws {
        for name in ["First-Rescue", "Practising-Outages", "Purging"] {
            try Guide(name).play(ScriptedOrigin { _ in [.json(#"{"id":1}"#, ["Cache-Control: no-cache", "Cache-Tag: people"])] })
        }
    }

    @Test("every guide with console commands is tested")
    func played() throws {
        let played = [
            "Browser-Apps", "First-Rescue", "Forward-Proxy", "GraphQL", "Laptop-and-Kiosk", "Practising-Outages", "Purging",
            "Rate-Limited-API", "Users-and-Tokens",
        ]
        let pages = try Document.all(ofManual: true).filter { $0.blocks.contains { $0.language == "console" } }.map(\.path)
        #expect(pages == played.map { "Configuration/Guides/\($0).md" })
    }

    // MARK: A forward proxy

    @Test("forward proxy guide: clients reach only the API through the proxy, also in an outage")
    func forwardProxy() throws {
        let guide = try Guide("Forward-Proxy")
        _ = try guide.settings()
        try guide.play(ScriptedOrigin { _ in [.answer("{\"users\":[1,2]}\n", type: "application/json")] })
    }

    // MARK: Recordings

    /// Runs a guide's command line with another test command and another API address.
    private func run(_ line: String, _ tests: String, _ origin: ScriptedOrigin, in directory: String) throws -> CommandLineTool.Outcome {
        let script = line.replacing("npm test", with: tests).replacing("https://api.example.com", with: "http://127.0.0.1:\(origin.port)")
        let tools = CommandLineTool.path[..<(CommandLineTool.path.lastIndex(of: "/") ?? CommandLineTool.path.startIndex)]
        try TestTools.write("cd \(directory)\nPATH=\(tools):$PATH\n\(script)", to: directory + "/guide.sh")
        return try CommandLineTool.run(program: "sh \(directory)/guide.sh")
    }

    @Test("CI guide: a recording is replayed without a network, and an unrecorded request fails the run")
    func continuousIntegration() throws {
        let origin = ScriptedOrigin { request in [.json("{\"target\":\"\(request.target)\"}")] }
        let temporary = TestTools.temporaryDirectory()
        let guide = try Guide("CI-and-Test-Stubs", section: "Tests in CI without a network")
        let (record, replay) = (guide.blocks("sh")[0], guide.blocks("sh")[1])
        let recorded = try run(record, "sh -c 'curl -sf $API_URL/users'", origin, in: temporary.path)
        #expect(recorded.status == 0 && recorded.text.contains("1 exchanges recorded in api.har"))
        origin.down()
        let good = try run(replay, "sh -c 'curl -sf $API_URL/users'", origin, in: temporary.path)
        #expect(good.status == 0 && good.text.contains("{\"target\":\"/users\"}"))
        let unknown = try run(replay, "sh -c 'curl -s $API_URL/user'", origin, in: temporary.path)
        #expect(unknown.status == 2)
        let message = try #require(guide.blocks("").first { $0.hasPrefix("cistern: ") })
        #expect(unknown.text.contains(message))
    }

    @Test("offline demo guide: a recorded session is replayed for any visitor")
    func offlineDemo() throws {
        let origin = ScriptedOrigin { request in [.json("{\"target\":\"\(request.target)\"}")] }
        let temporary = TestTools.temporaryDirectory()
        let lines = try Guide("CI-and-Test-Stubs", section: "An offline demo").blocks("sh").map {
            $0.dropLast().replacing("https://api.example.com", with: "http://127.0.0.1:\(origin.port)")
                .replacing("stand.har", with: temporary.path + "/stand.har").dropFirst("cistern ".count)
        }
        let record = try RunningCommand(String(lines[0]), in: temporary.path)
        #expect(
            try record.request("POST", "/login", [("Content-Type", "application/json")], content: #"{"user":"ada","password":"x"}"#).status
                == 200)
        #expect(try record.get("/cart", [("Authorization", "Bearer one")]).status == 200)
        #expect(record.stop(2).status == 0)
        origin.down()
        let replay = try RunningCommand(String(lines[1]), in: temporary.path)
        let login = #"{"user":"ada","password":"of a visitor"}"#
        #expect(try replay.request("POST", "/login", [("Content-Type", "application/json")], content: login).status == 200)
        #expect(try replay.get("/cart", [("Authorization", "Bearer another")]).text == "{\"target\":\"/cart\"}")
        #expect(try replay.get("/beyond").status == 404)
        #expect(replay.stop().text.contains("GET /beyond was not recorded"))
    }
}
