// Tests of the encoding of entries, and of invalid bytes.

import TestSupport
import Testing

@testable import Fleet

@Suite("Entries of the fleet log")
struct EntryTests {
    private static let origin = LogOrigin(node: 0x0123_4567_89ab_cdef, sequence: 7)

    private func fields(_ pairs: [(String, String)]) -> [LogField] { pairs.map { (Array($0.0.utf8), Array($0.1.utf8)) } }

    @Test("an entry is read back as it was written", arguments: LogMessage.Kind.allCases.filter { $0 != .unknown }, [false, true])
    func written(kind: LogMessage.Kind, isSoft: Bool) {
        for argument in [[], [0, 255, 13, 10]] as [[UInt8]] {
            let entry = LogEntry(LogMessage(kind, argument: argument, isSoft: isSoft), origin: kind == .fence ? nil : Self.origin)
            #expect(LogEntry(fields: LogEntry.adding(sealedArgument: argument, to: entry.fields)) == entry)
        }
    }

    @Test("an entry has readable fields for operators")
    func shape() {
        let entry = LogEntry(LogMessage(.target, isSoft: true), origin: Self.origin)
        let shown = LogEntry.adding(sealedArgument: [1], to: entry.fields).map {
            String(decoding: $0.name, as: UTF8.self) + "=" + String(decoding: $0.value, as: UTF8.self)
        }
        #expect(shown == ["k=t", "f=1", "n=0123456789abcdef", "s=7", "v=\u{1}"])
    }

    static let unknown: [(String, [(String, String)], Bool)] = [
        ("nothing", [], false),
        ("a missing kind", [("n", "0123456789abcdef"), ("s", "7")], true),
        ("a kind of a newer version", [("k", "z"), ("n", "0123456789abcdef"), ("s", "7")], true),
        ("a kind of two letters", [("k", "tt"), ("n", "0123456789abcdef"), ("s", "7")], true),
        ("two kinds", [("k", "t"), ("k", "t"), ("n", "0123456789abcdef"), ("s", "7")], true),
        ("two arguments", [("k", "t"), ("v", "1"), ("v", "2"), ("n", "0123456789abcdef"), ("s", "7")], true),
        ("an invalid softness", [("k", "t"), ("f", "0"), ("n", "0123456789abcdef"), ("s", "7")], true),
        ("no origin", [("k", "t")], false),
        ("a short node", [("k", "t"), ("n", "0123"), ("s", "7")], false),
        ("a node with a sign", [("k", "t"), ("n", "+123456789abcdef"), ("s", "7")], false),
        ("a node in capitals", [("k", "t"), ("n", "0123456789ABCDEF"), ("s", "7")], false),
        ("two nodes", [("k", "t"), ("n", "0123456789abcdef"), ("n", "0123456789abcdef"), ("s", "7")], false),
        ("the sequence 0", [("k", "t"), ("n", "0123456789abcdef"), ("s", "0")], false),
        ("a sequence above the limit", [("k", "t"), ("n", "0123456789abcdef"), ("s", "9223372036854775808")], false),
        ("a sequence with a leading zero", [("k", "t"), ("n", "0123456789abcdef"), ("s", "07")], false),
    ]

    @Test("an entry that cannot be parsed counts as a soft purge of everything", arguments: unknown.indices)
    func notUnderstood(row: Int) {
        let (name, pairs, hasOrigin) = Self.unknown[row]
        let entry = LogEntry(fields: fields(pairs))
        #expect(entry.message.kind == .unknown && entry.message.isSoft, "\(name)")
        #expect(entry.origin == (hasOrigin ? Self.origin : nil), "\(name)")
    }

    @Test("fields of newer versions are ignored, but covered by the seal")
    func newerFields() {
        let plain = fields([("k", "t"), ("n", "0123456789abcdef"), ("s", "7"), ("v", "x")])
        let newer = plain + fields([("region", "eu")])
        #expect(LogEntry(fields: newer) == LogEntry(fields: plain))
        #expect(LogEntry.associatedData(of: newer) != LogEntry.associatedData(of: plain))
    }

    @Test("a write with tokens is a greeting for older versions, so it makes nothing stale there; an unknown value is not ignored")
    func identities() {
        let entry = LogEntry(LogMessage(.identities, argument: [1], isSoft: true), origin: Self.origin)
        let sealed = LogEntry.adding(sealedArgument: [1], to: entry.fields)
        let older = sealed.filter { $0.name != Array("u".utf8) }
        #expect(LogEntry(fields: older) == LogEntry(LogMessage(.hello, argument: [1], isSoft: true), origin: Self.origin))
        let newer = older + fields([("u", "2")])
        #expect(LogEntry(fields: newer).message.kind == .unknown && LogEntry(fields: newer).origin == Self.origin)
    }

    @Test("the seal covers every field except the sealed argument, with unambiguous boundaries")
    func associatedData() {
        let all = LogMessage.Kind.allCases.flatMap { kind in
            [false, true].flatMap { isSoft in
                [1, 2].map { LogEntry(LogMessage(kind, isSoft: isSoft), origin: LogOrigin(node: 1, sequence: $0)) }
            }
        }
        #expect(Set(all.map { LogEntry.associatedData(of: $0.fields) }).count == all.count)
        #expect(LogEntry.associatedData(of: fields([("ab", "c")])) != LogEntry.associatedData(of: fields([("a", "bc")])))
        let entry = all[0]
        let sealed = LogEntry.adding(sealedArgument: [1, 2, 3], to: entry.fields)
        #expect(LogEntry.associatedData(of: sealed) == LogEntry.associatedData(of: entry.fields))
    }

    @Test("parsing arbitrary fields terminates")
    func anything() {
        var numbers = SeededGenerator(seed: 1)
        let names = ["k", "v", "f", "n", "s", "", "x", "kk"]
        for _ in 0..<(TestRun.isFast ? 4_000 : 20_000) {
            let pairs: [LogField] = (0..<Int.random(in: 0...6, using: &numbers)).map { _ in
                let value = (0..<Int.random(in: 0...20, using: &numbers)).map { _ in UInt8.random(in: .min ... .max, using: &numbers) }
                return (Array(names.randomElement(using: &numbers)!.utf8), value)
            }
            let entry = LogEntry(fields: pairs)
            #expect(entry.message.kind != .unknown || entry.message.isSoft)
            let bytes = pairs.flatMap(\.value)
            _ = (LogPosition(text: bytes), RecordVersion(bytes: bytes), KeptPosition(bytes: bytes))
        }
    }

    @Test("a record version and a kept position are read back exactly, and other bytes are rejected")
    func bytes() {
        let version = RecordVersion(epoch: .max, position: LogPosition(5, 6))
        #expect(RecordVersion(bytes: version.bytes) == version)
        #expect(RecordVersion(bytes: version.bytes.dropLast()) == nil)
        #expect(RecordVersion(bytes: version.bytes + [0]) == nil)
        for added in [nil, 0, 9] as [UInt64?] {
            let kept = KeptPosition(position: LogPosition(1, 2), epoch: 3, primary: [4, 5], added: added)
            #expect(KeptPosition(bytes: kept.bytes) == kept)
            var later = KeptPosition(after: kept, epoch: 9, primary: [6])
            #expect(later.formerEpochs == [3] && later.position == .beginning && KeptPosition(bytes: later.bytes) == later)
            for epoch in 10..<100 as Range<UInt64> { later = KeptPosition(after: later, epoch: epoch, primary: [7, 8]) }
            #expect(later.formerEpochs == Array(67..<99) && KeptPosition(bytes: later.bytes) == later)
        }
        #expect(KeptPosition(bytes: Array(version.bytes)) == nil)
        #expect(KeptPosition(bytes: [UInt8](repeating: 0, count: 2_000)) == nil)
    }

    @Test("a fence without its range puts all earlier positions in doubt")
    func fence() {
        let fence = Fence(at: LogPosition(9), doubtedAfter: LogPosition(4, 2))
        #expect(Fence(PositionedEntry(LogPosition(9), fence.entry)) == fence)
        let losing = Fence(at: LogPosition(9), doubtedAfter: LogPosition(4, 2), lostUpTo: LogPosition(7, 1))
        #expect(Fence(PositionedEntry(LogPosition(9), losing.entry)) == losing)
        let garbled = PositionedEntry(LogPosition(9), LogEntry(LogMessage(.fence, argument: [1]), origin: nil))
        #expect(Fence(garbled) == Fence(at: LogPosition(9), doubtedAfter: .beginning))
        #expect(Fence(PositionedEntry(LogPosition(9), .unopened)) == nil)
    }

    @Test(
        "several marks are encoded in one message and decoded again; damaged messages yield none",
        arguments: [[], [[1]], [[1, 2], [], [3]]] as [[[UInt8]]])
    func marks(keys: [[UInt8]]) {
        let message = LogMessage(marks: keys, isSoft: true)
        #expect(message.kind == .marks && message.isSoft && message.marks == keys)
        for count in 0..<message.argument.count {
            let cut = LogMessage(.marks, argument: Array(message.argument.prefix(count))).marks
            #expect(cut == nil || cut == Array(keys.prefix(cut?.count ?? 0)))
        }
        #expect(LogMessage(.marks, argument: Array(repeating: 255, count: 9)).marks == nil)
    }
}
