// Tests that a response with another Vary list leaves the stored responses of other clients available for a rescue.

import CachePolicy
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Responses with different Vary lists", .play, .clientProtocols)
struct ChangingVaryTests {
    /// A client, recognized by its fields, and the Vary list of its responses.
    private struct Kind {
        let name: String
        let fields: [(String, String)]
        let vary: String

        /// Whether a response to this client matches a request of another one.
        func matches(_ other: Kind) -> Bool {
            let names = Set(vary.split(separator: ", ").map(String.init))
            func values(_ kind: Kind) -> [String] { kind.fields.filter { names.contains($0.0) }.map { "\($0.0): \($0.1)" } }
            return values(self) == values(other)
        }
    }

    /// Rails lists Accept unless the field contains a comma and a wildcard, as that of browsers does, and rack-cors lists Origin.
    private static let kinds = [
        Kind(name: "axios", fields: [("Accept", "application/json, text/plain, */*")], vary: ""),
        Kind(name: "native", fields: [("Accept", "application/json")], vary: "Accept"),
        Kind(name: "page", fields: [("Accept", "application/json"), ("Origin", "https://a.test")], vary: "Accept, Origin"),
    ]

    private static func origin() -> ScriptedOrigin {
        ScriptedOrigin { request in
            let kind = kinds.last { $0.fields.allSatisfy { request[$0.0] == $0.1 } }
            return [.json("{\"for\":\"\(kind?.name ?? "none")\"}", kind.map { $0.vary.isEmpty ? [] : ["Vary: \($0.vary)"] } ?? [])]
        }
    }

    private static func text(_ kind: Kind) -> String { "{\"for\":\"\(kind.name)\"}" }

    /// Clients send requests in a random order, then the upstream fails.
    private struct Walk {
        let play: ProxyPlay
        let fails: Bool
        var served: Set<String> = []

        init(_ random: inout SeededGenerator) throws {
            play = try ProxyPlay(ChangingVaryTests.origin())
            fails = random.isTrue()
        }

        mutating func step(_ random: inout SeededGenerator) throws {
            let kind = random.pick(ChangingVaryTests.kinds)
            let response = try play.get("/a", kind.fields)
            try demand(response.text == ChangingVaryTests.text(kind), "\(kind.name): \(response.text)")
            served.insert(kind.name)
        }

        func end() throws {
            if fails { play.origin.react { _ in [.json("{}", status: "503 Unavailable")] } } else { play.origin.down() }
            for kind in ChangingVaryTests.kinds where served.contains(kind.name) {
                let response = try play.get("/a", kind.fields)
                // The response must match the request by its own Vary (RFC 9111 §4.1).
                let isRight = ChangingVaryTests.kinds.contains { $0.matches(kind) && response.text == ChangingVaryTests.text($0) }
                try demand(response.status == 200 && isRight, "\(kind.name): \(response.status) \(response.text)")
            }
        }
    }

    @Test("every client that had a good response gets one when the upstream fails")
    func walk() throws {
        RandomSchedules.run(12, steps: 8) {
            try Walk(&$0)
        } step: {
            try $0.step(&$1)
        } end: { walk in
            try walk.end()
        }
    }

    @Test("a client gets no response of another Vary list while the upstream responds, and none that a purge or a write removed")
    func removed() throws {
        let (axios, native) = (Self.kinds[0], Self.kinds[1])
        for removal in ["", "purge", "write"] {
            let play = try ProxyPlay(Self.origin())
            for kind in [axios, native] { #expect(try play.get("/a", kind.fields).text == Self.text(kind)) }
            #expect(try play.get("/a", axios.fields)["Cache-Status"] == "cistern; fwd=vary-miss; stored")
            #expect(try play.get("/a", native.fields).text == Self.text(native))
            if removal == "purge" { #expect(try play.admin("POST", "/-/purge?prefix=/a").status == 200) }
            if removal == "write" { #expect(try play.request("DELETE", "/a").status == 200) }
            play.origin.down()
            #expect(try play.get("/a", axios.fields).status == (removal.isEmpty ? 200 : 502), "\(removal)")
            #expect(try play.get("/a", [("Accept", "text/csv")]).status == (removal.isEmpty ? 200 : 502), "\(removal)")
        }
    }
}
