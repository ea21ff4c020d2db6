// Where stored responses live: append-only segment files and an index in memory. Looking up reads through the mapping and checks the
// checksum every time; putting in only queues, and one serial queue in the background writes. What waits to be written answers look-ups.
// The file is the public face and the state that its two sides share; `StoreWriter` is the writing side.

import CHash
import Dispatch
import Glibc
import Locking

import struct Synchronization.Atomic

/// `@unchecked Sendable` because everything that changes is in `state`, behind its mutex, or belongs to the writer's queue.
package final class ResponseStore: @unchecked Sendable {
    package let settings: StoreSettings
    private let directory: StoreDirectory
    let seed: UInt64
    /// Shared by the shards that look up and the writer that writes.
    let state: Mutex<State>
    private let writer: StoreWriter
    private let changeCount = Atomic<UInt64>(0)

    struct State {
        var index = IndexTable()
        var segments = SegmentList()
        /// Queued and not yet readable from a segment. Removals are not in it: they act on the index at once.
        var pending: [KeyHash: PendingItem] = [:]
        var statistics = StoreStatistics()

        func place(of hash: KeyHash) -> SeenItem.Place {
            if let pending = pending[hash] { return .pending(ObjectIdentifier(pending)) }
            return index.find(hash).map { .segment($0.segment, offset: $0.offset) } ?? .nowhere
        }
    }

    /// Opens the store, or makes it. A directory that cannot be written to gives a store that only reads.
    package init(_ settings: StoreSettings) throws(StoreError) {
        guard settings.capacityBytes >= 4 << 20 else { throw .tooSmall }
        self.settings = settings
        directory = try StoreDirectory(settings.directory)
        seed = XXH3_64bits(directory.secret, directory.secret.count)
        var recovery = StoreRecovery(directory: directory, settings: settings, seed: seed)
        recovery.run()
        var initial = State()
        initial.index = recovery.index
        initial.segments = recovery.segments
        initial.statistics = recovery.statistics
        initial.statistics.isWritable = directory.isWritable
        initial.statistics.openError = directory.error
        initial.statistics.hasLostKey = directory.isNew && !recovery.segments.isEmpty
        initial.statistics.hasOpenKey = directory.isKeyOpen
        initial.statistics.capacityBytes = settings.capacityBytes
        state = Mutex(initial)
        writer = StoreWriter(directory: directory, settings: settings, seed: seed, start: recovery.end)
    }

    // MARK: Reading

    /// The item stored under exactly this key, its checksum checked. A damaged one is dropped, counted, and never returned.
    package func lookUp(_ key: Span<UInt8>) -> StoredItem? {
        key.withUnsafeBytes { key in
            let hash = KeyHash(key, seed: seed)
            let found: (pending: PendingItem?, segment: Segment?, entry: IndexEntry) = state.withLock { state in
                if !state.pending.isEmpty, let pending = state.pending[hash] { return (pending, nil, IndexEntry()) }
                guard let entry = state.index.find(hash) else { return (nil, nil, IndexEntry()) }
                if entry.flags & IndexEntry.used == 0 { state.index.markUsed(hash) }
                return (nil, state.segments[entry.segment], entry)
            }
            if let pending = found.pending { return pending.matches(key) ? pending.stored : nil }
            guard let segment = found.segment, let (storedKey, item) = read(found.entry, in: segment) else { return nil }
            // Two keys with one hash: as good as absent.
            guard storedKey.count == key.count, memcmp(storedKey.baseAddress!, key.baseAddress!, key.count) == 0 else { return nil }
            return item
        }
    }

    /// The record that an entry of the index leads to, its checksum checked.
    func read(_ entry: IndexEntry, in segment: Segment) -> (key: UnsafeRawBufferPointer, item: StoredItem)? {
        guard let (header, key, item) = parts(entry, in: segment),
            RecordHeader.payloadChecksum(key.baseAddress!, header.payloadBytes, seed: seed) == header.payloadChecksum
        else {
            dropDamaged(entry.hash, segment.number, entry.byteOffset)
            return nil
        }
        return (key, item)
    }

    /// The same without looking at more than the record's header.
    func parts(_ entry: IndexEntry, in segment: Segment) -> (header: RecordHeader, key: UnsafeRawBufferPointer, item: StoredItem)? {
        let offset = entry.byteOffset
        let record = segment.base + offset
        guard let header = RecordHeader(at: record, segment: segment.number, offset: offset, limit: segment.size, seed: seed),
            header.kind == .item, header.hash == entry.hash
        else { return nil }
        var start = record + RecordHeader.bytes
        func next(_ count: Int) -> UnsafeRawBufferPointer {
            defer { start += count }
            return UnsafeRawBufferPointer(start: start, count: count)
        }
        let key = next(header.keyBytes)
        let item = StoredItem(
            metadata: next(header.metadataBytes), head: next(header.headBytes), body: next(header.bodyBytes),
            isMarkedStale: entry.flags & IndexEntry.markedStale != 0, note: entry.note, owner: segment)
        return (header, key, item)
    }

    private func dropDamaged(_ hash: KeyHash, _ segment: UInt64, _ offset: Int) {
        state.withLock { state in
            guard let entry = state.index.find(hash), entry.leads(to: segment, offset) else { return }
            state.index.remove(hash)
            state.statistics.damaged += 1
        }
    }

    package var statistics: StoreStatistics {
        state.withLock { state in
            var statistics = state.statistics
            let waiting = state.pending.keys.count { state.index.find($0) == nil }
            statistics.entries = state.index.count + waiting
            statistics.fileBytes = state.segments.bytes
            return statistics
        }
    }

    // MARK: Changing

    /// How often what look-ups find has been changed. Who takes it before a look-up knows, while it is the same, that another would bring
    /// the same, or nothing, where that was evicted or damaged since.
    package var changes: UInt64 { changeCount.load(ordering: .acquiring) }

    /// With the state locked.
    func noteChange() { changeCount.wrappingAdd(1, ordering: .releasing) }

    /// Puts an item in, in the place of what is stored under its key. Returns at once; writing happens in the background.
    @discardableResult
    package func insert(_ item: NewItem) -> InsertResult { insert(item, ifAt: nil) }

    /// The same, if what lies there is still what was seen: who compares first puts in what belongs in the place of that, and of nothing else.
    package func insert(_ item: NewItem, ifStill seen: SeenItem) -> InsertResult { insert(item, ifAt: seen.place) }

    private func insert(_ item: NewItem, ifAt seen: SeenItem.Place?) -> InsertResult {
        guard directory.isWritable || item.retention.isNeeded else {
            state.withLock { $0.statistics.writeErrors += 1 }
            return .unwritable
        }
        // What takes back others is the last to be dropped.
        let limit = settings.pendingLimitBytes * (item.retention.isNeeded ? 2 : 1)
        guard RecordHeader.recordBytes(payload: item.payloadBytes) <= settings.segmentBytes else { return .tooLarge }
        let pending = PendingItem(item, hash: item.key.withUnsafeBytes { KeyHash($0, seed: seed) })
        return state.withLock { state in
            if let seen, state.place(of: pending.hash) != seen { return .changed }
            guard state.statistics.pendingBytes + pending.bytes <= limit else {
                state.statistics.dropped += 1
                return .busy
            }
            state.statistics.pendingBytes += pending.bytes
            state.statistics.inserted += 1
            noteChange()
            state.pending[pending.hash] = pending
            writer.queue(.item(pending), store: self)
            return .accepted
        }
    }

    /// What lies under this key now. Its content's checksum is not checked, and it does not count as used: this is no look-up for a client.
    package func see(_ key: Span<UInt8>) -> SeenItem {
        key.withUnsafeBytes { key in
            let hash = KeyHash(key, seed: seed)
            let (place, pending, segment, entry) = state.withLock { state in
                let entry = state.index.find(hash)
                return (state.place(of: hash), state.pending[hash], entry.flatMap { state.segments[$0.segment] }, entry)
            }
            if let pending { return SeenItem(item: pending.matches(key) ? pending.stored : nil, place: place) }
            guard let segment, let entry, let (_, storedKey, item) = parts(entry, in: segment), storedKey.count == key.count,
                memcmp(storedKey.baseAddress!, key.baseAddress!, key.count) == 0
            else { return SeenItem(item: nil, place: place) }
            return SeenItem(item: item, place: place)
        }
    }

    /// Drops what is stored under this key, for good: also over a restart.
    package func remove(_ key: Span<UInt8>) {
        remove(key.withUnsafeBytes { KeyHash($0, seed: seed) })
    }

    /// The same, if what is stored there is still this item.
    package func remove(_ key: Span<UInt8>, ifStill item: StoredItem) {
        let hash = key.withUnsafeBytes { KeyHash($0, seed: seed) }
        state.withLock { state in
            if isStill(item, hash, state) { remove(hash, &state) }
        }
    }

    private func isStill(_ item: StoredItem, _ hash: KeyHash, _ state: borrowing State) -> Bool {
        if let pending = state.pending[hash] { return pending === item.owner }
        guard let entry = state.index.find(hash), let segment = state.segments[entry.segment],
            let stored = parts(entry, in: segment)?.item.metadata
        else { return false }
        // What waited when it was found has been written since.
        return stored.baseAddress == item.metadata.baseAddress || (item.owner is PendingItem && stored.elementsEqual(item.metadata))
    }

    /// Keeps a number with an item, in memory and until it is replaced, if what is stored there is still this item.
    /// - Parameter note: of 28 bits. A smaller one than there is changes nothing.
    package func setNote(_ note: UInt32, of key: Span<UInt8>, ifStill item: StoredItem) {
        let hash = key.withUnsafeBytes { KeyHash($0, seed: seed) }
        state.withLock { state in
            guard isStill(item, hash, state) else { return }
            if let pending = state.pending[hash] {
                pending.raiseNote(to: note)
            } else {
                state.index.setNote(note, of: hash)
            }
        }
    }

    /// Returns whether something was there.
    @discardableResult
    func remove(_ hash: KeyHash) -> Bool { state.withLock { remove(hash, &$0) } }

    @discardableResult
    private func remove(_ hash: KeyHash, _ state: inout State) -> Bool {
        let wasPending = state.pending.removeValue(forKey: hash) != nil
        guard state.index.remove(hash) || wasPending else { return false }
        state.statistics.invalidated += 1
        noteChange()
        writer.queue(.removal(hash), store: self)
        return true
    }

    /// Marks what is stored under this key as stale, for good. Returns whether something was there.
    func markStale(_ hash: KeyHash) -> Bool {
        state.withLock { state in
            noteChange()
            let isIndexed = state.index.markStale(hash)
            if let pending = state.pending[hash] {
                queueMarked(pending, &state)
            } else if isIndexed {
                writer.queue(.staleMark(hash), store: self)
            } else {
                return false
            }
            return true
        }
    }

    /// Marks everything as stale, for good.
    package func markAllStale() {
        state.withLock { state in
            noteChange()
            state.index.markAllStale()
            for pending in state.pending.values { queueMarked(pending, &state) }
            writer.queue(.staleAll, store: self)
        }
    }

    private func queueMarked(_ pending: PendingItem, _ state: inout State) {
        guard !pending.isMarkedStale else { return }
        let marked = PendingItem(markingStale: pending)
        state.pending[marked.hash] = marked
        state.statistics.pendingBytes += marked.bytes
        writer.queue(.item(marked), store: self)
    }

    /// Drops everything, for good.
    package func removeAll() {
        state.withLock { state in
            noteChange()
            state.statistics.invalidated += state.index.count
            state.index = IndexTable()
            state.pending = [:]
            writer.queue(.clearing, store: self)
        }
    }

    /// Returns when all that was queued before is in a segment file.
    package func flush() { writer.waitUntilIdle() }

    /// Returns when all that was queued before is on the disk.
    package func synchronize() {
        writer.waitUntilIdle()
        writer.synchronize(self)
    }

    /// Writes what waits, then a snapshot of the index that makes the next start quick, and lets go of the directory. Nothing may be put in
    /// afterwards.
    package func close() {
        writer.waitUntilIdle()
        defer { directory.unlock() }
        guard directory.isWritable else { return }
        writer.synchronize(self)
        let position = writer.position
        state.withLock { state in
            let limit = min(settings.snapshotBytes, settings.segmentsBytes - state.segments.bytes)
            IndexSnapshot.write(state, end: position, directory: directory.path, limit: limit, seed: seed)
        }
    }

    // MARK: Credentials

    /// 16 bytes that stand for a set of credentials, and tell nothing about them: a keyed BLAKE2b hash.
    /// - Parameter parts: the names and values of the request's credential fields, each with its length.
    package func credentialPartition(_ parts: [UInt8]) -> [UInt8] {
        var out = [UInt8](repeating: 0, count: 16)
        crypto_generichash(&out, out.count, parts, UInt64(parts.count), directory.secret, directory.secret.count)
        return out
    }

    /// 32 bytes that stand for a long part of a key: a keyed BLAKE2b hash, so that nobody can find two contents with one key.
    package func contentDigest(_ content: [UInt8]) -> [UInt8] {
        var out = [UInt8](repeating: 0, count: 32)
        crypto_generichash(&out, out.count, content, UInt64(content.count), directory.secret, directory.secret.count)
        return out
    }
}
