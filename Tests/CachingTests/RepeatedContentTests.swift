// Tests of responses whose content repeats the stored data (`ExaminedContents`).

import Administration
import CachePolicy
import JSON
import ReverseProxy
import Server
import TestSupport
import Testing

@Suite("Repeated content", .play, .clientProtocols, .upstreams)
struct RepeatedContentTests {
    @Test(
        "content that repeats the stored data is accepted without an examination, and every other content is examined",
        arguments: [64 << 10, 0])
    func repeatedContent(examinedAtOnceBytes: Int) throws {
        let origin = ScriptedOrigin { _ in [] }
        let play = try ProxyPlay(origin) { $0.content.examinedAtOnceBytes = examinedAtOnceBytes }
        let (good, spelled) = ("{\"a\":1,\"b\":[1,2]}", "{\"b\":[1,2],\"a\":1}")
        func get(_ target: String, _ content: String, _ fields: [String] = []) throws -> TestResponse {
            origin.react { _ in [.json(content, fields)] }
            return try play.get(target)
        }
        for target in ["/a", "/b", "/c", "/d"] {
            let tag = try get(target, good)["ETag"]
            for content in [good, good, good, spelled, spelled, good] {
                let response = try get(target, content)
                #expect(response.text == content && response["ETag"] == tag)
            }
        }
        // Equal length, but not JSON.
        for (target, broken) in [("/a", "{\"a\":1,\"b\":[1,2]]"), ("/b", "{\"a\":1,\"b\":[1,2}}")] {
            let response = try get(target, broken)
            #expect(response.text == good && response["Cache-Status"]?.contains("detail=") == true)
        }
        // A tag of the upstream replaces the computed one, although the data is equal.
        #expect(try get("/c", good, ["ETag: \"mine\""])["ETag"] == "\"mine\"")
        let other = try get("/d", "{\"a\":1,\"b\":[1,3]}")
        #expect(other.text.contains("[1,3]") && other["ETag"]?.hasPrefix("W/") == true)
    }

    @Test("after a reload with other requirements, content that was examined before is examined again")
    func examinedBeforeReload() throws {
        let content = "{\"a\":1}"
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(content)] })
        for _ in 0..<3 { #expect(try play.get("/a").isFromUpstream) }
        var route = Route()
        (route.name, route.pattern) = ("all", RoutePattern("/**"))
        route.good.mustHave = [try #require(JSONPointer("/b"))]
        #expect(play.reload { $0.settings.routes = [route] }?.label == "applied")
        let response = try play.get("/a")
        #expect(response.text == content && response["Cache-Status"]?.hasSuffix("detail=missing_value") == true)
    }
}
