// Tests which nodes may follow the log, by the value beside the epoch, their secrets and their upstreams.

import Fleet
import Testing

@testable import Sharing

@Suite("Admission to a fleet")
struct FleetAdmissionTests {
    private static let place = Array("cistern:f:{log}:nodes".utf8)
    private static let noon: Int64 = 1_700_000_000_000

    private static func secrets(_ names: String...) -> FleetSecrets {
        let file = names.map { $0 + String(repeating: "-", count: 32) }.joined(separator: "\n")
        guard let secrets = try? FleetSecrets(file: Array(file.utf8)) else { preconditionFailure("a secret is bad") }
        return secrets
    }

    /// The value in the engine, read and written by nodes.
    private struct Engine {
        var value: [UInt8]?
        var now = noon

        /// The node reads the value, and writes it if necessary.
        @discardableResult
        mutating func meet(_ secrets: FleetSecrets, _ served: [String: String] = ["": "http://api"]) -> FleetAdmission.Verdict {
            let verdict = FleetAdmission.judge(value, at: place, by: secrets, serving: served, fleetNow: now)
            guard case .write(let written, _, let isFirst) = verdict else { return verdict }
            #expect(isFirst == (value == nil))
            value = written
            let again = FleetAdmission.judge(value, at: place, by: secrets, serving: served, fleetNow: now)
            guard case .admitted = again else {
                Issue.record("a node is not admitted by what it has written: \(again)")
                return again
            }
            return again
        }
    }

    private static func isAdmitted(_ verdict: FleetAdmission.Verdict) -> Bool { if case .admitted = verdict { true } else { false } }

    @Test("the first node creates the value; a node with another secret cannot open or change it")
    func otherSecret() {
        var engine = Engine()
        #expect(Self.isAdmitted(engine.meet(Self.secrets("a"))))
        let value = engine.value
        #expect(engine.meet(Self.secrets("b")) == .otherSecret)
        #expect(engine.value == value)
        #expect(Self.isAdmitted(engine.meet(Self.secrets("a"))) && engine.value == value)
    }

    @Test("a secret can be rotated in three steps, node by node, without excluding any node", arguments: 0..<20)
    func rotation(seed: UInt64) {
        var random = SystemRandomNumberGenerator()
        var engine = Engine()
        let steps = [Self.secrets("a"), Self.secrets("a", "b"), Self.secrets("b", "a"), Self.secrets("b")]
        var nodes = [0, 0, 0]
        for step in 1..<steps.count {
            for node in nodes.indices.shuffled(using: &random) {
                nodes[node] = step
                // All nodes repeat this in any order, also while some are a step behind.
                for _ in 0..<Int.random(in: 1...6, using: &random) {
                    let other = Int.random(in: nodes.indices, using: &random)
                    engine.now += 7_000
                    // A node that is a step behind may drop the record of the new key. The next node with that key restores it.
                    for one in [other, node] { #expect(Self.isAdmitted(engine.meet(steps[nodes[one]]))) }
                }
            }
        }
        // The next renewal removes the record of the former key.
        engine.now += 30_000
        engine.meet(Self.secrets("b"))
        #expect(engine.meet(Self.secrets("a")) == .otherSecret)
    }

    @Test("an entry sealed with a key of any fleet node never counts as foreign, even for nodes without the key")
    func foreign() throws {
        let (a, b, c) = (Self.secrets("a"), Self.secrets("b"), Self.secrets("c"))
        var engine = Engine()
        engine.meet(a)
        engine.meet(Self.secrets("a", "b"))
        guard case .admitted(let admission) = engine.meet(b) else {
            Issue.record("a node with the new secret only is refused")
            return
        }
        let later = LogPosition(UInt64(Self.noon) + 1)
        for known in [a, b] { #expect(!admission.isForeign(known.first.id, at: later)) }
        #expect(admission.isForeign(c.first.id, at: later))
        // It is unknown which keys had sealed entries older than the value.
        #expect(!admission.isForeign(c.first.id, at: LogPosition(UInt64(Self.noon))))
    }

    @Test(
        "nodes with different upstreams for the same API do not join one fleet; nodes with other APIs do",
        arguments: [
            (["": "http://a"], ["": "http://a"], true), (["": "http://a"], ["": "http://b"], false),
            (["x": "http://a"], ["x": "http://b"], false),
            (["x": "http://a"], ["y": "http://b"], true), (["x": "http://a", "y": "http://b"], ["y": "http://b", "z": "http://c"], true),
            (["x": "http://a", "y": "http://b"], ["x": "http://a", "y": "http://c"], false), (["": "http://a"], ["x": "http://b"], true),
        ] as [([String: String], [String: String], Bool)])
    func upstreams(one: [String: String], other: [String: String], isOneFleet: Bool) {
        var engine = Engine()
        engine.meet(Self.secrets("a"), one)
        #expect(Self.isAdmitted(engine.meet(Self.secrets("a"), other)) == isOneFleet)
        #expect(Self.isAdmitted(engine.meet(Self.secrets("a"), one)))
    }

    @Test("after a rolling change of the upstream address, new nodes join half a minute after the last old node")
    func rollingAddress() {
        var engine = Engine()
        let (old, new) = (["x": "http://old"], ["x": "http://new"])
        for _ in 0..<50 {
            #expect(Self.isAdmitted(engine.meet(Self.secrets("a"), old)))
            #expect(engine.meet(Self.secrets("a"), new) == .otherUpstream)
            engine.now += 2_000
        }
        engine.now += 30_000
        #expect(Self.isAdmitted(engine.meet(Self.secrets("a"), new)))
        #expect(engine.meet(Self.secrets("a"), old) == .otherUpstream)
    }

    @Test("a temporary jump of the Redis server's clock does not extend an upstream's registration")
    func clockAhead() {
        var engine = Engine()
        let (old, new) = (["x": "http://old"], ["x": "http://new"])
        engine.now += 3_600_000
        engine.meet(Self.secrets("a"), old)
        engine.now -= 3_600_000
        #expect(Self.isAdmitted(engine.meet(Self.secrets("a"), old)))
        #expect(engine.meet(Self.secrets("a"), new) == .otherUpstream)
        engine.now += 30_000
        #expect(Self.isAdmitted(engine.meet(Self.secrets("a"), new)))
    }

    @Test("a damaged, truncated or extended value is rejected")
    func damaged() throws {
        var engine = Engine()
        engine.meet(Self.secrets("a"))
        let value = try #require(engine.value)
        func verdict(_ value: [UInt8]) -> FleetAdmission.Verdict {
            FleetAdmission.judge(value, at: Self.place, by: Self.secrets("a"), serving: [:], fleetNow: Self.noon)
        }
        for count in value.indices { #expect(verdict(Array(value[..<count])) == .otherSecret) }
        for index in value.indices {
            var other = value
            other[index] ^= 1
            #expect(verdict(other) == .otherSecret)
        }
        #expect(verdict(value + [0]) == .otherSecret)
        #expect(FleetAdmission.judge(value, at: [1], by: Self.secrets("a"), serving: [:], fleetNow: Self.noon) == .otherSecret)
    }
}
