// What nodes do not share, so that nobody sees another's data and no good copy is lost; and what else goes where another node purges a target.

import CachePolicy
import HTTPCore
import Identity
import Testing

@testable import ResponseCache

@Suite("The cache: what is not shared with other nodes")
struct SharingLimitsTests {
    private static let fresh = ("Cache-Control", "max-age=60")

    // MARK: Whose it is

    /// A node that asks the upstream whose credentials are.
    private struct Asking {
        let node: FleetCache
        private let identities: ToldIdentities

        init() throws {
            var asked = LookUpSettings()
            (asked.path, asked.pointers) = ("/me", ["/tenant"])
            var rules = CredentialRules()
            rules.lookUp = 0
            identities = ToldIdentities(asked)
            node = try FleetCache { [identities, rules] in
                ($0.credentials, $0.lookUps) = (CredentialTable(PathTable(rest: rules)), [identities])
            }
        }

        /// The upstream says whose these are.
        func tell(_ tenant: String, of lines: TestCache.Lines) throws {
            let basis = try node.test.cache.find(TestCache.request("/a", lines)).basis
            guard case .told(let told) = basis.identity else {
                Issue.record("nobody is asked")
                return
            }
            let partition = node.test.cache.keyMaker.partition(told: Array(tenant.utf8), by: identities.settings)
            identities.end(told.hash, .told(partition: partition), now: node.test.now)
        }
    }

    @Test("what is stored for a user of whom the upstream has told is not given, nor looked for: its credentials may be another's tomorrow")
    func told() throws {
        let (one, other) = (try Asking(), try Asking())
        let (moving, staying) = ([("X-User", "moving")], [("X-User", "staying")])
        // Before it has said so each is a user of its own, which is the same at all nodes.
        try one.node.test.fetch("/a", moving, [Self.fresh], "\"of X\"")
        #expect(try other.node.take("/a", moving, from: one.node) == [.taken])
        for asking in [one, other] {
            try asking.tell("X", of: moving)
            try asking.tell("Y", of: staying)
        }
        try one.node.test.fetch("/b", moving, [Self.fresh], "\"of X\"")
        #expect(one.node.given.records.count == 1)
        #expect(try other.node.lookUp("/b", moving) == nil)
        // Then it belongs to the other user. What the engine still has under it goes to nobody.
        let head = TestCache.request("/a", moving)
        let before = try other.node.test.cache.find(head).keys
        try other.tell("Y", of: moving)
        #expect(other.node.test.cache.sharedLookUp(for: head, at: before) == nil)
        #expect(try other.node.take("/a", moving, from: one.node).isEmpty)
        #expect(try other.node.test.found("/a", staying) == nil)
        // Nobody knows it any more: it is a user of its own again.
        for asking in [one, other] { asking.node.test.now += 3_600_000 }
        #expect(other.node.test.cache.sharedLookUp(for: head, at: before) == nil)
        try one.node.test.fetch("/c", moving, [Self.fresh], "\"its own\"")
        #expect(try other.node.take("/c", moving, from: one.node) == [.taken])
    }
}
