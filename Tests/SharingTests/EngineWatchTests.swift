// Tests which failures of servers are logged, and that they are not logged repeatedly.

import Engine
import Testing

@testable import Sharing

@Suite("Failing Redis servers")
struct EngineWatchTests {
    private final class Shard {}

    private let shards = (0..<3).map { _ in Shard() }
    private static let (one, other) = (EngineServer.host("one", port: 1), EngineServer.host("other", port: 1))

    /// Notes a change that one shard reports.
    private func note(
        _ watch: inout EngineWatch, _ change: EngineServerChange, by number: Int, at now: Int64, of server: EngineServer = one,
        mayLog: Bool = true
    ) -> EngineWatch.News? {
        watch.note(server, change, by: ObjectIdentifier(shards[number]), mayLog: mayLog, now: now)
    }

    @Test("the first shard that fails reports the failure of a server, and the last that recovers reports the recovery")
    func once() {
        var watch = EngineWatch()
        #expect(note(&watch, .fails(.timedOut), by: 0, at: 0) == .fails(Self.one, .timedOut))
        for number in 1...2 { #expect(note(&watch, .fails(.unreachable), by: number, at: 10) == nil) }
        #expect(note(&watch, .fails(.denied), by: 0, at: 20, of: Self.other) == .fails(Self.other, .denied))
        for number in 0...1 { #expect(note(&watch, .recovered, by: number, at: 30) == nil) }
        #expect(note(&watch, .recovered, by: 2, at: 30) == .recovered(Self.one))
        #expect(note(&watch, .recovered, by: 2, at: 30) == nil)
    }

    @Test("a server removed from the Cluster counts as failing no more; a later failure is reported again")
    func dropped() {
        var watch = EngineWatch()
        for number in 0...2 { _ = note(&watch, .fails(.unreachable), by: number, at: 0) }
        for number in 0...1 { #expect(note(&watch, .dropped, by: number, at: 100) == nil) }
        #expect(note(&watch, .dropped, by: 2, at: 100) == .dropped(Self.one))
        #expect(note(&watch, .fails(.timedOut), by: 1, at: 60_000) == .fails(Self.one, .timedOut))
    }

    @Test("a flapping server is reported once a minute; a failure that persists is reported after that minute")
    func flapping() {
        var watch = EngineWatch()
        #expect(note(&watch, .fails(.timedOut), by: 0, at: 0) != nil)
        #expect(note(&watch, .recovered, by: 0, at: 10_000) == .recovered(Self.one))
        for number in 0...2 { #expect(note(&watch, .fails(.unreachable), by: number, at: 20_000) == nil) }
        #expect(watch.due(now: 59_999) { _ in true } == [])
        #expect(watch.due(now: 60_000) { _ in false } == [])
        #expect(watch.due(now: 60_000) { _ in true } == [.fails(Self.one, .unreachable)])
        #expect(watch.due(now: 200_000) { _ in true } == [])
        for number in 0...1 { #expect(note(&watch, .recovered, by: number, at: 200_000) == nil) }
        #expect(note(&watch, .recovered, by: 2, at: 200_000) == .recovered(Self.one))
    }

    @Test("while another component reports a server's failure, it is reported only once that component stops")
    func reportedOnce() {
        var watch = EngineWatch()
        #expect(note(&watch, .fails(.timedOut), by: 0, at: 0, mayLog: false) == nil)
        #expect(watch.due(now: 1) { _ in true } == [.fails(Self.one, .timedOut)])
        #expect(note(&watch, .recovered, by: 0, at: 2, mayLog: false) == .recovered(Self.one))
        #expect(note(&watch, .fails(.timedOut), by: 0, at: 70_000, mayLog: false) == nil)
        #expect(note(&watch, .recovered, by: 0, at: 70_001, mayLog: false) == nil)
    }

    @Test("recovered and removed servers are forgotten; failing ones are kept")
    func bounded() {
        var watch = EngineWatch()
        #expect(note(&watch, .fails(.timedOut), by: 0, at: 0) != nil)
        for number in 0..<1_000 as Range<UInt16> {
            let server = EngineServer.host("another", port: number)
            #expect(note(&watch, .fails(.timedOut), by: 0, at: 1, of: server) != nil)
            #expect(note(&watch, .dropped, by: 0, at: 2, of: server) == .dropped(server))
        }
        #expect(watch.count <= 257)
        #expect(note(&watch, .recovered, by: 0, at: 3) == .recovered(Self.one))
    }
}
