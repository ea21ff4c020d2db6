// Tests of the client with a Cluster: slots of servers, and replies that report moved slots.

import Reactor
import TestSupport
import Testing

@testable import Engine

@Suite("A Redis Cluster", .play)
struct EngineClusterTests {
    private static func bytes(_ text: String) -> EngineReply { .bytes(Array(text.utf8)) }
    private static let ok = EngineReply.status(Array("OK".utf8))

    /// Two servers that share the slots. The test scripts their other replies.
    private final class Pair: Sendable {
        let low = ScriptedEngine()
        let high = ScriptedEngine()
        /// The port of the server of each half of the slots, as both servers report it.
        let shares: Mutex<(UInt16, UInt16)>

        init() {
            shares = Mutex((low.port, high.port))
            for engine in [low, high] { react(engine) { _ in nil } }
        }

        func react(_ engine: ScriptedEngine, _ script: @escaping ScriptedEngine.Script) {
            engine.react { [unowned self] words in
                guard words[0] == "CLUSTER" else { return script(words) }
                let (one, other) = shares.withLock { $0 }
                return [.reply(ScriptedEngine.slots([(0...8191, one), (8192...16383, other)]))]
            }
        }
    }

    /// Keys in slot 12182 (the second half) and slot 5061 (the first half).
    private static let (high, low) = ("foo", "bar")

    @Test("each key goes to the server of its slot, and commands without a key go to any server")
    func slots() {
        let pair = Pair()
        let play = EnginePlay(pair.low)
        #expect(play.ask("SET", Self.high, "1", keyAt: 1) == Self.ok && play.ask("SET", Self.low, "1", keyAt: 1) == Self.ok)
        #expect(pair.low.commands == [["SET", Self.low, "1"]] && pair.high.commands == [["SET", Self.high, "1"]])
        for _ in 0..<2 { #expect(play.ask("INFO") == Self.ok) }
        #expect(pair.low.commands.count == 2 && pair.high.commands.count == 2)
        #expect(play.onLoop { $0.isCluster })
    }

    @Test("after MOVED the command is repeated at the named server, later ones go there directly, and the map is refreshed")
    func moved() {
        let pair = Pair()
        pair.react(pair.low) { [port = pair.high.port] words in words[0] == "SET" ? [.reply("-MOVED 5061 127.0.0.1:\(port)\r\n")] : nil }
        let play = EnginePlay(pair.low)
        #expect(play.ask("SET", Self.low, "1", keyAt: 1) == Self.ok)
        #expect(play.ask("SET", Self.low, "2", keyAt: 1) == Self.ok)
        #expect(pair.low.commands.count == 1 && pair.high.commands.count == 2)
        play.advance(200, settles: true)
        #expect(play.figures.mapLookUps == 2)
        #expect(play.figures.repetitions == 1)
    }

    @Test("a MOVED loop ends with an error")
    func ring() {
        let pair = Pair()
        for engine in [pair.low, pair.high] {
            let other = engine === pair.low ? pair.high.port : pair.low.port
            pair.react(engine) { words in words[0] == "SET" ? [.reply("-MOVED 5061 127.0.0.1:\(other)\r\n")] : nil }
        }
        let play = EnginePlay(pair.low)
        #expect(play.ask("SET", Self.low, "1", keyAt: 1) == .failed(.redirected))
        #expect(pair.low.commands.count + pair.high.commands.count == 6)
    }

    @Test("after ASK one command goes to the other server, preceded by ASKING, and the map is unchanged")
    func ask() {
        let pair = Pair()
        pair.react(pair.low) { [port = pair.high.port] words in
            words[1] == "gone{bar}" ? [.reply("-ASK 5061 127.0.0.1:\(port)\r\n")] : nil
        }
        let play = EnginePlay(pair.low)
        let outcome = play.begin([EngineCommand("GET", "gone{bar}", keyAt: 1), EngineCommand("SET", "here{bar}", "1", keyAt: 1)])
        #expect(outcome.replies == [.nothing, Self.ok])
        #expect(pair.high.commands == [["ASKING"], ["GET", "gone{bar}"]])
        #expect(pair.low.commands == [["GET", "gone{bar}"], ["SET", "here{bar}", "1"]])
        #expect(play.ask("SET", Self.low, "1", keyAt: 1) == Self.ok)
        #expect(pair.low.commands.count == 3)
    }

    @Test("a command without a key follows the command before it")
    func wait() {
        let pair = Pair()
        pair.react(pair.low) { [port = pair.high.port] words in
            switch words[0] {
            case "XADD": [.reply("-MOVED 5061 127.0.0.1:\(port)\r\n")]
            // The first server's own replica would acknowledge without having the entry.
            case "WAIT": [.reply(":1\r\n")]
            default: nil
            }
        }
        pair.react(pair.high) { words in words[0] == "WAIT" ? [.reply(":0\r\n")] : nil }
        let play = EnginePlay(pair.low)
        let outcome = play.begin([EngineCommand("XADD", Self.low, "*", "k", "v", keyAt: 1), EngineCommand("WAIT", "1", "50")])
        #expect(outcome.replies == [Self.ok, .integer(0)])
        #expect(pair.high.commands.map { $0[0] } == ["XADD", "WAIT"])
    }

    @Test("TRYAGAIN repeats the command after a short delay, within the caller's timeout")
    func tryAgain() {
        let pair = Pair()
        let refusals = Mutex(2)
        pair.react(pair.low) { words in
            let isRefused = refusals.withLock { count in
                count -= 1
                return count >= 0
            }
            return words[0] == "GET" && isRefused ? [.reply("-TRYAGAIN Multiple keys request during rehashing of slot\r\n")] : nil
        }
        let play = EnginePlay(pair.low)
        let outcome = play.begin("GET", Self.low, keyAt: 1)
        #expect(pair.low.wait { $0.commands.count == 1 })
        for _ in 2...3 {
            play.settle()
            #expect(outcome.now == nil)
            play.advance(2)
        }
        #expect(outcome.reply == .nothing)
    }

    @Test(
        "an error that cannot pass within the timeout is reported at once, without a retry",
        arguments: [
            ("LOADING Redis is loading the dataset in memory", EngineFailure.loading), ("CLUSTERDOWN The cluster is down", .clusterDown),
            ("READONLY You can't write against a read only replica.", .readOnly),
            ("NOPERM this user has no permissions", .commandForbidden),
            ("OOM command not allowed when used memory > 'maxmemory'.", .full), ("NOAUTH Authentication required.", .denied),
        ])
    func passing(text: String, failure: EngineFailure) {
        let pair = Pair()
        pair.react(pair.low) { words in words[0] == "SET" ? [.reply("-\(text)\r\n")] : nil }
        let play = EnginePlay(pair.low)
        // The clock stands still, so nothing waits.
        #expect(play.ask("SET", Self.low, "1", keyAt: 1) == .failed(failure))
        #expect(play.isOpen)
    }

    @Test("when a primary becomes a replica, the map is refreshed elsewhere, and waiting commands go to the new primary")
    func readOnly() {
        let pair = Pair()
        pair.react(pair.low) { words in words[0] == "SET" ? [.reply("-READONLY You can't write against a read only replica.\r\n")] : nil }
        let play = EnginePlay(pair.low)
        #expect(play.ask("GET", Self.low, keyAt: 1) == .nothing)
        pair.shares.withLock { $0 = (pair.high.port, pair.high.port) }
        let outcome = play.begin("SET", Self.low, "1", keyAt: 1, patience: 2000)
        #expect(pair.low.wait { $0.commands.count == 2 })
        #expect(play.advance { _ in outcome.now != nil })
        #expect(outcome.reply == Self.ok)
        #expect(pair.high.commands == [["SET", Self.low, "1"]])
    }

    @Test("a lost server fails only commands for its slots, until the map shows the new owner")
    func lost() {
        let pair = Pair()
        let play = EnginePlay([pair.low.server, pair.high.server])
        #expect(play.ask("SET", Self.low, "1", keyAt: 1) == Self.ok)
        pair.low.down()
        #expect(play.wait { $0.figures.connectionsLost == 1 })
        play.advance(1000, settles: true)
        #expect(play.isOpen && play.onLoop { !$0.isOpen(forKey: Array("bar".utf8)) && $0.isOpen(forKey: Array("foo".utf8)) })
        #expect(play.begin("SET", Self.low, "1", keyAt: 1).now == [.failed(.breakerOpen)])
        #expect(play.ask("SET", Self.high, "1", keyAt: 1) == Self.ok)
        pair.shares.withLock { $0 = (pair.high.port, pair.high.port) }
        #expect(play.advance { $0.isOpen(forKey: Array("bar".utf8)) })
        #expect(play.ask("SET", Self.low, "2", keyAt: 1) == Self.ok)
        // The failure is over: if the server returns and fails again, a new failure is reported.
        #expect(play.changes.withLock { $0 } == [.fails(.unreachable), .dropped])
        #expect(play.onLoop { $0.openFailure(of: pair.low.server) } == nil)
    }

    @Test("a slot without an owner is reported as down")
    func uncovered() {
        let engine = ScriptedEngine()
        engine.react { [port = engine.port] words in words[0] == "CLUSTER" ? [.reply(ScriptedEngine.slots([(0...99, port)]))] : nil }
        let play = EnginePlay(engine)
        #expect(play.ask("SET", Self.low, "1", keyAt: 1) == .failed(.clusterDown))
    }

    @Test("unfinished replies are limited over all connections")
    func unfinished() {
        let pair = Pair()
        let gate = Gate()
        for engine in [pair.low, pair.high] {
            let part = "$90000\r\n" + String(repeating: "x", count: 60_000)
            pair.react(engine) { words in
                words[0] == "GET" ? [.reply(part), .pass(gate), .reply(String(repeating: "x", count: 30_000) + "\r\n")] : nil
            }
        }
        let play = EnginePlay(pair.low) { $0.limits.unfinishedBytes = 100_000 }
        #expect(play.ask("SET", Self.low, "1", keyAt: 1) == Self.ok)
        let outcomes = [play.begin("GET", Self.low, keyAt: 1), play.begin("GET", Self.high, keyAt: 1)]
        #expect(play.wait { _ in outcomes.contains { $0.now != nil } })
        gate.open()
        let replies = outcomes.map(\.reply)
        #expect(replies.count { $0 == .failed(.protocolError) } == 1 && replies.count { $0?.text?.count == 90_000 } == 1)
        // The memory of unfinished replies is released.
        #expect(play.onLoop { $0.counted.heldBytes } == 0)
    }

    @Test("the number of servers that Redis can name is limited")
    func tooMany() {
        let engine = ScriptedEngine()
        let port = TestTools.freePort()
        engine.react { words in
            words[0] == "CLUSTER" ? nil : [.reply("-MOVED \(KeySlot.of(Array(words[1].utf8))) 127.0.0.1:\(port)\r\n")]
        }
        let play = EnginePlay(engine) { $0.limits.servers = 1 }
        #expect(play.ask("SET", "a", "1", keyAt: 1) == .failed(.queueFull))
        #expect(play.figures.servers == 1)
    }
}
