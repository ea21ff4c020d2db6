// The store: append-only segment files and an index in memory. A lookup reads through a memory mapping and verifies the checksum each
// time. An insertion only queues the item; one serial queue writes in the background, and lookups find waiting items in memory. This file
// contains the public interface and the state that readers and the writer share; `StoreWriter` is the writing side.

import CHash
import Dispatch
import Glibc
import Reactor
import TakeOver

import struct Synchronization.Atomic

/// `@unchecked Sendable` because all mutable state is in `state`, behind its mutex, or belongs to the writer's queue.
public final class ResponseStore: @unchecked Sendable {
    public let settings: StoreSettings
    let directory: StoreDirectory
    let seed: UInt64
    /// Shared by the shards that look up and the writer.
    let state: Mutex<State>
    let writer: StoreWriter
    let readers = DiskReaders()
    /// `Residency.isTrusted`, cached because every hit needs it.
    let trustsResidency: Bool
    /// The last second in which an item was found only on disk (`ResidencyTrust`). Written and read by all shards.
    let lastAway = Atomic(-ResidencyTrust.pressSeconds)
    /// The counters of `state`, readable without the lock.
    private let changes: ChangeCounts

    enum Owner {
        case us
        /// A take-over is in progress: another process will own the directory once it starts. This process never owns it again afterwards.
        case both
        case other
    }

    struct State {
        var index = IndexTable()
        var segments = SegmentList()
        /// Items that are queued and cannot yet be read from a segment. Removals are not in it, because they change the index at once.
        var pending = PendingTable()
        var statistics = StoreStatistics()
        /// The process that owns the directory. While that is another process, only marks are inserted here.
        var owner = Owner.us
        /// Whether the writer will write notes by itself (`StoreWriter.writeNotesLater`).
        var writesNotesLater = false
        /// Incremented with every change that affects a lookup's result.
        let changes = ChangeCounts()

        /// Makes items that wait to be written again visible to look-ups, unless a newer item of the key waits.
        mutating func keep(_ kept: [StoreWriter.Work]) {
            for case .item(let item) in kept {
                statistics.pendingBytes += item.bytes
                if pending[item.hash] == nil { pending[item.hash] = item }
            }
        }
    }

    /// Opens or creates the store. A directory without write access, or with a file that cannot be read, opens read-only.
    /// - Parameter inherited: the store that another process hands over; nil for an ordinary start. Nothing is then written before `own`.
    public init(_ settings: StoreSettings, inherited: HandedStore? = nil) throws(StoreError) {
        guard settings.capacityBytes >= 4 << 20 else { throw .tooSmall }
        self.settings = settings
        trustsResidency = settings.residency.isTrusted
        directory = if let inherited { try inherited.directory(settings.directory) } else { try StoreDirectory(settings.directory) }
        seed = XXH3_64bits(directory.secret, directory.secret.count)
        var recovery = StoreRecovery(directory: directory, settings: settings, seed: seed)
        if let inherited {
            guard recovery.run(inherited: inherited.index) else {
                if let file = recovery.unreadable { throw .unreadable(file.path, code: file.code) }
                throw .notHandedOver(settings.directory)
            }
        } else {
            recovery.run()
        }
        var initial = State()
        initial.index = recovery.index
        initial.segments = recovery.segments
        initial.statistics = recovery.statistics
        initial.keep(recovery.leftOut.kept)
        initial.statistics.canOpen = directory.isWritable
        let probes = settings.isRequired && directory.isWritable && inherited == nil
        initial.statistics.opening.error = probes ? directory.probe(settings) : directory.error
        initial.statistics.opening.hasLostKey = directory.isNew && !recovery.segments.isEmpty
        initial.statistics.opening.hasOpenKey = directory.isKeyOpen
        if settings.isRequired, let reason = initial.statistics.opening.whyUnusable {
            throw .unusable(settings.directory, reason: reason)
        }
        initial.statistics.capacityBytes = settings.capacityBytes
        if directory.isWritable {
            let plan = SegmentPlan(
                settings.sizes, held: initial.segments.bytes, count: initial.segments.count,
                diskSpace: settings.diskSpace(settings.directory))
            (initial.statistics.usableBytes, initial.statistics.recordLimit) = (plan.usableBytes, plan.recordLimit)
        } else {
            let path = initial.statistics.opening.unreadablePath ?? directory.path + (directory.lacksKeyOnly ? "/key" : "/lock")
            let fault = WriteFault(directory.error, path: path, diskSpace: settings.diskSpace(settings.directory))
            initial.statistics.refuse(fault, at: settings.now())
        }
        changes = initial.changes
        state = Mutex(initial)
        writer = StoreWriter(directory: directory, settings: settings, seed: seed, start: recovery.end, isHeld: inherited != nil)
        writer.leaveOut(recovery.leftOut, self)
        if let fault = initial.statistics.refusal, directory.lacksKeyOnly { writer.refuse(fault, self) }
    }

    // MARK: Reading

    /// Returns the item with exactly this key, after verifying its checksum. A damaged item is dropped, counted and not returned. May block
    /// on the disk.
    public func lookUp(_ key: Span<UInt8>) -> StoredItem? {
        var basis = LookUpBasis()
        do throws(OnDisk) { return try find(key, &basis, mayWait: true) } catch { return nil }
    }

    /// Looks up an item as `lookUp(_:)` does, and records the counters that the result depends on.
    /// - Parameters:
    ///   - basis: receives the counters of the key.
    ///   - mayWait: whether to wait for the disk. An event loop must not wait.
    /// - Throws: `OnDisk` instead of waiting; it must be loaded before the next attempt.
    public func find(_ key: Span<UInt8>, _ basis: inout LookUpBasis, mayWait: Bool) throws(OnDisk) -> StoredItem? {
        try key.withUnsafeBytes { (key) throws(OnDisk) -> StoredItem? in
            let hash = KeyHash(key, seed: seed)
            basis.note(hash, changes)
            let found: (pending: PendingItem?, segment: Segment?, entry: IndexEntry) = state.withLock { state in
                if !state.pending.isEmpty, let pending = state.pending[hash] { return (pending, nil, IndexEntry()) }
                guard let entry = state.index.find(hash) else { return (nil, nil, IndexEntry()) }
                if entry.flags & IndexEntry.used == 0 { state.index.markUsed(hash) }
                return (nil, state.segments[entry.segment], entry)
            }
            if let pending = found.pending { return pending.matches(key) ? pending.stored : nil }
            guard let segment = found.segment else { return nil }
            var isChecked = false
            if !mayWait {
                let may = mayRead(found.entry, in: segment)
                guard may.now else { throw OnDisk(entry: found.entry, segment: segment) }
                isChecked = may.isChecked
            }
            guard let (storedKey, item) = read(found.entry, in: segment, isChecked: isChecked) else { return nil }
            // A hash collision of two keys counts as a miss.
            guard storedKey.count == key.count, memcmp(storedKey.baseAddress!, key.baseAddress!, key.count) == 0 else { return nil }
            return item
        }
    }

    /// Reads the record of an index entry and verifies its checksum. A damaged record is dropped.
    /// - Parameter isChecked: the checksum was verified recently. It is then skipped for payloads over `loopCheckLimitBytes`.
    func read(_ entry: IndexEntry, in segment: Segment, isChecked: Bool = false) -> (key: UnsafeRawBufferPointer, item: StoredItem)? {
        guard let record = parts(entry, in: segment),
            isChecked && record.payload.count > Self.loopCheckLimitBytes
                || RecordHeader.payloadChecksum(record.payload.baseAddress!, record.payload.count, seed: seed)
                    == record.header.payloadChecksum
        else {
            dropDamaged(entry.hash, segment.number, entry.byteOffset)
            return nil
        }
        return (record.key, record.item)
    }

    /// A record in its segment.
    struct StoredRecord {
        let header: RecordHeader
        /// Key, metadata, head and body together.
        let payload: UnsafeRawBufferPointer
        let key: UnsafeRawBufferPointer
        let item: StoredItem

        /// The part of the payload before the content.
        var front: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: payload.dropLast(item.body.count)) }
    }

    /// Locates the parts of a record. Verifies the header's checksum only; nil if the header does not match the entry.
    func parts(_ entry: IndexEntry, in segment: Segment) -> StoredRecord? {
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
        let payload = UnsafeRawBufferPointer(start: start, count: header.payloadBytes)
        let key = next(header.keyBytes)
        let item = StoredItem(
            metadata: next(header.metadataBytes).assumingMemoryBound(to: UInt8.self),
            head: next(header.headBytes).assumingMemoryBound(to: UInt8.self), body: next(header.bodyBytes), form: header.form,
            contentNumber: segment.number << 32 | UInt64(entry.offset), isMarkedStale: entry.flags & IndexEntry.markedStale != 0,
            note: entry.note, owner: segment)
        return StoredRecord(header: header, payload: payload, key: key, item: item)
    }

    /// Removes an item from the index because its record at this position is damaged.
    func dropDamaged(_ hash: KeyHash, _ segment: UInt64, _ offset: Int) {
        let wasNeeded = state.withLock { state in
            guard let entry = state.index.find(hash), entry.leads(to: segment, offset) else { return false }
            state.index.remove(hash)
            state.changes.raise(hash)
            state.statistics.damaged += 1
            return entry.flags & IndexEntry.needed != 0
        }
        // The damaged item is a mark. The items that it removed are unknown, so all items become stale.
        if wasNeeded { markAllStale() }
    }

    public var statistics: StoreStatistics {
        state.withLock { state in
            var statistics = state.statistics
            statistics.entries = state.index.count + Self.newlyWaiting(state)
            statistics.notesWaiting = state.index.unwrittenNotes
            statistics.fileBytes = state.segments.bytes
            statistics.diskReadsWaiting = readers.waiting
            return statistics
        }
    }

    /// Number of waiting items without an older item in a segment. Above 1,024 waiting items, all are counted, to keep the lock short.
    private static func newlyWaiting(_ state: State) -> Int {
        guard state.pending.count <= 1_024 else { return state.pending.count }
        return state.pending.items.count { state.index.find($0.hash) == nil }
    }

    // MARK: Changing

    /// Whether look-ups with this basis would return equal results now.
    public func holds(_ basis: LookUpBasis) -> Bool { basis.holds(changes) }

    /// Invalidates all look-up results although no item changed, because look-ups use other keys from now on.
    public func noteChange() { changes.raiseAll() }

    /// Inserts an item and replaces the item with an equal key. Returns at once; the item is written in the background.
    /// - Parameter seen: result of `see`; the item is inserted only if the key's state has not changed since. Lets the caller compare with
    ///   the stored item without a race. nil: insert in any case.
    @discardableResult
    public func insert(_ item: NewItem, ifStill seen: SeenItem? = nil) -> InsertResult {
        // The limit for tombstones is higher, so that they are rejected last.
        let limit = settings.pendingLimitBytes * (item.retention.isNeeded ? 2 : 1)
        let recordBytes = RecordHeader.recordBytes(payload: item.payloadBytes)
        guard recordBytes <= settings.segmentBytes else { return .tooLarge }
        let pending = PendingItem(item, hash: item.key.withUnsafeBytes { KeyHash($0, seed: seed) })
        return state.withLock { state in
            if let seen, seen.position != .init(state.pending[pending.hash], state.index.find(pending.hash)) { return .changed }
            guard state.owner == .us && state.statistics.isWritable || item.retention.isNeeded else { return .unwritable }
            guard recordBytes <= state.statistics.recordLimit || item.retention.isNeeded else {
                writer.serial.async { [writer] in writer.checkSpace(self) }
                return .tooLarge
            }
            guard state.owner != .us || state.statistics.pendingBytes + pending.bytes <= limit else {
                state.statistics.dropped += 1
                return .busy
            }
            state.statistics.pendingBytes += pending.bytes
            state.statistics.inserted += 1
            state.changes.raise(pending.hash)
            state.pending[pending.hash] = pending
            writer.queue(.item(pending), store: self)
            return .accepted
        }
    }

    /// Returns the item under this key without marking it as used: this is not a look-up for a client. The content's checksum is not
    /// verified. May block on the disk (`onDisk`).
    public func see(_ key: Span<UInt8>) -> SeenItem {
        key.withUnsafeBytes { key in
            let hash = KeyHash(key, seed: seed)
            let (pending, segment, entry) = state.withLock { state in
                let entry = state.index.find(hash)
                return (state.pending[hash], entry.flatMap { state.segments[$0.segment] }, entry)
            }
            let position = SeenItem.Position(pending, entry)
            if let pending { return SeenItem(item: pending.matches(key) ? pending.stored : nil, position: position) }
            guard let segment, let entry, let record = parts(entry, in: segment), record.key.count == key.count,
                memcmp(record.key.baseAddress!, key.baseAddress!, key.count) == 0
            else { return SeenItem(item: nil, position: position) }
            return SeenItem(item: record.item, position: position)
        }
    }

    /// Removes the item under this key, durable across restarts.
    public func remove(_ key: Span<UInt8>) {
        remove(key.withUnsafeBytes { KeyHash($0, seed: seed) })
    }

    /// Removes the item under this key if it has not been replaced.
    /// - Returns: whether it was removed.
    @discardableResult
    public func remove(_ key: Span<UInt8>, ifStill item: StoredItem) -> Bool {
        key.withUnsafeBytes { key in
            let hash = KeyHash(key, seed: seed)
            return state.withLock { state in
                guard isStill(item, hash, key.count, state) else { return false }
                remove(hash, &state)
                return true
            }
        }
    }

    /// Whether the key's item is still `item`. Compares positions, so that in most cases nothing is read while the lock is held.
    private func isStill(_ item: StoredItem, _ hash: KeyHash, _ keyBytes: Int, _ state: borrowing State) -> Bool {
        if let pending = state.pending[hash] { return pending === item.owner }
        guard let entry = state.index.find(hash), let segment = state.segments[entry.segment] else { return false }
        if segment.base + entry.byteOffset + RecordHeader.bytes + keyBytes == UnsafeRawPointer(item.metadata.baseAddress) { return true }
        // The item was waiting when it was found, and has been written since, or its file was replaced. The record is still in memory,
        // because that was recent.
        let isMoved = item.owner is PendingItem || (item.owner as? Segment)?.number == segment.number && item.owner !== segment
        guard isMoved, let written = parts(entry, in: segment)?.item.metadata else { return false }
        return written.elementsEqual(item.metadata)
    }

    private func isMarkedStale(_ hash: KeyHash, _ state: borrowing State) -> Bool {
        if let pending = state.pending[hash] { return pending.isMarkedStale }
        return state.index.find(hash).map { $0.flags & IndexEntry.markedStale != 0 } ?? false
    }

    /// Attaches a number to an item until the item is replaced, if the key's item is still `item`. It is written to disk within
    /// `StoreSettings.noteMilliseconds`, so a crash may restore an older number.
    /// - Parameter note: a number of 27 bits. A number smaller than the present one changes nothing.
    /// - Returns: whether it is still that item, and was not marked stale.
    @discardableResult
    public func setNote(_ note: UInt32, of key: Span<UInt8>, ifStill item: StoredItem) -> Bool {
        key.withUnsafeBytes { key in
            let hash = KeyHash(key, seed: seed)
            return state.withLock { state in
                guard isStill(item, hash, key.count, state), !isMarkedStale(hash, state) else { return false }
                state.changes.raise(hash)
                if let pending = state.pending[hash] {
                    pending.raiseNote(to: note)
                } else {
                    state.index.setNote(note, of: hash)
                }
                writer.writeNotesLater(self, &state)
                return true
            }
        }
    }

    /// Removes an item. Returns whether it existed.
    @discardableResult
    func remove(_ hash: KeyHash) -> Bool { state.withLock { remove(hash, &$0) } }

    @discardableResult
    private func remove(_ hash: KeyHash, _ state: inout State) -> Bool {
        let wasPending = state.pending[hash] != nil
        state.pending[hash] = nil
        state.changes.raise(hash)
        guard state.index.remove(hash) || wasPending else {
            // The other process may have an item under this key.
            writer.sendToPeer(.removal(low: hash.low, high: hash.high))
            return false
        }
        state.statistics.invalidated += 1
        writer.queue(.removal(hash), store: self)
        return true
    }

    /// Marks an item as stale, durable across restarts. Returns whether it existed.
    func markStale(_ hash: KeyHash) -> Bool {
        state.withLock { state in
            state.changes.raise(hash)
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

    /// Marks all items as stale, durable across restarts. Locks one part of the index at a time, so that a large index does not block other
    /// threads. Items that are inserted meanwhile may be marked too; they then need a validation.
    public func markAllStale() {
        state.withLock { state in
            state.changes.raiseAll()
            for pending in state.pending.items { queueMarked(pending, &state) }
            writer.queue(.staleAll, store: self)
        }
        for part in 0..<IndexTable.partCount {
            state.withLock { state in
                state.changes.raiseAll()
                state.index.markAllStale(ofPart: part)
            }
        }
    }

    private func queueMarked(_ pending: PendingItem, _ state: inout State) {
        guard !pending.isMarkedStale else { return }
        let marked = PendingItem(markingStale: pending)
        state.pending[marked.hash] = marked
        state.statistics.pendingBytes += marked.bytes
        writer.queue(.item(marked), store: self)
    }

    /// Removes all items, durable across restarts.
    public func removeAll() {
        // The old tables are released outside the lock.
        let old = state.withLock { state in
            state.changes.raiseAll()
            state.statistics.invalidated += state.index.count
            defer {
                state.index = IndexTable()
                state.pending = PendingTable()
                writer.queue(.clearing, store: self)
            }
            return (state.index, state.pending)
        }
        withExtendedLifetime(old) {}
    }

    /// Returns when all changes that were queued before are written to a segment file.
    public func flush() { writer.writeWaiting(self) }

    /// Returns when all removals and marks that were queued before are written to a segment file. Does not wait for contents that are being
    /// encoded.
    public func flushMarks() { writer.writeNeededNow(self) }

    /// Whether another process serves from this directory too, or is about to.
    public var hasPeer: Bool { writer.hasPeer }

    /// Whether a removal or a mark has not been written to a segment file.
    public var hasUnwrittenMarks: Bool { writer.hasUnwritten }

    /// Calls `then` when all removals and marks that were queued before are in a segment file, or when the disk has refused them. `then` is
    /// called at once or on the writer's queue.
    public func whenMarksWritten(_ then: @escaping @Sendable (_ isWritten: Bool) -> Void) { writer.whenNeededWritten(then) }

    /// Returns when all changes that do not wait for a delay are written to a segment file.
    func waitUntilIdle() { writer.waitUntilIdle() }

    /// Returns when all changes that were queued before are synchronized to disk, except contents that are being encoded.
    /// - Returns: false if the disk rejected removals or marks.
    @discardableResult
    public func synchronize() -> Bool { writer.synchronize(self) }

    /// Writes all waiting items and a snapshot of the index, which makes the next start fast, and releases the directory's lock. The store
    /// must not be changed afterwards.
    public func close() {
        writer.writeWaiting(self)
        writer.tryAgainNow(self)
        defer { directory.unlock() }
        guard directory.isWritable, state.withLock({ $0.owner == .us }) else { return }
        writer.writeNotesNow(self)
        writer.synchronize(self)
        let (position, error) = writer.serial.sync { (writer.position, directory.restore(makesDirectory: false)) }
        guard error == 0 else { return }
        state.withLock { state in
            let limit = min(settings.snapshotBytes, settings.segmentsBytes - state.segments.bytes)
            IndexSnapshot.write(state, end: position, directory: directory.path, limit: limit, seed: seed)
        }
    }

    // MARK: Credentials

    /// Returns a keyed BLAKE2b hash of 16 bytes that identifies a set of credentials without revealing them.
    /// - Parameter parts: names and values of the request's credential fields, each with its length.
    public func credentialPartition(_ parts: [UInt8]) -> [UInt8] {
        var out = [UInt8](repeating: 0, count: 16)
        crypto_generichash(&out, out.count, parts, UInt64(parts.count), directory.secret, directory.secret.count)
        return out
    }

    /// Returns a keyed BLAKE2b hash of 32 bytes that replaces a long part of a cache key. The key prevents deliberate collisions.
    public func contentDigest(_ content: [UInt8]) -> [UInt8] {
        var out = [UInt8](repeating: 0, count: 32)
        crypto_generichash(&out, out.count, content, UInt64(content.count), directory.secret, directory.secret.count)
        return out
    }
}
