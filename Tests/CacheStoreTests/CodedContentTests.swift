// Tests of content that is stored with a coding, as received or as applied by the writer.

import Dispatch
import TestSupport
import Testing

@testable import CacheStore

@Suite("Encoded contents")
struct CodedContentTests {
    /// Keeps every second byte, as a coding that halves the length. Rejects short content.
    private static let halving: @Sendable (UnsafeRawBufferPointer, UInt8) -> [UInt8]? = { content, coding in
        content.count < 100 ? nil : [coding] + stride(from: 0, to: content.count, by: 2).map { content[$0] }
    }

    private func item(_ number: Int, bytes: Int, wanted: UInt8 = 0) -> NewItem {
        NewItem(key: key(number), metadata: [1], head: [2], body: .bytes(body(number, bytes)), wantedCoding: wanted, retention: .mayRescue)
    }

    private func found(_ number: Int, _ store: ResponseStore) -> StoredItem? { store.lookUp(key(number).span) }

    private func open(_ directory: Directory, capacity: Int = 4 << 20) throws -> ResponseStore {
        var settings = StoreSettings(directory: directory.path, capacityBytes: capacity)
        settings.encode = Self.halving
        return try ResponseStore(settings)
    }

    @Test("the writer encodes contents if that saves space; until then they are found as they arrived")
    func written() throws {
        let directory = try Directory()
        var store = try open(directory)
        let coded = Self.halving(body(1, 1_000).withUnsafeBytes { $0 }, 3)
        store.insert(item(1, bytes: 1_000, wanted: 3))
        store.insert(item(2, bytes: 99, wanted: 3))
        store.insert(item(3, bytes: 1_000))
        store.insert(
            NewItem(
                key: key(4), metadata: [1], head: [2], body: .coded([7, 7, 7], ContentForm(coding: 2, plainBytes: 900)), wantedCoding: 3,
                retention: .mayRescue))
        store.flush()
        for _ in 0..<2 {
            let first = try #require(found(1, store))
            #expect(first.form == ContentForm(coding: 3, plainBytes: 1_000) && Array(first.body) == coded)
            #expect(found(2, store)?.form == ContentForm(coding: 0, plainBytes: 99))
            #expect(found(3, store)?.form == ContentForm(coding: 0, plainBytes: 1_000))
            let came = try #require(found(4, store))
            #expect(came.form == ContentForm(coding: 2, plainBytes: 900) && Array(came.body) == [7, 7, 7])
            #expect(first.contentNumber != came.contentNumber)
            // A new head for unchanged content keeps the content's coding.
            store.insert(
                NewItem(
                    key: key(5), metadata: [1], head: [9], body: .stored(first.body, first.form, owner: first.owner), wantedCoding: 3,
                    retention: .mayRescue))
            store.flush()
            let again = try #require(found(5, store))
            #expect(again.form == first.form && Array(again.body) == coded)
            store.close()
            store = try open(directory)
        }
        #expect(store.statistics.damaged == 0)
    }

    @Test("the savings of encoding are counted")
    func counted() throws {
        let directory = try Directory()
        let store = try open(directory)
        for number in 0..<10 { store.insert(item(number, bytes: 1_000, wanted: 1)) }
        store.flush()
        let encoded = store.statistics.encoded
        #expect(encoded.contents == 10 && encoded.plainBytes == 10_000 && encoded.codedBytes == 5_010)
    }

    @Test(
        "under write pressure contents stay unencoded, because encoding is slower than the disk and overflow is lost",
        .slow)
    func pressure() throws {
        let directory = try Directory()
        let (gate, begun) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        var settings = StoreSettings(directory: directory.path, capacityBytes: 32 << 20)
        settings.pendingLimitBytes = 1 << 20
        settings.encode = { content, coding in
            begun.signal()
            gate.wait()
            return Self.halving(content, coding)
        }
        let store = try ResponseStore(settings)
        // The writer processes the first item while the others arrive.
        store.insert(item(0, bytes: 300_000, wanted: 1))
        begun.wait()
        for number in 1...4 { #expect(store.insert(item(number, bytes: 100_000, wanted: 1)) == .accepted) }
        for _ in 0..<5 { gate.signal() }
        store.flush()
        #expect(store.statistics.dropped == 0)
        #expect(found(0, store)?.form.coding == 1 && found(1, store)?.form.coding == 0 && found(4, store)?.form.coding == 1)
    }

    @Test("an item kept during eviction keeps its form and is not encoded again")
    func evicted() throws {
        let directory = try Directory()
        let store = try open(directory)
        store.insert(item(0, bytes: 1_000, wanted: 3))
        store.flush()
        let coded = try #require(found(0, store).map { Array($0.body) })
        for number in 1..<2_000 where store.statistics.evicted == 0 {
            store.insert(item(number, bytes: 20_000))
            _ = found(0, store)
            store.flush()
        }
        let kept = try #require(found(0, store))
        #expect(store.statistics.reinserted > 0)
        #expect(kept.form == ContentForm(coding: 3, plainBytes: 1_000) && Array(kept.body) == coded)
        #expect(store.statistics.encoded.contents == 1)
    }

    @Test("content numbers are unique while items wait to be written and afterwards")
    func numbers() throws {
        let directory = try Directory()
        let store = try open(directory)
        var numbers: Set<UInt64> = []
        for round in 0..<50 {
            store.insert(item(round % 5, bytes: 200, wanted: 3))
            numbers.insert(try #require(found(round % 5, store)).contentNumber)
            if round % 10 == 9 {
                store.flush()
                for number in 0..<5 { numbers.insert(try #require(found(number, store)).contentNumber) }
            }
        }
        #expect(numbers.count == 75)
    }
}
