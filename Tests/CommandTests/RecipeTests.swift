// The recipes of Configuration/README.md, read from there and played as they stand.

import Administration
import ReverseProxy
import Settings
import TestSupport
import Testing

@testable import cistern

/// What a recipe's lines make of a proxy.
enum Recipe {
    private static let page = #filePath.dropLast("Tests/CommandTests/RecipeTests.swift".count) + "Configuration/README.md"

    /// - Parameter sentence: what stands before the recipe's lines.
    static func settings(behind sentence: String) throws -> ProxySettings {
        let page = String(decoding: try #require(FileContent.read(String(page))), as: UTF8.self)
        let rest = page[try #require(page.firstRange(of: sentence)).upperBound...]
        let start = try #require(rest.firstRange(of: "```yaml\n")).upperBound
        let end = try #require(rest[start...].firstRange(of: "```")).lowerBound
        var reader = SettingsReader()
        reader.read(file: "recipe", text: Array("upstream: {url: http://api.test}\n".utf8) + Array(rest[start..<end].utf8))
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
}
