// Tests which connection a request gets over HTTP/2.

import Testing

@testable import Upstream

@Suite("Choice of an upstream connection")
struct ConnectionChoiceTests {
    private static func facts(
        stream: Bool = false, anyStream: Bool = false, kept: Bool = false, join: Bool = false, make: Bool = false, unused: Bool = false
    ) -> ConnectionChoice {
        ConnectionChoice(
            hasStream: stream, hasAnyStream: anyStream || stream, hasKept: kept, mayJoin: join, mayMake: make, hasUnused: unused)
    }

    @Test(
        "preference order: free HTTP/2 stream, kept connection, pending connection, new connection, then possibly dead connections",
        arguments: [
            (facts(stream: true, kept: true, join: true, make: true, unused: true), .stream),
            (facts(anyStream: true, kept: true, join: true, make: true), .kept),
            (facts(anyStream: true, join: true, make: true, unused: true), .join),
            (facts(anyStream: true, make: true, unused: true), .make),
            (facts(anyStream: true, unused: true), .replace),
            (facts(anyStream: true), .anyStream),
            (facts(), nil),
        ] as [(ConnectionChoice, ConnectionChoice.Choice?)])
    func choice(row: (ConnectionChoice, ConnectionChoice.Choice?)) {
        #expect(row.0.choice == row.1)
    }
}
