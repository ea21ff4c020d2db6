// Tests of what `cistern check` reports about the order and paths of routes.

import CacheStore
import TestSupport
import Testing

@Suite("cistern check: routes", .slow)
struct RouteCheckTests {
    @Test("routes that no request reaches have a warning, and do not prevent the start")
    func unreachedRoutes() throws {
        let directory = TestTools.temporaryDirectory()
        let path = directory.path + "/f.yaml"
        try TestTools.write(
            """
            upstream: {url: "http://127.0.0.1:1"}
            routes:
              - {name: users, path: "/users/*"}
              - {name: first, path: /users/1, cache: off}
              - {name: pay, path: "/pay?card"}
              - {name: all, path: "/**"}
              - {name: admin, path: "/admin/**", deny: [0.0.0.0/0]}
            """, to: path)
        let outcome = try CommandLineTool.run("check --config \(path)")
        #expect(outcome.status == 0)
        let warnings = outcome.text.split(separator: "\n").filter { $0.contains("no request reaches it") }
        #expect(
            warnings == [
                "warning: route first: no request reaches it: route users before it matches the same paths (/users/*): put it after this one",
                "warning: route pay: no request reaches it: its path must not contain arguments (? or #)",
                "warning: route admin: no request reaches it: route all before it matches the same paths (/**): put it after this one",
            ], "\(outcome.text)")
    }
}
