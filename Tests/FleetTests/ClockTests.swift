// Tests of the fleet's time: two nodes with different clocks read one record.

import Testing

@testable import Fleet

@Suite("The fleet's clock")
struct ClockTests {
    /// The two wall clocks are an hour apart, and the engine's clock differs from both.
    @Test("different clocks change an age by no more than the measurement error", arguments: [0, 1, 7, 400] as [Int64])
    func apart(roundTrip: Int64) {
        var (writer, reader) = (FleetClock(), FleetClock())
        let (writersWall, readersWall, engine) = (1_000_000 + 3_600_000, 1_000_000 as Int64, 1_000_000 - 7_200_000 + 50_000_000 as Int64)
        // The engine answers at the very end of one round trip, and at the very beginning of the other.
        #expect(writer.note(.init(asked: 0, answered: roundTrip, engine: engine + roundTrip)) == .steady)
        #expect(reader.note(.init(asked: 0, answered: roundTrip, engine: engine)) == .steady)
        let error = (writer.error(roundTrip) ?? .max) + (reader.error(roundTrip) ?? .max)
        // The monotonic clocks started together. The response arrived at 10,000, is written at 20,000 and read at 80,000.
        let told = writer.fleetTime(ofWall: Int64(writersWall) + 10_000, wallNow: Int64(writersWall) + 20_000, now: 20_000)
        let read = told.flatMap { reader.wallTime(ofFleet: $0, wallNow: readersWall + 80_000, now: 80_000) }
        #expect(abs((read ?? 0) - (readersWall + 10_000)) <= error)
        #expect(error <= 2 * (roundTrip + 2) + 2)
    }

    @Test("fleet times are never converted to the future, and times far ahead are rejected")
    func future() {
        var clock = FleetClock()
        #expect(clock.wallTime(ofFleet: 0, wallNow: 0, now: 0) == nil, "unknown")
        #expect(clock.note(.init(asked: 0, answered: 0, engine: 5_000)) == .steady)
        #expect(clock.wallTime(ofFleet: 5_100, wallNow: 77, now: 100) == 77)
        #expect(clock.wallTime(ofFleet: 7_100, wallNow: 77, now: 100) == 77)
        #expect(clock.wallTime(ofFleet: 7_101, wallNow: 77, now: 100) == nil)
        #expect(clock.wallTime(ofFleet: -1, wallNow: 77, now: 100) == nil)
        #expect(clock.wallTime(ofFleet: .max, wallNow: 77, now: 100) == nil)
        #expect(clock.fleetTime(ofWall: 500, wallNow: 100, now: 0) == 5_000)
    }

    @Test("a jump of the clock is distinguished from an inaccurate measurement")
    func jumps() {
        var clock = FleetClock()
        #expect(clock.note(.init(asked: 0, answered: 10, engine: 1_000_005)) == .steady)
        #expect(clock.note(.init(asked: 1_000, answered: 3_000, engine: 1_001_050)) == .steady, "a slow reply")
        #expect(clock.now(3_000) == 1_003_000, "the more precise measurement is kept")
        #expect(clock.note(.init(asked: 4_000, answered: 4_010, engine: 1_004_900)) == .steady)
        #expect(clock.note(.init(asked: 5_000, answered: 5_010, engine: 1_003_000)) == .jumped)
        #expect(clock.now(5_005) == 1_003_000)
        #expect(clock.note(.init(asked: 6_000, answered: 5_990, engine: 1_004_000)) == .useless)
        #expect(clock.note(.init(asked: 6_000, answered: 6_000, engine: .max)) == .useless)
        #expect((clock.latest(6_000) ?? 0) >= 1_003_995)
    }
}
