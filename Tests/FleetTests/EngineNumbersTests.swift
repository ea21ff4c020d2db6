// Tests with all numbers that an engine may send, from the minimum to the maximum: no calculation with them traps.

import Testing

@testable import Fleet

@Suite("Extreme numbers from the Redis server")
struct EngineNumbersTests {
    private static let numbers: [UInt64] = [0, 1, 100, UInt64(Int64.max), .max - 1, .max]

    private static func positions(_ number: UInt64) -> [LogPosition] { [LogPosition(number), LogPosition(number, .max)] }

    @Test("any state of the log is handled without overflow when connecting, reading and inspecting", arguments: numbers, numbers)
    func states(last: UInt64, count: UInt64) {
        for added in Self.numbers {
            for kept in [nil, 0, 100, UInt64.max] as [UInt64?] {
                for position in Self.positions(last) { follow(position, count: count, added: added, kept: kept) }
            }
        }
    }

    private func follow(_ last: LogPosition, count: UInt64, added: UInt64, kept: UInt64?) {
        var limits = LogFollower.Limits()
        limits.entriesPerInfo = 1
        let start = kept.map { KeptPosition(position: LogPosition($0), epoch: 1, primary: [1], added: $0 == .max ? .max - 1 : $0) }
        var play = FollowerPlay(kept: start, limits: limits)
        for primary in [1, 2] as [UInt8] {
            let info = LogInfo(
                epoch: 1, primary: [primary], last: last, first: last, lastDeleted: LogPosition(kept ?? 0), count: count, added: added)
            for time in Self.numbers { _ = play.when(.connected(info, fleetMilliseconds: time)) }
            for time in Self.numbers { _ = play.when(.engineTime(time)) }
            _ = play.when(.connected(info, fleetMilliseconds: nil))
            let origin = LogOrigin(node: 5, sequence: LogOrigin.lastSequence)
            let fence = Fence(at: last, doubtedAfter: last)
            let entries = [LogEntry(LogMessage(.target), origin: origin), fence.entry].map { PositionedEntry(last, $0) }
            _ = play.when(.entries([FollowerPlay.entry(1), FollowerPlay.entry(2, .target, node: 5, LogOrigin.lastSequence - 1)] + entries))
            for _ in 0..<3 { _ = play.when(.infoRead(info)) }
            _ = play.when(.clockJumped)
            _ = play.when(.tick, at: play.now + 2_000)
        }
    }

    @Test("any log position and replica count is handled without overflow by the writer", arguments: numbers)
    func writer(number: UInt64) {
        for replicas in [Int.min, -1, 0, 1, Int.max] {
            var play = WriterPlay.connected(replicas: replicas)
            for position in Self.positions(number) {
                _ = play.when(.append(WriterPlay.message(1), .purge, token: 1))
                _ = play.when(.answered([.appended(position)]))
                _ = play.when(.waited(replicas: replicas))
            }
        }
    }

    @Test("any server time and record time is handled without overflow", arguments: [Int64.min, -1, 0, 1 << 47, 1 << 48, .max])
    func times(time: Int64) {
        var clock = FleetClock()
        for engine in [0, time, 1_000] {
            _ = clock.note(.init(asked: 5_000, answered: 9_000, engine: engine))
            _ = clock.wallTime(ofFleet: time, wallNow: 77, now: 5_000)
            #expect((clock.latest(5_000) ?? 0) <= 1 << 49)
        }
    }
}
