// Tests which of several APIs serves a request.

import Addresses
import Testing

@Suite("Choice of the API for a request")
struct ServedAPIsTests {
    private static func scope(_ hosts: [String], _ path: String) -> ServedAPIs.Scope {
        ServedAPIs.Scope(names: ServedNames(hosts), path: Array(path.utf8))
    }

    private static let apis = ServedAPIs([
        scope(["users.example.com"], ""), scope(["*.example.com"], "/v1"), scope([], ""), scope([], "/items"), scope([], "/items/new"),
        scope(["only.example.org"], "/one"),
    ])

    @Test(
        "the most specific host takes precedence, then the longest path",
        arguments: [
            ("users.example.com", "/v1/a", .api(0)), ("USERS.example.com:8443", "/", .api(0)), ("a.example.com", "/v1/a", .api(1)),
            ("a.example.com", "/v2", .noPath), ("example.com", "/v1", .api(2)), ("localhost:80", "/items", .api(3)),
            ("localhost", "/items?x=/items/new", .api(3)), ("localhost", "/items/new/1", .api(4)), ("localhost", "/itemsnew", .api(2)),
            ("localhost", "/items/newer", .api(3)), ("only.example.org", "/one", .api(5)), ("only.example.org", "/two", .noPath),
        ] as [(String, String, ServedAPIs.Choice)])
    func chosen(_ host: String, _ target: String, _ expected: ServedAPIs.Choice) {
        #expect(Self.apis.choose(Array(host.utf8)[...], Array(target.utf8)[...]) == expected)
    }

    @Test(
        "a path that could be read as another API's belongs to no API",
        arguments: [
            ("/items/../v1", false), ("/items/%2e%2e/x", false), ("/%69tems/1", false), ("/items/a%20b", true), ("/items//1", true),
        ])
    func ambiguous(_ target: String, _ isServed: Bool) {
        let choice = Self.apis.choose(Array("localhost".utf8)[...], Array(target.utf8)[...])
        #expect(choice == (isServed ? .api(3) : .noPath))
    }

    @Test(
        "a path remains within its API after its prefix was stripped",
        arguments: [("/orders/../orders/x", false), ("/orders/%2e%2e/orders/x", false), ("/orders/a/../x", true), ("/orders//x", true)])
    func stripped(_ target: String, _ isServed: Bool) {
        var scope = Self.scope([], "/orders")
        scope.isStripped = true
        #expect(ServedAPIs([scope]).choose([], Array(target.utf8)[...]) == (isServed ? .api(0) : .noPath))
    }

    @Test(
        "a host with a port takes precedence over one without, and both over a wildcard",
        arguments: [("a.test:8443", 1), ("a.test:80", 0), ("a.test", 0), ("b.test:8443", 3), ("b.test", 2), ("A.test.:8443", 1)])
    func ports(_ host: String, _ expected: Int) {
        let apis = ServedAPIs([["a.test"], ["a.test:8443"], ["*.test"], ["*.test:8443"]].map { Self.scope($0, "") })
        #expect(apis.choose(Array(host.utf8)[...], Array("/".utf8)[...]) == .api(expected))
    }

    @Test(
        "the APIs that may serve a target are found for any host",
        arguments: [("/items/1", [0, 3, 5]), ("/items/new/1", [0, 4, 5]), ("/v1/a", [0, 1, 2, 5]), ("/one", [0, 2, 5])])
    func possibleAPIs(_ target: String, _ expected: [Int]) {
        let apis = ServedAPIs([
            Self.scope(["a.test"], ""), Self.scope(["b.test"], "/v1"), Self.scope([], ""), Self.scope([], "/items"),
            Self.scope([], "/items/new"), Self.scope(["c.test"], ""),
        ])
        let fitting = (0..<6).filter { apis.mayBe($0, for: Array(target.utf8)[...]) }
        #expect(fitting == expected)
    }

    @Test("if every API has hosts, a request to another host is refused")
    func unknownHosts() {
        let apis = ServedAPIs([Self.scope(["a.example.com"], ""), Self.scope(["b.example.com"], "/b")])
        #expect(apis.choose(Array("c.example.com".utf8)[...], Array("/".utf8)[...]) == .noHost)
        #expect(apis.choose([], Array("/b".utf8)[...]) == .noHost)
    }
}
