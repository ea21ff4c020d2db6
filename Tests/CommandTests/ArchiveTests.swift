// Tests that an export and an import by the real binary create stored records equal to those of fetches.

import CachePolicy
import ReverseProxy
import TestSupport
import Testing

@Suite("Export and import of archives")
struct ArchiveTests {
    private static func configure(_ settings: inout ProxySettings) { settings.policy.credentials.fields = ["x-api-key"] }

    private static func fields(of target: String) -> [String] {
        let fresh = "Cache-Control: max-age=60"
        let more: [String] =
            switch target {
            case "/etag": [fresh, "ETag: \"strong\"", "Age: 7"]
            case "/own": []
            case "/vary": [fresh, "Vary: Accept-Language", "Last-Modified: Sun, 15 Jun 2025 15:06:00 GMT"]
            case "/search?x=1&y=2": [fresh, "No-Vary-Search: params=(\"x\")"]
            case "/groups": [fresh, "Cache-Groups: \"g\"", "Surrogate-Key: one two"]
            case "/targeted": ["Cache-Control: no-cache", "CDN-Cache-Control: max-age=7, stale-if-error=9", "Via: 1.1 gateway"]
            case "/cookie": [fresh, "Set-Cookie: a=b"]
            case "/session": ["X-Session-Token: t"]
            case "/shared": ["Cache-Control: public, max-age=60, immutable"]
            default: [fresh]
            }
        return more + [date]
    }

    private static let date = "Date: Sun, 15 Jun 2025 15:06:00 GMT"

    @Test("export and import preserve flags, keys, tags and stale marks, and removed responses stay removed")
    func roundTrip() throws {
        let origin = ScriptedOrigin { request in [.json("{\"b\": 1, \"a\": [\"\(request.target)\"]}", Self.fields(of: request.target))] }
        let play = try ProxyPlay(origin, Self.configure)
        for target in ["/etag", "/own", "/search?x=1&y=2", "/groups", "/targeted", "/stale", "/gone", "/missing", "/cookie", "/session"] {
            #expect(try play.get(target).status == 200)
        }
        for language in ["de", "fr"] { _ = try play.get("/vary", [("Accept-Language", language)]) }
        _ = try play.get("/shared", [("Authorization", "Basic x")])
        // Removed resources, by 410 and by 404, and a response that is marked stale.
        play.time.advance(by: .seconds(1))
        origin.react { request in
            request.target == "/gone"
                ? [.answer("", type: "text/plain", status: "410 Gone", [Self.date])]
                : [.json("{\"no\":1}", status: "404 Not Found", [Self.date])]
        }
        for target in ["/gone", "/missing"] { _ = try play.get(target, [("Cache-Control", "no-cache")]) }
        let tool = CommandLineTool(play: play)
        #expect(try tool.run("purge /stale --soft").text == "1 response marked as stale\n")
        let file = play.directory + "/all.har"
        #expect(try tool.run("export --har \(file)").text == "15 responses written\n")

        let other = try ProxyPlay(origin) {
            Self.configure(&$0)
            $0.mode = .offline
        }
        // Responses from the future would count as received now.
        other.time.advance(by: .seconds(2))
        #expect(try CommandLineTool(play: other).run("import \(file)").lines == ["15 of 15 responses stored"])
        #expect(try other.get("/search?x=7&y=2").status == 200)
        #expect(try other.get("/stale").status == 200)
        for play in [play, other] { play.stop() }
        let (fetched, imported) = (try StoredRecord.all(in: play.directory), try StoredRecord.all(in: other.directory))
        #expect(fetched.map(\.kind) == imported.map(\.kind))
        for (one, other) in zip(fetched, imported) { #expect(one == other) }
        let flags = fetched.compactMap(\.metadata?.flags).reduce(into: StoredFlags()) { $0.formUnion($1) }
        #expect(flags.isSuperset(of: [.ownTag, .authorized, .isPublic, .immutable, .hasGroups, .hasTargeted, .isJSON, .startsSession]))
        #expect(fetched.count { $0.isMarkedStale } == 1 && fetched.count { $0.kind == .gone } == 2)
    }
}
