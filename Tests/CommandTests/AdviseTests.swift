// Tests of `cistern advise` with the real binary: its text, its options, and that `cistern check` accepts its lines.

import JSON
import TestSupport
import Testing

@Suite("cistern advise", .slow, .play)
struct AdviseTests {
    private let play: ProxyPlay
    private var tool: CommandLineTool { CommandLineTool(play: play) }

    init() throws {
        play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
    }

    @Test("without enough requests, advise says what is needed")
    func early() throws {
        #expect(
            try tool.run("advise").text.contains(
                "There is too little evidence: a path needs 100 requests to the upstream in at least 10 min."))
        for _ in 0..<10 { _ = try play.get("/users/1") }
        let text = try tool.run("advise").text
        #expect(text.contains("on 1 path.") && text.contains("100 requests are needed"), "\(text)")
    }

    @Test("advise prints settings with evidence and effect, and check accepts them; nothing is changed")
    func advised() throws {
        for number in 0..<130 {
            _ = try play.get("/users/\(number % 2)")
            play.time.advance(by: .seconds(6))
        }
        let said = try tool.run("advise")
        #expect(said.status == 0 && said.text.contains("1. /users/*: routes.freshness.default"), "\(said.text)")
        #expect(said.text.contains("data did not change") && said.text.contains("no response would have been out of date"))
        let advice = try #require(JSONValue(Array(try tool.run("advise --json").text.utf8)))
        let lines = (advice["yaml"]?.array ?? []).compactMap(\.string)
        #expect(!lines.isEmpty && lines.allSatisfy { said.text.contains($0) })
        let file = play.directory + "/advised.yaml"
        try TestTools.write("upstream: {url: \"https://api.example.com\"}\n" + lines.joined(separator: "\n") + "\n", to: file)
        let check = try CommandLineTool.run("check --config \(file) --cache-dir \(play.directory)/other")
        #expect(check.status == 0, "\(check.text)")
        let before = play.origin.requests.count
        _ = try play.get("/users/0")
        #expect(play.origin.requests.count == before + 1)
        let tried = try tool.run("advise /users --freshness 45s --since 1h").text
        #expect(tried.contains("/users/* with 45 s (between the simulated lifetimes)\n  30 s would have saved at least "), "\(tried)")
        #expect(try tool.run("advise --freshness 30s").text.contains("/users/* with 30 s\n  30 s would have saved at least "))
        #expect(try tool.run("advise /none").text.contains("on 0 paths"))
    }

    @Test(
        "invalid options are rejected",
        arguments: [
            ("--freshness soon", 64, "--freshness must be"), ("--since 5", 64, "--since must be"), ("--freshness 10ms", 64, "at least 1s"),
            ("users", 64, "must begin with /"), ("--route none", 1, "No route is called none"), ("--api none", 1, "No API is called none"),
        ] as [(String, Int32, String)])
    func rejected(_ options: String, _ status: Int32, _ text: String) throws {
        let outcome = try tool.run("advise \(options)")
        #expect(outcome.status == status && outcome.text.contains(text), "\(outcome.text)")
    }
}
