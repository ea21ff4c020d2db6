// The recipes of Configuration/README.md, read from there and played as they stand.

import Administration
import CacheStore
import ReverseProxy
import Settings
import TestSupport
import Testing

@testable import cistern

/// What a recipe's lines make of a proxy.
enum Recipe {
    private static let root = #filePath.dropLast("Tests/CommandTests/RecipeTests.swift".count)

    /// - Parameters:
    ///   - language: of the lines.
    ///   - sentence: what stands before them.
    static func lines(_ language: String, behind sentence: String, of page: String) throws -> String {
        let page = String(decoding: try #require(FileContent.read(root + page)), as: UTF8.self)
        let rest = page[try #require(page.firstRange(of: sentence)).upperBound...]
        let start = try #require(rest.firstRange(of: "```\(language)\n")).upperBound
        let end = try #require(rest[start...].firstRange(of: "```")).lowerBound
        return String(rest[start..<end])
    }

    /// - Parameter sentence: what stands before the recipe's lines.
    static func settings(behind sentence: String) throws -> ProxySettings {
        let lines = try lines("yaml", behind: sentence, of: "Configuration/README.md")
        var reader = SettingsReader()
        reader.read(file: "recipe", text: Array("upstream: {url: http://api.test}\n".utf8) + Array(lines.utf8))
        reader.finish()
        SettingsCheck.check(&reader)
        #expect(reader.mistakes.isEmpty)
        return ProxySettings(reader.settings)
    }
}

@Suite("The recipes of the documents", .play)
struct RecipeTests {
    @Test("a rate-limited API is asked for each thing at most once a minute, whatever it and clients say")
    func rateLimited() throws {
        let recipe = try Recipe.settings(behind: "Ask a rate-limited API for each thing at most once a minute")
        let words = ["no-cache", "max-age=0", "max-age=3600", "must-revalidate, max-age=5", ""]
        let origin = ScriptedOrigin { request in
            let word = words[Int(request.target.dropFirst()) ?? 0]
            return [.json("{}", (word.isEmpty ? [] : ["Cache-Control: \(word)"]) + ["Expires: 0"])]
        }
        let play = try ProxyPlay(origin) { ($0.policy, $0.routes, $0.otherRoute) = (recipe.policy, recipe.routes, recipe.otherRoute) }
        for minute in 1...2 {
            for second in 0..<6 {
                for target in words.indices {
                    let fields = second == 2 ? [("Cache-Control", "no-cache")] : second == 4 ? [("Pragma", "no-cache")] : []
                    #expect(try play.get("/\(target)", fields).status == 200)
                }
                play.time.advance(by: .seconds(10))
            }
            #expect(origin.requests.count == minute * words.count)
        }
    }

    @Test(
        "CI without a network: recorded with one, replayed without, and what was not recorded fails the run",
        .enabled(if: TestTools.has("curl")))
    func continuousIntegration() throws {
        let origin = ScriptedOrigin { request in [.json("{\"target\":\"\(request.target)\"}")] }
        let temporary = TestTools.temporaryDirectory()
        let page = "docker/README.md"
        let record = try Recipe.lines("sh", behind: "Once, with a network; the archive goes into the repository:", of: page)
        let replay = try Recipe.lines("sh", behind: "In CI. The last line ends with 1", of: page)
        let run = { (lines: String, target: String) in
            let script = lines.replacing("npm test", with: "curl -sf \"$API_URL\(target)\"")
                .replacing("https://api.example.com", with: "http://127.0.0.1:\(origin.port)")
            let tools = CommandLineTool.path[..<(CommandLineTool.path.lastIndex(of: "/") ?? CommandLineTool.path.startIndex)]
            try TextFile.write("cd \(temporary.path)\nrm -f ready\nPATH=\(tools):$PATH\n\(script)", to: temporary.path + "/recipe.sh")
            return try CommandLineTool.run(program: "sh \(temporary.path)/recipe.sh")
        }
        let recorded = try run(record, "/users")
        #expect(recorded.status == 0 && recorded.text.contains("1 exchanges recorded in api.har"))
        origin.down()
        let good = try run(replay, "/users")
        #expect(good.status == 0 && good.text.contains("{\"target\":\"/users\"}"))
        let unknown = try run(replay, "/user")
        #expect(unknown.status == 1 && unknown.text.contains("GET /user was not recorded. The nearest recorded request is GET /users."))
    }

    @Test("a web app of another origin, with logins, in front of an API that knows no CORS")
    func browserApp() throws {
        let recipe = try Recipe.settings(behind: "A web app of another origin, with logins, in front of an API that knows no CORS")
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: no-cache"])] }) {
            ($0.policy, $0.routes, $0.otherRoute) = (recipe.policy, recipe.routes, recipe.otherRoute)
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
}
