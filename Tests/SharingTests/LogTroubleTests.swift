// Why the log cannot be seen, and what is told of it.

import Engine
import Fleet
import ResponseCache
import TestSupport
import Testing

@testable import Sharing

@Suite("Why the log cannot be seen")
struct LogTroubleTests {
    private static let server = EngineServer.host("one", port: 1)

    @Test("only a silence is the engine's not replying in time; a connection that was lost is told by who lost it")
    func causes() {
        for cause in BlindCause.allCases {
            let trouble = LogTrouble(cause, known: .failed(.denied, Self.server), Self.server)
            #expect((trouble == .failed(.timedOut, Self.server)) == (cause == .silence), "\(cause)")
            #expect((trouble == .failed(.denied, Self.server)) == (cause == .lost), "\(cause)")
            #expect(trouble.isMisconfiguration == (cause == .lost))
        }
        #expect(LogTrouble(.lost, known: nil, Self.server) == .failed(.connectionLost, Self.server))
    }

    @Test("each has a word and a sentence of its own")
    func words() {
        let troubles = BlindCause.allCases.map { LogTrouble($0, known: .notUnderstood, Self.server) }
        #expect(Set(troubles.map(\.label)).count == troubles.count)
        #expect(Set(troubles.map { $0.sentence(fleet: "play") }).count == troubles.count)
    }
}

@Suite(
    "What a node says of the log", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct SaidOfLogTests {
    @Test("an engine that has lost its data has replied in time: there is another log")
    func otherLog() throws {
        try FleetLogPlay.run { (play: FleetLogPlay) throws in
            play.redis.direct.ask("FLUSHALL")
            #expect(try eventually { play.said.count(of: "cannot be seen") == 1 })
            #expect(play.said.count(of: "cannot be seen: the engine has another log than it had") == 1, "\(play.said.all)")
            #expect(try eventually { play.said.count(of: "the fleet's log is followed") == 2 })
            #expect(play.figures.trouble == nil)
        }
    }
    @Test("an engine that does not let the log be trimmed takes what is said all the same, and that is what is told")
    func untrimmed() throws {
        try FleetLogPlay.run { (play: FleetLogPlay) throws in
            play.redis.direct.ask("ACL SETUSER default -xtrim")
            // Trimmed by number once in a thousand entries.
            for round in 0..<9 {
                let told = play.purge((0..<128).map { "\(round) \($0)" })
                #expect(try eventually { told.now == .pending(reason: "no_replica") })
            }
            #expect(play.figures.appended >= 1_000 && play.redis.direct.ask("INFO commandstats").contains("cmdstat_xtrim"))
            #expect(play.said.count(of: "other nodes are not told") == 0, "\(play.said.all)")
            #expect(play.said.count(of: "is not trimmed (XTRIM): the engine does not let the user use a command") == 1)
        }
    }
}
