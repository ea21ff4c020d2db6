// Tests which failures of servers are logged, and that they are not logged repeatedly.

import Engine
import Testing

@testable import Sharing

@Suite("Servers of the engine that fail")
struct EngineWatchTests {
    private final class Shard {}

    private let shards = (0..<3).map { _ in Shard() }
    private static let (one, other) = (EngineServer.host("one", port: 1), EngineServer.host("other", port: 1))

    /// Notes a change that one shard reports.
    private func note(
        _ watch: inout EngineWatch, _ change: EngineServerChange, by number: Int, at now: Int64, of server: EngineServer = one,
        mayTell: Bool = true
    ) -> EngineWatch.News? {
        watch.note(server, change, by: ObjectIdentifier(shards[number]), mayTell: mayTell, now: now)
    }

    @Test("of several shards the first tells that a server fails, and the last that it does no more")
    func once() {
        var watch = EngineWatch()
        #expect(note(&watch, .fails(.timedOut), by: 0, at: 0) == .fails(Self.one, .timedOut))
        for number in 1...2 { #expect(note(&watch, .fails(.unreachable), by: number, at: 10) == nil) }
        #expect(note(&watch, .fails(.denied), by: 0, at: 20, of: Self.other) == .fails(Self.other, .denied))
        for number in 0...1 { #expect(note(&watch, .isWell, by: number, at: 30) == nil) }
        #expect(note(&watch, .isWell, by: 2, at: 30) == .isWell(Self.one))
        #expect(note(&watch, .isWell, by: 2, at: 30) == nil)
    }

    @Test("one that the Cluster has put aside fails no more; when it is back, and fails again, that is told")
    func dropped() {
        var watch = EngineWatch()
        for number in 0...2 { _ = note(&watch, .fails(.unreachable), by: number, at: 0) }
        for number in 0...1 { #expect(note(&watch, .dropped, by: number, at: 100) == nil) }
        #expect(note(&watch, .dropped, by: 2, at: 100) == .dropped(Self.one))
        #expect(note(&watch, .fails(.timedOut), by: 1, at: 60_000) == .fails(Self.one, .timedOut))
    }

    @Test("one that comes and goes is told of once a minute; where it stays away, that is told when the minute is over")
    func flapping() {
        var watch = EngineWatch()
        #expect(note(&watch, .fails(.timedOut), by: 0, at: 0) != nil)
        #expect(note(&watch, .isWell, by: 0, at: 10_000) == .isWell(Self.one))
        for number in 0...2 { #expect(note(&watch, .fails(.unreachable), by: number, at: 20_000) == nil) }
        #expect(watch.due(now: 59_999) { _ in true } == [])
        #expect(watch.due(now: 60_000) { _ in false } == [])
        #expect(watch.due(now: 60_000) { _ in true } == [.fails(Self.one, .unreachable)])
        #expect(watch.due(now: 200_000) { _ in true } == [])
        for number in 0...1 { #expect(note(&watch, .isWell, by: number, at: 200_000) == nil) }
        #expect(note(&watch, .isWell, by: 2, at: 200_000) == .isWell(Self.one))
    }

    @Test("of whom others tell nothing is told, until they do so no more")
    func told() {
        var watch = EngineWatch()
        #expect(note(&watch, .fails(.timedOut), by: 0, at: 0, mayTell: false) == nil)
        #expect(watch.due(now: 1) { _ in true } == [.fails(Self.one, .timedOut)])
        #expect(note(&watch, .isWell, by: 0, at: 2, mayTell: false) == .isWell(Self.one))
        #expect(note(&watch, .fails(.timedOut), by: 0, at: 70_000, mayTell: false) == nil)
        #expect(note(&watch, .isWell, by: 0, at: 70_001, mayTell: false) == nil)
    }

    @Test("servers that come and go are forgotten, and those that fail are not")
    func bounded() {
        var watch = EngineWatch()
        #expect(note(&watch, .fails(.timedOut), by: 0, at: 0) != nil)
        for number in 0..<1_000 as Range<UInt16> {
            let server = EngineServer.host("another", port: number)
            #expect(note(&watch, .fails(.timedOut), by: 0, at: 1, of: server) != nil)
            #expect(note(&watch, .dropped, by: 0, at: 2, of: server) == .dropped(server))
        }
        #expect(watch.count <= 257)
        #expect(note(&watch, .isWell, by: 0, at: 3) == .isWell(Self.one))
    }
}
