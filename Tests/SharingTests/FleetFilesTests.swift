// Tests of the files that a node keeps beside its store: pending purges and its position in the log.

import CacheStore
import Fleet
import Glibc
import ResponseCache
import TestSupport
import Testing

@testable import Sharing

@Suite("Fleet files in the store directory")
struct FleetFilesTests {
    private let temporary = TestTools.temporaryDirectory()
    private var files: FleetFiles { FleetFiles(beside: StoreLocation(directory: temporary.path, capacityBytes: 16 << 20)) }
    private static let kept: KeptPosition = {
        var kept = KeptPosition(position: LogPosition(12, 3), epoch: 7, primary: Array("run".utf8), added: 5)
        kept.ceiling = LogPosition(10_012, 0)
        return kept
    }()

    private static let purges = LogMessage.Kind.allCases.map {
        PendingMessage(message: LogMessage($0, argument: Array("of \($0)".utf8), isSoft: $0 == .all))
    }
    private static let all = PendingMessage(message: LogMessage(.all))

    /// Changes one byte of a file.
    private func damage(_ name: String, at place: Int) {
        let path = temporary.path + "/" + name
        let descriptor = open(path, O_RDWR)
        defer { close(descriptor) }
        var byte: UInt8 = 0
        #expect(pread(descriptor, &byte, 1, place) == 1)
        byte ^= 0x10
        #expect(pwrite(descriptor, &byte, 1, place) == 1)
    }

    @Test("purges of excluded paths are announced once by a store in a fleet, and again after the path was not excluded")
    func exclusions() {
        func exclusions(_ fleet: String = "play") -> AnnouncedExclusions { AnnouncedExclusions(files, fleet: fleet) }
        let purges = ["/a", "/b", "/c"].map { FleetSelection(.prefix, $0) }
        let first = exclusions()
        #expect(first.unannounced(purges) == purges)
        first.note([purges[0], purges[1], FleetSelection(.prefix, "/not-wanted")])
        #expect(first.unannounced(purges) == [purges[2]] && exclusions().unannounced(purges) == [purges[2]])
        #expect(exclusions().unannounced([purges[1], FleetSelection(.prefix, "/not-wanted")]).map(\.value) == ["/not-wanted"])
        #expect(exclusions().unannounced(purges) == [purges[0], purges[2]])
        damage("fleet-exclusions", at: 9)
        #expect(exclusions().unannounced(purges) == purges)
        first.note(purges)
        #expect(exclusions("other").unannounced(purges) == purges)
    }

    @Test("the last saved position is read back")
    func position() throws {
        #expect(files.keptPosition() == nil)
        #expect(files.keep(KeptPosition(position: .beginning, epoch: 1, primary: [], added: nil)))
        #expect(files.keep(Self.kept))
        #expect(files.keptPosition()?.kept == Self.kept)
        #expect(access(temporary.path + "/fleet-position.new", F_OK) != 0)
    }

    @Test("a damaged position is ignored, wherever the damage is, and can be saved again", arguments: [0, 7, 8, 20, 40])
    func damagedPosition(place: Int) {
        #expect(files.keep(Self.kept))
        damage("fleet-position", at: place)
        #expect(files.keptPosition() == nil)
        #expect(files.keep(Self.kept) && files.keptPosition()?.kept == Self.kept)
    }

    @Test("a truncated position is ignored")
    func cutPosition() {
        #expect(files.keep(Self.kept))
        for bytes in (0..<60).reversed() {
            truncate(temporary.path + "/fleet-position", bytes)
            #expect(files.keptPosition() == nil)
        }
    }

    @Test("pending purges are read back completely and in order; saving none removes the file")
    func pending() {
        #expect(files.pendingPurges().isEmpty)
        #expect(files.keep(pending: Self.purges))
        #expect(files.pendingPurges() == Self.purges)
        #expect(files.keep(pending: [Self.all]))
        #expect(files.pendingPurges() == [Self.all])
        #expect(files.keep(pending: []) && files.keep(pending: []))
        #expect(access(temporary.path + "/fleet-pending", F_OK) != 0 && files.pendingPurges().isEmpty)
    }

    @Test("a file of an earlier version is read without log positions; a truncated one as far as it is complete")
    func earlier() {
        func message(_ kind: UInt8, _ bits: UInt8, _ argument: [UInt8]) -> [UInt8] {
            [kind, bits, UInt8(argument.count)] + [0, 0, 0, 0, 0, 0, 0] + argument
        }
        let bytes = message(0, 0, [1]) + message(0, 2, [2]) + message(5, 5, []) + message(0xFF, 0, [7, 7, 7])
        let targets = [1, 2].map { PendingMessage(message: LogMessage(.target, argument: [$0])) }
        #expect(PendingContent.messages(bytes) == targets + [PendingMessage(message: LogMessage(.all, isSoft: true), isWrite: true)])
        for count in 0..<bytes.count { #expect(PendingContent.messages(Array(bytes.prefix(count))).count <= 3) }
    }

    @Test("pending purges beyond the limit are merged into one purge of everything, soft if all of them are soft")
    func tooManyPending() {
        func purge(_ count: Int, isSoft: Bool = false) -> PendingMessage {
            PendingMessage(message: LogMessage(.selection, argument: Array(repeating: 1, count: count), isSoft: isSoft))
        }
        let write = PendingMessage(message: purge(400).message, isWrite: true)
        for (purges, expected) in [
            ([purge(10), purge(400), purge(5)], [purge(10), Self.all]),
            ([purge(10), purge(400, isSoft: true)], [purge(10), PendingMessage(message: LogMessage(.all, isSoft: true))]),
            ([purge(10), write], [purge(10), PendingMessage(message: .everythingStale)]),
            ([purge(10), purge(20)], [purge(10), purge(20)]),
        ] {
            let bytes = PendingContent.bytes(purges, limit: 300)
            #expect(bytes.count <= 300 && PendingContent.messages(bytes) == expected)
        }
    }

    @Test("purges left to the process that took over are stored separately and returned until they are dropped")
    func left() {
        #expect(files.takeLeftPurges().isEmpty)
        #expect(files.keep(pending: [Self.all]) && files.keep(pending: Self.purges, isLeft: true))
        #expect(files.pendingPurges() == [Self.all])
        #expect(files.takeLeftPurges() == Self.purges && files.takeLeftPurges() == Self.purges)
        // The former process has continued.
        #expect(files.keep(pending: [Self.all], isLeft: true))
        #expect(files.takeLeftPurges() == Self.purges + [Self.all])
        files.dropLeftPurges()
        #expect(files.takeLeftPurges().isEmpty && files.keep(pending: [], isLeft: true))
        #expect(files.pendingPurges() == [Self.all])
    }

    @Test("damaged pending purges are ignored, and a failed write is reported")
    func damagedPending() {
        #expect(files.keep(pending: Self.purges))
        damage("fleet-pending", at: 30)
        #expect(files.pendingPurges().isEmpty)
        #expect(files.unreadable.map(\.isPending) == [true], "the unreadable file is reported")
        let nowhere = FleetFiles(beside: StoreLocation(directory: temporary.path + "/nowhere", capacityBytes: 16 << 20))
        #expect(!nowhere.keep(Self.kept) && !nowhere.keep(pending: Self.purges) && nowhere.keep(pending: []))
    }
}

@Suite("Log positions applied at a given time")
struct AppliedPositionsTests {
    private static func version(_ number: UInt64) -> RecordVersion { RecordVersion(epoch: 1, position: LogPosition(number)) }

    private static let noted: AppliedPositions = {
        var positions = AppliedPositions()
        for (version, time) in [(1, 10), (2, 20), (2, 25), (nil, 30), (3, 40), (4, 40)] as [(UInt64?, Int64)] {
            positions.note(version.map(Self.version), at: time)
        }
        return positions
    }()

    @Test(
        "the last position noted before a request's millisecond is returned",
        arguments: [
            (5, nil), (10, nil), (11, 1), (20, 1), (21, 2), (26, 2), (30, 2), (31, nil), (40, nil), (41, 4), (.max, 4),
        ] as [(Int64, UInt64?)])
    func before(time: Int64, expected: UInt64?) {
        #expect(Self.noted.version(before: time) == expected.map(Self.version))
    }

    @Test("an empty history returns no position")
    func empty() { #expect(AppliedPositions().version(before: .max) == nil) }

    @Test("a clock that goes back resets the history")
    func back() {
        var positions = Self.noted
        positions.note(Self.version(9), at: 15)
        #expect(positions.version(before: 15) == nil && positions.version(before: 16) == Self.version(9))
    }

    @Test("the history is bounded and keeps the most recent positions")
    func bounded() {
        var positions = AppliedPositions()
        for number in 0..<10_000 as Range<UInt64> { positions.note(Self.version(number), at: Int64(number)) }
        #expect(positions.version(before: 1) == nil && positions.version(before: 1_000) == nil)
        for number in [8_000, 9_998, 9_999] as [UInt64] { #expect(positions.version(before: Int64(number) + 1) == Self.version(number)) }
    }
}
