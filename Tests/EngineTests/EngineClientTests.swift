// Tests of the client with one server: pipelined commands, late or missing replies, and the circuit breaker.

import Reactor
import TestSupport
import Testing

@testable import Engine

@Suite("A single Redis server", .play)
struct EngineClientTests {
    private static func bytes(_ text: String) -> EngineReply { .bytes(Array(text.utf8)) }
    private static let ok = EngineReply.status(Array("OK".utf8))

    /// Replies with the requested key.
    private static let echo: ScriptedEngine.Script = { words in
        words[0] == "GET" ? [.reply("$\(words[1].utf8.count)\r\n\(words[1])\r\n")] : nil
    }

    @Test("pipelined commands are answered in order, each to its caller")
    func pipelining() {
        let engine = ScriptedEngine(Self.echo)
        let play = EnginePlay(engine)
        let outcomes = (0..<1000).map { _ in Outcome() }
        play.onLoop { client in
            for (number, outcome) in outcomes.enumerated() {
                client.send(EngineCommand("GET", "k\(number)", keyAt: 1)) { outcome.put([$0]) }
            }
        }
        for (number, outcome) in outcomes.enumerated() { #expect(outcome.reply == Self.bytes("k\(number)") && outcome.calls == 1) }
        #expect(engine.connectionCount == 1)
        let figures = play.figures
        #expect(figures.commands == 1000 && figures.failures.isEmpty && figures.commandsUnderWay == 0 && figures.connections == 1)
        // Counts each command and the look-up of the slot map.
        #expect((0..<RoundTrips.buckets).reduce(0) { $0 + figures.roundTrips.counts[$1] } == 1001)
    }

    @Test("commands of one slot are sent together, and their replies are delivered together")
    func together() {
        let engine = ScriptedEngine()
        let play = EnginePlay(engine)
        let outcome = play.begin([
            EngineCommand("GET", "a", keyAt: 1), EngineCommand("SET", "a:l", "me", "NX", "PX", "5000", keyAt: 1),
            EngineCommand("WAIT", "1", "50", holdMilliseconds: 50),
        ])
        #expect(outcome.replies == [.nothing, Self.ok, Self.ok])
        #expect(engine.commands.map { $0[0] } == ["GET", "SET", "WAIT"])
    }

    @Test("commands without urgency are sent with urgent ones, in order, or by themselves after a short delay")
    func nonUrgent() {
        let engine = ScriptedEngine(Self.echo)
        let play = EnginePlay(engine)
        #expect(play.begin([EngineCommand("GET", "a", keyAt: 1)]).reply == Self.bytes("a"))
        func store(_ key: String) -> Outcome {
            let outcome = Outcome()
            play.onLoop { client in
                client.sendAll(EngineCommands([EngineCommand("SET", key, "1", keyAt: 1)]), isUrgent: false) { outcome.put($0) }
            }
            return outcome
        }
        let before = play.figures.bytesSent
        let first = store("b")
        play.turn()
        #expect(play.figures.bytesSent == before && play.figures.commandsUnderWay == 1 && first.now == nil)
        #expect(play.begin([EngineCommand("GET", "c", keyAt: 1)]).reply == Self.bytes("c"))
        #expect(first.reply == Self.ok)
        #expect(engine.commands.suffix(3).map { $0[1] } == ["a", "b", "c"])
        let second = store("d")
        play.turn()
        #expect(play.figures.commandsUnderWay == 1 && second.now == nil)
        play.advance(5)
        #expect(second.reply == Self.ok && second.calls == 1)
        // A command of this size is sent at once.
        let large = store(String(repeating: "e", count: 70_000))
        #expect(large.reply == Self.ok)
    }

    @Test("an impatient caller gets a timeout; its late reply is reported separately and never given to another caller")
    func late() {
        let gate = Gate()
        let engine = ScriptedEngine { words in words[0] == "GET" ? [.pass(gate), .reply("$1\r\n\(words[1])\r\n")] : nil }
        let play = EnginePlay(engine)
        #expect(play.ask("SET", "x", "1") == Self.ok)
        let first = play.begin("GET", "a")
        #expect(engine.wait { $0.commands.count == 2 })
        play.advance(9, step: 9)
        #expect(first.now == nil)
        play.advance(1)
        #expect(first.reply == .failed(.timedOut))
        let second = play.begin("GET", "b", patience: 100)
        gate.open()
        #expect(first.late == [Self.bytes("a")])
        #expect(second.reply == Self.bytes("b"))
        #expect(first.calls == 1)
        let figures = play.figures
        #expect(figures.failures == [.timedOut: 1] && figures.lateReplies == 1 && engine.connectionCount == 1)
    }

    @Test("after three timeouts commands fail at once, until a probe is answered")
    func breaker() {
        let gate = Gate()
        let engine = ScriptedEngine { words in words[0] == "GET" ? [.pass(gate), .reply("$-1\r\n")] : nil }
        let play = EnginePlay(engine)
        #expect(play.ask("SET", "x", "1") == Self.ok)
        for _ in 1...3 {
            #expect(play.isOpen)
            let outcome = play.begin("GET", "a")
            play.advance(10)
            #expect(outcome.reply == .failed(.timedOut))
        }
        #expect(!play.isOpen && play.onLoop { !$0.isOpen(forKey: [1]) })
        let refused = play.begin("GET", "a")
        #expect(refused.now == [.failed(.breakerOpen)])
        #expect(play.changes.withLock { $0 } == [.fails(.timedOut)])
        // The connection is open, and the probe waits behind the pending replies.
        play.advance(500)
        #expect(!play.isOpen)
        gate.open()
        #expect(play.wait { $0.isOpen })
        #expect(play.ask("GET", "a") == .nothing)
        #expect(play.changes.withLock { $0 } == [.fails(.timedOut), .recovered])
        #expect(engine.connectionCount == 1)
        #expect(engine.allCommands.count { $0[0] == "PING" } == 1)
        #expect(play.figures.failures == [.timedOut: 3, .breakerOpen: 1])
    }

    @Test("a probe answered after more than 250 ms does not close the breaker")
    func slowProbe() {
        let gates = Mutex<[Gate]>([])
        let engine = ScriptedEngine { words in
            guard words[0] == "PING" else { return nil }
            let gate = Gate()
            gates.withLock { $0.append(gate) }
            return [.pass(gate), .reply(ScriptedEngine.usual(words))]
        }
        let play = EnginePlay(engine)
        #expect(play.ask("SET", "x", "1") == Self.ok)
        engine.down()
        #expect(play.wait { $0.figures.connectionsLost == 1 })
        #expect(play.advance { !$0.isOpen })
        engine.up()
        play.advance(500)
        #expect(engine.wait { $0.allCommands.contains { $0[0] == "PING" } })
        play.advance(260)
        gates.withLock { $0[0] }.open()
        #expect(play.wait { $0.figures.commandsUnderWay == 0 })
        #expect(!play.isOpen)
        play.advance(240, step: 240)
        #expect(engine.wait { $0.allCommands.count { $0[0] == "PING" } == 2 })
        gates.withLock { $0[1] }.open()
        #expect(play.wait { $0.isOpen })
    }

    @Test("a server that answers only probes is tried at increasing intervals")
    func relapses() {
        let intervals: [Int64] = [500, 1000, 2000, 500]
        let gates = intervals.map { _ in Gate() }
        let engine = ScriptedEngine { words in words[0] == "GET" ? [.pass(gates[Int(words[1]) ?? 0]), .reply("$-1\r\n")] : nil }
        let play = EnginePlay(engine)
        #expect(play.ask("SET", "x", "1") == Self.ok)
        for (round, interval) in intervals.enumerated() {
            // Before the last round, the server has worked for a long time.
            if round == 3 { play.advance(10_000, settles: true) }
            for _ in 1...3 {
                let outcome = play.begin("GET", "\(round)")
                play.advance(10)
                #expect(outcome.reply == .failed(.timedOut))
            }
            #expect(!play.isOpen)
            gates[round].open()
            play.advance(interval - 1, settles: true)
            #expect(!play.isOpen)
            play.advance(1)
            #expect(play.wait { $0.isOpen })
        }
    }

    @Test("a server that is silent for 250 ms is not used any more, and its connection is replaced")
    func halfOpen() {
        let gate = Gate()
        let isSilent = Mutex(false)
        let engine = ScriptedEngine { words in isSilent.withLock { $0 } ? [.pass(gate)] : nil }
        let play = EnginePlay(engine) { $0.patienceMilliseconds = 5000 }
        #expect(play.ask("SET", "x", "1") == Self.ok)
        isSilent.withLock { $0 = true }
        let outcome = play.begin("SET", "x", "2")
        #expect(engine.wait { $0.commands.count == 2 })
        play.advance(249, step: 249)
        #expect(play.isOpen)
        play.advance(1)
        #expect(!play.isOpen && outcome.now == nil)
        isSilent.withLock { $0 = false }
        play.advance(1250)
        // The client closed the connection, not the server.
        #expect(outcome.reply == .failed(.timedOut))
        #expect(play.onLoop { $0.servers.compactMap(\.failure) } == [.timedOut])
        // The breaker opened at 250 ms; the client retries every 500 ms.
        play.advance(250)
        #expect(engine.wait { $0.connectionCount == 2 })
        #expect(play.wait { $0.isOpen })
        #expect(play.ask("SET", "x", "3") == Self.ok)
        gate.open()
    }

    @Test("the requested blocking time of a command does not count as silence")
    func held() {
        let gate = Gate()
        let engine = ScriptedEngine { words in words[0] == "XREAD" ? [.pass(gate), .reply("*-1\r\n")] : nil }
        let play = EnginePlay(engine)
        let outcome = play.begin(
            [EngineCommand("XREAD", "BLOCK", "1000", "STREAMS", "s", "0", keyAt: 4, holdMilliseconds: 1000)], patience: 2000)
        #expect(engine.wait { $0.commands.count == 1 })
        play.advance(1200)
        #expect(play.isOpen && outcome.now == nil)
        gate.open()
        #expect(outcome.reply == .nothing)
    }

    @Test("commands beyond the limits fail at once")
    func full() {
        let gate = Gate()
        let engine = ScriptedEngine { words in words[0] == "GET" ? [.pass(gate), .reply("$-1\r\n")] : nil }
        let play = EnginePlay(engine) { settings in
            settings.limits.commandsUnderWay = 3
            settings.limits.unsentBytes = 1000
        }
        #expect(play.begin([EngineCommand("SET", "a", String(repeating: "x", count: 1001))]).reply == .failed(.queueFull))
        let outcomes = (0..<5).map { _ in play.begin("GET", "a") }
        #expect(outcomes[3].reply == .failed(.queueFull) && outcomes[4].reply == .failed(.queueFull))
        gate.open()
        for outcome in outcomes[..<3] { #expect(outcome.reply == .nothing) }
        #expect(play.ask("GET", "a") == .nothing)
    }

    @Test(
        "an unsolicited or malformed reply ends the connection",
        arguments: ["+OK\r\n", "HTTP/1.1 400\r\n", "$99999999\r\n"])
    func unsolicitedReply(surplus: String) {
        let engine = ScriptedEngine { words in words.last == "bad" ? [.reply("+OK\r\n" + surplus)] : nil }
        let play = EnginePlay(engine)
        #expect(play.ask("SET", "a", "bad") == Self.ok)
        #expect(play.wait { $0.figures.connectionsLost == 1 })
        #expect(play.advance { $0.figures.connections == 2 })
        let outcome = play.begin("SET", "a", "1", patience: 1000)
        #expect(outcome.reply == Self.ok)
    }

    @Test("a probe with a wrong reply ends the connection")
    func wrongProbe() {
        let engine = ScriptedEngine { words in words[0] == "PING" ? [.reply("$5\r\nother\r\n")] : nil }
        let play = EnginePlay(engine)
        #expect(play.ask("SET", "a", "1") == Self.ok)
        engine.down()
        #expect(play.wait { $0.figures.connectionsLost == 1 })
        #expect(play.advance { !$0.isOpen })
        engine.up()
        play.advance(500)
        #expect(engine.wait { $0.allCommands.contains { $0[0] == "PING" } })
        #expect(play.wait { $0.figures.connectionsLost == 2 })
        #expect(!play.isOpen)
    }

    @Test("a closed connection fails the commands in progress and is replaced")
    func lost() {
        let engine = ScriptedEngine { words in words.last == "bad" ? [.close] : nil }
        let play = EnginePlay(engine)
        #expect(play.ask("SET", "a", "1") == Self.ok)
        play.advance(2000)
        #expect(play.onLoop { $0.connection(forKey: [1]) } == 1)
        #expect(play.ask("SET", "a", "bad") == .failed(.connectionLost))
        #expect(play.ask("SET", "a", "2") == Self.ok)
        #expect(engine.connectionCount == 2 && play.onLoop { $0.connection(forKey: [1]) } == 2)
    }

    @Test("an unreachable server fails waiting commands at once, and opens the breaker after three failures")
    func unreachable() {
        let play = EnginePlay([.host("127.0.0.1", port: TestTools.freePort())])
        #expect(play.ask("GET", "a") == .failed(.unreachable))
        #expect(play.advance { !$0.isOpen })
        #expect(play.begin("GET", "a").now == [.failed(.breakerOpen)])
    }

    @Test("the Cluster is discovered through the first reachable of several servers")
    func seeds() {
        let engine = ScriptedEngine()
        engine.react { [port = engine.port] words in words[0] == "CLUSTER" ? [.reply(ScriptedEngine.slots([(0...16_383, port)]))] : nil }
        let play = EnginePlay([
            .host("127.0.0.1", port: TestTools.freePort()), .host("127.0.0.1", port: TestTools.freePort()), engine.server,
        ])
        #expect(play.ask("SET", "a", "1", patience: 1000) == Self.ok)
    }

    @Test("several servers that are not a Cluster are not used, not even one alone, until they form a Cluster")
    func notCluster() {
        let (one, other) = (ScriptedEngine(), ScriptedEngine())
        let play = EnginePlay([one.server, other.server])
        #expect(play.ask("SET", "a", "1", patience: 1000) == .failed(.notCluster))
        other.down()
        play.advance(1000)
        #expect(play.ask("SET", "a", "1", patience: 1000) == .failed(.notCluster))
        #expect(one.commands.isEmpty && other.commands.isEmpty)
        #expect(play.onLoop { $0.servers.allSatisfy { $0.role == .unlisted } })
        one.react { [port = one.port] words in words[0] == "CLUSTER" ? [.reply(ScriptedEngine.slots([(0...16_383, port)]))] : nil }
        play.advance(1000)
        #expect(play.ask("SET", "a", "1", patience: 1000) == Self.ok)
    }

    @Test("if the user may not query the Cluster of several servers, none is used, and the missing permission is reported")
    func clusterForbidden() {
        let engines = [ScriptedEngine(), ScriptedEngine()]
        let refusal = "-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n"
        for engine in engines { engine.react { $0[0] == "CLUSTER" ? [.reply(refusal)] : nil } }
        #expect(EnginePlay(engines.map(\.server)).ask("GET", "a", patience: 1000) == .failed(.commandForbidden))
        #expect(EnginePlay([engines[0].server]).ask("GET", "a", patience: 1000) == .nothing, "a single server needs no cluster command")
    }

    @Test("a server that became a replica is connected again, because its name may resolve to another server")
    func replicaNow() {
        let isReplica = Mutex(true)
        let engine = ScriptedEngine { words in
            words[0] == "SET" && isReplica.withLock { $0 } ? [.reply("-READONLY You can't write against a read only replica.\r\n")] : nil
        }
        let play = EnginePlay(engine)
        #expect(play.ask("GET", "a") == .nothing)
        // The client does not reconnect at once, because then each command would make a new connection.
        #expect(play.ask("SET", "a", "1") == .failed(.readOnly))
        play.settle()
        #expect(engine.connectionCount == 1)
        play.advance(1000, settles: true)
        #expect(play.ask("SET", "a", "1") == .failed(.readOnly))
        isReplica.withLock { $0 = false }
        #expect(play.ask("SET", "a", "1", patience: 1000) == Self.ok)
        #expect(engine.connectionCount == 2)
    }

    @Test("names are resolved off the event loop")
    func name() {
        let engine = ScriptedEngine()
        let play = EnginePlay([.host("localhost", port: engine.port)])
        #expect(play.ask("SET", "a", "1", patience: 1000) == Self.ok)
    }

    @Test("a server that hangs in the TLS handshake or in authentication is given up after a second", arguments: [false, true])
    func hangingGreeting(isTLS: Bool) {
        let gate = Gate()
        let engine = ScriptedEngine { words in words[0] == "AUTH" ? [.pass(gate)] : nil }
        let play = EnginePlay(engine) { settings in
            settings.passwordFile = TestTools.file("secret")
            if isTLS { settings.tls = EngineTLS() }
        }
        let outcome = play.begin("SET", "a", "1", patience: 5000)
        #expect(engine.wait { $0.connectionCount == 1 })
        #expect(play.wait { $0.nodes.values.allSatisfy(\.isConnecting) })
        play.advance(1000)
        // The server has accepted the connection, so it is not unreachable.
        #expect(play.onLoop { $0.nodes.values.map(\.lastFailure) } == [isTLS ? .noTLS : .timedOut])
        // The slot map was not loaded, so no command waits for it any more.
        #expect(outcome.reply?.failure != nil && play.figures.commandsUnderWay == 0)
        gate.open()
    }

    @Test("the password is sent first, with the user if configured", arguments: [nil, "me"])
    func password(user: String?) {
        let engine = ScriptedEngine()
        let play = EnginePlay(engine) { settings in
            settings.username = user
            settings.passwordFile = TestTools.file("secret")
        }
        #expect(play.ask("SET", "a", "1") == Self.ok)
        #expect(engine.allCommands.first == ["AUTH"] + (user.map { [$0] } ?? []) + ["secret"])
    }

    @Test(
        "an error reply to AUTH is classified by its meaning; a full server does not count as a wrong password",
        arguments: [
            ("WRONGPASS invalid username-password pair or user is disabled.", EngineFailure.denied),
            ("NOAUTH Authentication required.", .denied),
            ("ERR AUTH <password> called without any password configured for the default user.", .denied),
            ("ERR invalid password", .denied), ("DENIED Redis is running in protected mode, and no password is set", .denied),
            ("ERR max number of clients reached", .unreachable), ("ERR Error accepting a new connection", .unreachable),
            ("LOADING Redis is loading the dataset in memory", .loading),
        ])
    func authenticationErrors(text: String, failure: EngineFailure) {
        let engine = ScriptedEngine { words in words[0] == "AUTH" ? [.reply("-\(text)\r\n"), .close] : nil }
        let play = EnginePlay(engine) { $0.passwordFile = TestTools.file("secret") }
        // After a denial the breaker opens at once. A server that may accept connections soon is given more attempts.
        #expect([.failed(failure), .failed(.breakerOpen)].contains(play.ask("SET", "a", "1")))
        #expect(play.isOpen == (failure != .denied))
    }

    @Test("a wrong password opens the breaker at once, and a correct one closes it")
    func wrongPassword() {
        let isGood = Mutex(false)
        let engine = ScriptedEngine { words in
            words[0] == "AUTH" && !isGood.withLock { $0 } ? [.reply("-WRONGPASS invalid username-password pair\r\n")] : nil
        }
        let play = EnginePlay(engine) { $0.passwordFile = TestTools.file("secret") }
        // The failure before the breaker opens, or the open breaker.
        #expect([.failed(.denied), .failed(.breakerOpen)].contains(play.ask("SET", "a", "1")))
        #expect(!play.isOpen)
        #expect(play.changes.withLock { $0 } == [.fails(.denied)])
        isGood.withLock { $0 = true }
        play.advance(500)
        #expect(play.wait { $0.isOpen })
        #expect(play.ask("SET", "a", "1") == Self.ok)
    }

    @Test("a command that timed out before the connection was established is not sent")
    func neverSent() {
        let gate = Gate()
        let engine = ScriptedEngine { words in words[0] == "AUTH" ? [.pass(gate), .reply("+OK\r\n")] : nil }
        let play = EnginePlay(engine) { $0.passwordFile = TestTools.file("secret") }
        let outcome = play.begin("SET", "a", "1")
        #expect(engine.wait { $0.allCommands.count == 1 })
        play.advance(10)
        #expect(outcome.reply == .failed(.timedOut))
        gate.open()
        #expect(play.wait { $0.map != nil })
        #expect(play.ask("SET", "a", "2") == Self.ok)
        #expect(engine.commands.filter { $0[0] == "SET" } == [["SET", "a", "2"]])
        #expect(play.figures.lateReplies == 0)
    }

    @Test("a reply handler may send more commands and may close the client")
    func callsFromReplyHandler() {
        let engine = ScriptedEngine(Self.echo)
        let play = EnginePlay(engine)
        let (again, last, unwanted) = (Outcome(), Outcome(), Outcome())
        play.onLoop { client in
            client.send(EngineCommand("GET", "a", keyAt: 1)) { _ in
                client.send(EngineCommand("GET", "b", keyAt: 1)) { again.put([$0]) }
                client.send(EngineCommand("GET", "c", keyAt: 1)) { reply in
                    client.close()
                    last.put([reply])
                    client.send(EngineCommand("GET", "d", keyAt: 1)) { last.putLate([$0]) }
                }
                client.send(EngineCommand("GET", "e", keyAt: 1)) { unwanted.put([$0]) }
            }
        }
        #expect(again.reply == Self.bytes("b") && last.reply == Self.bytes("c"))
        #expect(unwanted.reply == .failed(.closed) && last.late == [.failed(.closed)])
        #expect(play.figures.servers == 0)
    }

    @Test("a late command is reported once when its connection ends or the client is closed", arguments: [false, true])
    func lateEnd(closes: Bool) {
        let gate = Gate()
        let engine = ScriptedEngine { words in words[0] == "GET" ? [.pass(gate), .close] : nil }
        let play = EnginePlay(engine)
        #expect(play.ask("SET", "a", "1") == Self.ok)
        let outcome = play.begin([EngineCommand("GET", "a", keyAt: 1), EngineCommand("SET", "a", "1", keyAt: 1)])
        #expect(engine.wait { $0.commands.count == 2 })
        play.advance(10)
        #expect(outcome.replies == [.failed(.timedOut), .failed(.timedOut)])
        if closes { play.onLoop { $0.close() } } else { gate.open() }
        let end = EngineReply.failed(closes ? .closed : .connectionLost)
        #expect(outcome.late == [end, end] && outcome.calls == 1)
        #expect(play.figures.failures == [.timedOut: 2] && play.figures.lateReplies == 0)
        gate.open()
    }

    @Test("closing the client fails all waiting commands")
    func closed() {
        let gate = Gate()
        let engine = ScriptedEngine { words in words[0] == "GET" ? [.pass(gate)] : nil }
        let play = EnginePlay(engine)
        let outcomes = [play.begin("GET", "a"), play.begin("GET", "b")]
        #expect(engine.wait { $0.commands.count >= 1 })
        play.onLoop { $0.close() }
        for outcome in outcomes { #expect(outcome.reply == .failed(.closed) && outcome.calls == 1) }
        #expect(play.ask("GET", "c") == .failed(.closed))
        gate.open()
    }
}
