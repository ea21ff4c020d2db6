// Tests of what `cistern check` reports about the order and paths of routes.

import CacheStore
import TestSupport
import Testing

@Suite("cistern check: routes", .slow)
struct RouteCheckTests {
    @Test("routes that no request reaches are mistakes")
    func unreachedRoutes() throws {
        let directory = TestTools.temporaryDirectory()
        let path = directory.path + "/f.yaml"
        try TextFile.write(
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
        #expect(outcome.status == 78)
        for line in [
            "4: route first: route users before it matches all its requests (/users/*): put it first",
            "5: route pay: the path must not contain ? or #: it is compared without arguments",
            "7: route admin: route all before it matches all its requests (/**): put it first",
        ] { #expect(outcome.text.contains("\(path):\(line)"), "\(outcome.text)") }
    }
}
