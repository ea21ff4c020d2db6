// Tests of the fleet's secret: names, partitions and seals that cannot be made or read without it.

import CacheStore
import ContentCodings
import Engine
import Fleet
import ResponseCache
import Testing

@testable import Sharing

/// A file of secrets, and the result of reading it.
struct SecretsRow: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let file: String
    /// nil if the file has a problem.
    let count: Int?
    let problem: String

    init(_ sentence: String, _ file: String, count: Int? = nil, problem: String = "") {
        (testDescription, self.file, self.count, self.problem) = (sentence, file, count, problem)
    }
}

@Suite("The fleet's secrets")
struct FleetSecretsTests {
    private static let one = String(repeating: "a", count: 32)
    private static let two = String(repeating: "b", count: 40)

    static func secret(_ text: String) -> FleetSecret {
        guard let secrets = try? FleetSecrets(file: Array((text + String(repeating: "-", count: 32)).utf8)) else {
            preconditionFailure("a secret of 32 bytes is one")
        }
        return secrets.first
    }

    @Test(arguments: [
        SecretsRow("one secret", one, count: 1), SecretsRow("a terminating newline", one + "\n", count: 1),
        SecretsRow("CR LF line endings and surrounding blanks", " \t\(one) \r\n", count: 1),
        SecretsRow("two secrets, the first of which seals", "\(one)\n\(two)\n", count: 2),
        SecretsRow("comments and empty lines are ignored", "# new\n\n\(one)\n  # old\n\(two)\n\n", count: 2),
        SecretsRow("an empty file", "", problem: "none"), SecretsRow("comments alone", "# \(one)\n", problem: "none"),
        SecretsRow("a secret that is too short, with its line number", "\(one)\n# x\nshort\n", problem: "tooShort(line: 3)"),
        SecretsRow("31 bytes", String(one.dropLast()), problem: "tooShort(line: 1)"),
        SecretsRow("surrounding blanks do not count", String(one.dropLast()) + " ", problem: "tooShort(line: 1)"),
        SecretsRow("three secrets", "\(one)\n\(two)\n\(one)x\n", problem: "tooMany"),
    ])
    func file(_ row: SecretsRow) {
        do throws(FleetSecrets.Problem) {
            let secrets = try FleetSecrets(file: Array(row.file.utf8))
            #expect(secrets.all.count == row.count && secrets.partitions.count == row.count)
        } catch {
            #expect(row.count == nil && "\(error)" == row.problem)
        }
    }

    @Test("secrets are separated by lines and trimmed; names of the first secret depend on that secret alone")
    func lines() throws {
        let both = try FleetSecrets(file: Array("\(Self.one)\n\(Self.two)".utf8))
        let second = try FleetSecrets(file: Array(" \(Self.two)\r\n# x".utf8))
        #expect(both.all[1].name(of: [1]) == second.first.name(of: [1]))
        #expect(both.first.name(of: [1]) != second.first.name(of: [1]))
        #expect(both.partitions[1]([1]) == second.partitions[0]([1]))
    }

    @Test("names and partitions have 16 bytes and differ by secret, input and purpose")
    func hashes() {
        let (mine, other) = (Self.secret("mine"), Self.secret("other"))
        let all = [mine, other].flatMap { secret in [[], [1], [2], [1, 2]].flatMap { [secret.name(of: $0), secret.partition(of: $0)] } }
        #expect(Set(all).count == all.count && all.allSatisfy { $0.count == 16 })
        #expect(mine.name(of: [1]) == Self.secret("mine").name(of: [1]))
    }

    @Test("sealed data opens only with its secret and key; sealing the same data twice gives different bytes")
    func seal() {
        let (mine, other) = (Self.secret("mine"), Self.secret("other"))
        for plain in [[], [7], Array("content".utf8), [UInt8](repeating: 3, count: 70_000)] as [[UInt8]] {
            let sealed = mine.seal(plain, at: [1])
            #expect(sealed.count == plain.count + FleetSecret.sealBytes)
            #expect(mine.open(sealed, at: [1]) == plain)
            #expect(mine.open(sealed, at: [2]) == nil && mine.open(sealed, at: []) == nil && mine.open(sealed, at: [1, 1]) == nil)
            #expect(other.open(sealed, at: [1]) == nil)
            #expect(mine.seal(plain, at: [1]) != sealed)
        }
    }

    @Test("sealed data that was modified, truncated or extended does not open")
    func changed() {
        let secret = Self.secret("mine")
        let sealed = secret.seal(Array("content".utf8), at: [1])
        for place in sealed.indices {
            for bit in 0..<8 {
                var other = sealed
                other[place] ^= 1 << UInt8(bit)
                #expect(secret.open(other, at: [1]) == nil)
            }
            #expect(secret.open(Array(sealed[..<place]), at: [1]) == nil)
        }
        #expect(secret.open(sealed + [0], at: [1]) == nil && secret.open([], at: [1]) == nil)
    }

    @Test("the prefix of sealed data is plain text and must match when it is opened")
    func prefix() {
        let secret = Self.secret("mine")
        let sealed = [4, 5] + secret.seal([7], at: [1])
        #expect(sealed.starts(with: [4, 5]) && sealed.count == 3 + FleetSecret.sealBytes)
        #expect(secret.open(sealed, at: [1], behind: [4, 5]) == [7])
        #expect(secret.open(sealed, at: [1], behind: [4, 6]) == nil && secret.open(sealed, at: [1]) == nil)
        #expect(secret.open([4, 5], at: [1], behind: [4, 5]) == nil && secret.open([4], at: [1], behind: [4, 5]) == nil)
    }
}

@Suite("Records of the shared level")
struct VersionedRecordTests {
    private static let secret = FleetSecretsTests.secret("mine")
    private static let place = Array("cistern:f:{0}".utf8)[...]

    private static func record(_ body: ItemBody) -> VersionedRecord {
        VersionedRecord(
            FleetRecord(key: [1, 2], metadata: [3], head: Array("HTTP".utf8), body: body),
            RecordVersion(epoch: 5, position: LogPosition(1_700_000_000_000, 3)), fleetTime: 1_700_000_000_001)
    }

    private static func sealed(_ given: VersionedRecord) -> [UInt8] {
        var bytes: [UInt8] = [9]
        var sealer = FleetSealer(secret)
        let packed = given.packed(by: QuickZstd())
        packed.appendSealed(to: &bytes, by: &sealer, at: place)
        #expect(bytes.count == 1 + packed.sealedBytes && bytes[0] == 9)
        return Array(bytes[1...])
    }

    private static let sealed = sealed(record(.bytes(Array("{\"a\":1}".utf8))))

    private func open(_ value: [UInt8], at place: ArraySlice<UInt8> = place, limit: Int = 1 << 20) -> VersionedRecord? {
        VersionedRecord(value, sealedBy: Self.secret, at: place, by: QuickZstd(), limit: limit)
    }

    @Test(
        "a record of medium size is compressed, a short or very long one is not, and each opens unchanged",
        arguments: [(200, 1), (2_000, 2), (100_000, 2), (1 << 20, 1)] as [(Int, UInt8)])
    func compressed(count: Int, layout: UInt8) throws {
        let body = (0..<count).map { UInt8(truncatingIfNeeded: 0x61 + $0 / 7 % 3) }
        let sealed = Self.sealed(Self.record(.bytes(body)))
        #expect(sealed[0] == layout && (layout == 1 || sealed.count < count / 2))
        let taken = try #require(open(sealed, limit: 2 << 20))
        taken.record.body.withBytes { taken in #expect(taken.elementsEqual(body)) }
        #expect(taken.record.body.form.coding == 0)
    }

    @Test("random bytes and content with a coding are not compressed")
    func incompressible() {
        let noise = (0..<4_000).map { _ in UInt8.random(in: 0...255) }
        #expect(Self.sealed(Self.record(.bytes(noise)))[0] == 1)
        let coded = ItemBody.coded([UInt8](repeating: 7, count: 4_000), ContentForm(coding: 2, plainBytes: 9_000))
        #expect(Self.sealed(Self.record(coded))[0] == 1)
    }

    @Test("a record that would exceed the size limit or is invalid zstd is not decompressed")
    func bomb() throws {
        let sealed = Self.sealed(Self.record(.bytes([UInt8](repeating: 7, count: 500_000))))
        #expect(sealed[0] == 2 && sealed.count < 1_000)
        #expect(open(sealed) != nil && open(sealed, limit: 500_000) == nil)
        let place = Array(Self.place + [2])
        let packed = try #require(Self.secret.open(sealed, at: place[...], behind: [2]))
        for count in [0, 1, 4, packed.count / 2, packed.count - 1] {
            #expect(open([2] + Self.secret.seal(Array(packed[..<count]), at: place)) == nil)
        }
        #expect(open([2] + Self.secret.seal(packed + [0], at: place)) == nil)
        // A record of one layout is invalid in the other.
        #expect(open([1] + sealed[1...]) == nil && open([2] + Self.sealed[1...]) == nil)
    }

    @Test("plain, empty and coded content is read back unchanged")
    func roundTrip() throws {
        for body in [ItemBody.bytes([]), .bytes([1, 2, 3]), .coded([9, 8], ContentForm(coding: 2, plainBytes: 100))] {
            let given = Self.record(body)
            let taken = try #require(open(Self.sealed(given)))
            #expect(taken.version == given.version && taken.fleetTime == given.fleetTime)
            #expect(taken.record.key == [1, 2] && taken.record.metadata == [3] && taken.record.head == Array("HTTP".utf8))
            #expect(taken.record.body.form == body.form)
            taken.record.body.withBytes { new in body.withBytes { #expect(new.elementsEqual($0)) } }
        }
        var old = Self.record(.bytes([1]))
        old.fleetTime = -1
        #expect(open(Self.sealed(old))?.fleetTime == -1)
    }

    @Test("a record that is truncated, extended, moved, or has another secret or layout is ignored")
    func damaged() {
        let sealed = Self.sealed
        #expect(open(sealed) != nil)
        for count in sealed.indices { #expect(open(Array(sealed[..<count])) == nil) }
        #expect(open(sealed + [0]) == nil)
        #expect(open(sealed, at: (Self.place + Array(":l".utf8))[...]) == nil)
        #expect(
            VersionedRecord(sealed, sealedBy: FleetSecretsTests.secret("other"), at: Self.place, by: QuickZstd(), limit: 1 << 20) == nil)
        for layout in UInt8.min...UInt8.max where layout != sealed[0] { #expect(open([layout] + sealed[1...]) == nil) }
    }

    @Test("a validly sealed record with truncated, oversized or trailing fields is ignored")
    func nonsense() throws {
        let plain = try #require(Self.secret.open(Array(Self.sealed[1...]), at: Self.place))
        func reopened(_ plain: [UInt8]) -> VersionedRecord? { open([1] + Self.secret.seal(plain, at: Array(Self.place))) }
        #expect(reopened(plain) != nil)
        for count in plain.indices { #expect(reopened(Array(plain[..<count])) == nil) }
        #expect(reopened(plain + [0]) == nil)
        // The lengths follow the version, the time and the content's form. None of their values is trusted.
        let lengths = 24 + 8 + 1 + 8
        for byte in lengths - 8..<lengths + 8 {
            for value in [0x7f, 0x80, 0xff] as [UInt8] {
                var other = plain
                other[byte] = value
                #expect(reopened(other) == nil)
            }
        }
    }

    @Test("a Redis key starts with the fleet's name, and a record and its lease share a slot")
    func keys() {
        let keys = EngineKeys(fleet: "blue")
        let place = keys.recordKeys(of: [0, 0x9a, 0xbf] + [UInt8](repeating: 0xff, count: 13))
        let record = Array(place.record.bytes)
        #expect(String(decoding: record, as: UTF8.self) == "cistern:blue:{009abf" + String(repeating: "ff", count: 13) + "}")
        #expect(place.lease == EngineKey(record + Array(":l".utf8)) && place.record == EngineKey(record))
        #expect(String(decoding: keys.log, as: UTF8.self) == "cistern:blue:{log}")
        #expect(String(decoding: keys.epoch, as: UTF8.self) == "cistern:blue:{log}:epoch")
        #expect(EngineKeys(fleet: "green").log != keys.log)
    }
}
