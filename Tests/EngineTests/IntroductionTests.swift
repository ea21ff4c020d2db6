// Tests of the first commands of a connection: authentication, name and database.

import Reactor
import TestSupport
import Testing

@testable import Engine

@Suite("Introduction of a connection")
struct IntroductionTests {
    private static let ok = EngineReply.status(Array("OK".utf8))

    @Test("the password file is read again for each connection, and the user is sent with it")
    func rotatedPassword() throws {
        let engine = ScriptedEngine()
        let path = TestTools.file("first\n")
        let play = EnginePlay(engine) { ($0.username, $0.passwordFile) = ("me", path) }
        #expect(play.ask("SET", "a", "1") == Self.ok)
        try TestTools.write("second\nother\n", to: path)
        // A connection that lasted a second is reconnected at once.
        play.advance(1_000)
        engine.react { $0[0] == "SET" && $0[1] == "end" ? [.close] : nil }
        _ = play.ask("SET", "end", "1")
        #expect(engine.wait { $0.allCommands.contains(["AUTH", "other", "second"]) })
        #expect(engine.allCommands.first == ["AUTH", "me", "first"])
    }

    @Test("a server whose password file is empty or missing is not used", arguments: [nil, ""])
    func noPassword(text: String?) {
        let engine = ScriptedEngine()
        let play = EnginePlay(engine) { $0.passwordFile = text.map { TestTools.file($0) } ?? "/nowhere/at/all" }
        #expect([.failed(.denied), .failed(.breakerOpen)].contains(play.ask("SET", "a", "1")))
        #expect(engine.allCommands.isEmpty && !play.isOpen)
    }

    @Test("a connection sets its name, if permitted, and selects the configured database", arguments: [true, false])
    func introduction(mayHaveName: Bool) {
        let engine = ScriptedEngine { $0[0] == "CLIENT" && !mayHaveName ? [.reply("-NOPERM no\r\n")] : nil }
        let play = EnginePlay(engine) { ($0.clientName, $0.database) = ("cistern-shop-1", 3) }
        #expect(play.ask("SET", "a", "1") == Self.ok)
        #expect(engine.allCommands.prefix(2) == [["CLIENT", "SETNAME", "cistern-shop-1"], ["SELECT", "3"]])
    }

    @Test("a Cluster rejects databases other than 0, and the client reports it")
    func noDatabase() {
        let engine = ScriptedEngine { $0[0] == "SELECT" ? [.reply("-ERR SELECT is not allowed in cluster mode\r\n")] : nil }
        let play = EnginePlay(engine) { $0.database = 3 }
        #expect([.failed(.noDatabase), .failed(.breakerOpen)].contains(play.ask("SET", "a", "1")))
        #expect(!play.isOpen && play.changes.withLock { $0 } == [.fails(.noDatabase)])
    }
}
