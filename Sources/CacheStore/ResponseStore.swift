// Where stored responses live: append-only segment files and an index in memory. Looking up reads through the mapping and checks the
// checksum every time; putting in only queues, and one serial queue in the background writes. What waits to be written answers look-ups.
// The file is the public face and the state that its two sides share; `StoreWriter` is the writing side.

import CHash
import Dispatch
import Glibc
import Locking
import TakeOver

import struct Synchronization.Atomic

/// `@unchecked Sendable` because everything that changes is in `state`, behind its mutex, or belongs to the writer's queue.
public final class ResponseStore: @unchecked Sendable {
    public let settings: StoreSettings
    let directory: StoreDirectory
    let seed: UInt64
    /// Shared by the shards that look up and the writer that writes.
    let state: Mutex<State>
    let writer: StoreWriter
    let readers = DiskReaders()
    /// `Residency.isTrusted`, asked once: it is needed at every hit.
    let trustsResidency: Bool
    /// The second in which something was last found to be on the disk only (`ResidencyTrust`); written and read by all shards.
    let lastAway = Atomic(-ResidencyTrust.pressSeconds)
    /// The state's, for those who read without it.
    private let changes: ChangeCounts

    enum Owner {
        case us
        /// Another process's, where that begins. Then it is not taken back.
        case both
        case other
    }

    struct State {
        var index = IndexTable()
        var segments = SegmentList()
        /// Queued and not yet readable from a segment. Removals are not in it: they act on the index at once.
        var pending = PendingTable()
        var statistics = StoreStatistics()
        /// Whose the directory is. Where it is another's, nothing new is stored here, but for marks.
        var owner = Owner.us
        /// Raised with every change of what look-ups find.
        let changes = ChangeCounts()

        func place(of hash: KeyHash) -> SeenItem.Place {
            if let pending = pending[hash] { return .pending(ObjectIdentifier(pending)) }
            return index.find(hash).map { .segment($0.segment, offset: $0.offset) } ?? .nowhere
        }

        /// Is found while it waits to be written again, unless something newer waits.
        mutating func keep(_ kept: [StoreWriter.Work]) {
            for case .item(let item) in kept {
                statistics.pendingBytes += item.bytes
                if pending[item.hash] == nil { pending[item.hash] = item }
            }
        }
    }

    /// Opens the store, or makes it. A directory that cannot be written to gives a store that only reads.
    /// - Parameter handed: what another process has handed over: then nothing is written before `own`.
    public init(_ settings: StoreSettings, handed: HandedStore? = nil) throws(StoreError) {
        guard settings.capacityBytes >= 4 << 20 else { throw .tooSmall }
        self.settings = settings
        trustsResidency = settings.residency.isTrusted
        directory = if let handed { try handed.directory(settings.directory) } else { try StoreDirectory(settings.directory) }
        seed = XXH3_64bits(directory.secret, directory.secret.count)
        var recovery = StoreRecovery(directory: directory, settings: settings, seed: seed)
        if let handed {
            guard recovery.run(handed: handed.index) else { throw .notHandedOver(settings.directory) }
        } else {
            recovery.run()
        }
        var initial = State()
        initial.index = recovery.index
        initial.segments = recovery.segments
        initial.statistics = recovery.statistics
        initial.keep(recovery.leftOut.kept)
        initial.statistics.canOpen = directory.isWritable
        let probes = settings.isRequired && directory.isWritable && handed == nil
        initial.statistics.opening.error = probes ? directory.probe(settings) : directory.error
        initial.statistics.opening.hasLostKey = directory.isNew && !recovery.segments.isEmpty
        initial.statistics.opening.hasOpenKey = directory.isKeyOpen
        if settings.isRequired, let reason = initial.statistics.opening.whyUnusable {
            throw .unusable(settings.directory, reason: reason)
        }
        initial.statistics.capacityBytes = settings.capacityBytes
        if directory.isWritable {
            let plan = SegmentPlan(
                settings.sizes, held: initial.segments.bytes, count: initial.segments.count, room: settings.room(settings.directory))
            (initial.statistics.roomBytes, initial.statistics.recordLimit) = (plan.roomBytes, plan.recordLimit)
        } else {
            let path = directory.path + (directory.lacksKeyOnly ? "/key" : "/lock")
            let fault = WriteFault(directory.error, path: path, room: settings.room(settings.directory))
            initial.statistics.refuse(fault, at: settings.now())
        }
        changes = initial.changes
        state = Mutex(initial)
        writer = StoreWriter(directory: directory, settings: settings, seed: seed, start: recovery.end, isHeld: handed != nil)
        writer.leaveOut(recovery.leftOut, self)
        if let fault = initial.statistics.refusal, directory.lacksKeyOnly { writer.refuse(fault, self) }
    }

    // MARK: Reading

    /// The item stored under exactly this key, its checksum checked. A damaged one is dropped, counted, and never returned. May wait for the
    /// disk.
    public func lookUp(_ key: Span<UInt8>) -> StoredItem? {
        var basis = LookUpBasis()
        return lookUp(key, &basis)
    }

    /// - Parameter basis: notes what this look-up goes by.
    public func lookUp(_ key: Span<UInt8>, _ basis: inout LookUpBasis) -> StoredItem? {
        do throws(OnDisk) { return try find(key, &basis, mayWait: true) } catch { return nil }
    }

    /// The same for an event loop: never waits for the disk.
    /// - Throws: what has to be brought in first.
    public func lookUpInMemory(_ key: Span<UInt8>) throws(OnDisk) -> StoredItem? {
        var basis = LookUpBasis()
        return try lookUpInMemory(key, &basis)
    }

    /// - Parameter basis: notes what this look-up goes by.
    public func lookUpInMemory(_ key: Span<UInt8>, _ basis: inout LookUpBasis) throws(OnDisk) -> StoredItem? {
        try find(key, &basis, mayWait: false)
    }

    private func find(_ key: Span<UInt8>, _ basis: inout LookUpBasis, mayWait: Bool) throws(OnDisk) -> StoredItem? {
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
            // Two keys with one hash: as good as absent.
            guard storedKey.count == key.count, memcmp(storedKey.baseAddress!, key.baseAddress!, key.count) == 0 else { return nil }
            return item
        }
    }

    /// The record that an entry of the index leads to, its checksum checked.
    /// - Parameter isChecked: it was a moment ago, where that takes long.
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

    /// A record as it lies in its segment.
    struct StoredRecord {
        let header: RecordHeader
        /// Key, metadata, head and body together.
        let payload: UnsafeRawBufferPointer
        let key: UnsafeRawBufferPointer
        let item: StoredItem

        /// All that lies before the content.
        var front: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: payload.dropLast(item.body.count)) }
    }

    /// The same without looking at more than the record's header.
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
            metadata: next(header.metadataBytes), head: next(header.headBytes), body: next(header.bodyBytes), form: header.form,
            contentNumber: segment.number << 32 | UInt64(entry.offset), isMarkedStale: entry.flags & IndexEntry.markedStale != 0,
            note: entry.note, owner: segment)
        return StoredRecord(header: header, payload: payload, key: key, item: item)
    }

    private func dropDamaged(_ hash: KeyHash, _ segment: UInt64, _ offset: Int) {
        let wasNeeded = state.withLock { state in
            guard let entry = state.index.find(hash), entry.leads(to: segment, offset) else { return false }
            state.index.remove(hash)
            state.changes.raise(hash)
            state.statistics.damaged += 1
            return entry.flags & IndexEntry.needed != 0
        }
        // A mark: what it took back, nobody can tell any more.
        if wasNeeded { markAllStale() }
    }

    public var statistics: StoreStatistics {
        state.withLock { state in
            var statistics = state.statistics
            statistics.entries = state.index.count + Self.newlyWaiting(state)
            statistics.fileBytes = state.segments.bytes
            statistics.diskReadsWaiting = readers.waiting
            return statistics
        }
    }

    /// Items that wait and have none before them in a segment. Where very many wait they are not gone through with the lock held: then each
    /// counts as new.
    private static func newlyWaiting(_ state: State) -> Int {
        guard state.pending.count <= 1_024 else { return state.pending.count }
        return state.pending.items.count { state.index.find($0.hash) == nil }
    }

    // MARK: Changing

    /// Whether look-ups that went by this would bring the same now.
    public func holds(_ basis: LookUpBasis) -> Bool { basis.holds(changes) }

    /// What look-ups find has changed, though nothing was stored or removed: they look in other places from now on.
    public func noteChange() { changes.raiseAll() }

    /// Puts an item in, in the place of what is stored under its key. Returns at once; writing happens in the background.
    @discardableResult
    public func insert(_ item: NewItem) -> InsertResult { insert(item, ifAt: nil) }

    /// The same, if what lies there is still what was seen: who compares first puts in what belongs in the place of that, and of nothing else.
    public func insert(_ item: NewItem, ifStill seen: SeenItem) -> InsertResult { insert(item, ifAt: seen.place) }

    private func insert(_ item: NewItem, ifAt seen: SeenItem.Place?) -> InsertResult {
        // Tombstones are the last to be dropped.
        let limit = settings.pendingLimitBytes * (item.retention.isNeeded ? 2 : 1)
        let recordBytes = RecordHeader.recordBytes(payload: item.payloadBytes)
        guard recordBytes <= settings.segmentBytes else { return .tooLarge }
        let pending = PendingItem(item, hash: item.key.withUnsafeBytes { KeyHash($0, seed: seed) })
        return state.withLock { state in
            if let seen, state.place(of: pending.hash) != seen { return .changed }
            guard state.owner == .us && state.statistics.isWritable || item.retention.isNeeded else { return .unwritable }
            guard recordBytes <= state.statistics.recordLimit || item.retention.isNeeded else {
                writer.serial.async { [writer] in writer.checkRoom(self) }
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

    /// What lies under this key now. Its content's checksum is not checked, and it does not count as used: this is no look-up for a client. May
    /// wait for the disk (`onDisk`).
    public func see(_ key: Span<UInt8>) -> SeenItem {
        key.withUnsafeBytes { key in
            let hash = KeyHash(key, seed: seed)
            let (place, pending, segment, entry) = state.withLock { state in
                let entry = state.index.find(hash)
                return (state.place(of: hash), state.pending[hash], entry.flatMap { state.segments[$0.segment] }, entry)
            }
            if let pending { return SeenItem(item: pending.matches(key) ? pending.stored : nil, place: place) }
            guard let segment, let entry, let record = parts(entry, in: segment), record.key.count == key.count,
                memcmp(record.key.baseAddress!, key.baseAddress!, key.count) == 0
            else { return SeenItem(item: nil, place: place) }
            return SeenItem(item: record.item, place: place)
        }
    }

    /// Drops what is stored under this key, for good: also over a restart.
    public func remove(_ key: Span<UInt8>) {
        remove(key.withUnsafeBytes { KeyHash($0, seed: seed) })
    }

    /// The same, if what is stored there is still this item.
    /// - Returns: whether it was.
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

    /// By its place: nothing is read with the lock held.
    private func isStill(_ item: StoredItem, _ hash: KeyHash, _ keyBytes: Int, _ state: borrowing State) -> Bool {
        if let pending = state.pending[hash] { return pending === item.owner }
        guard let entry = state.index.find(hash), let segment = state.segments[entry.segment] else { return false }
        if segment.base + entry.byteOffset + RecordHeader.bytes + keyBytes == item.metadata.baseAddress { return true }
        // What waited when it was found has been written since: a moment ago, so that is in memory.
        guard item.owner is PendingItem, let written = parts(entry, in: segment)?.item.metadata else { return false }
        return written.elementsEqual(item.metadata)
    }

    /// Keeps a number with an item, in memory and until it is replaced, if what is stored there is still this item.
    /// - Parameter note: of 28 bits. A smaller one than there is changes nothing.
    public func setNote(_ note: UInt32, of key: Span<UInt8>, ifStill item: StoredItem) {
        key.withUnsafeBytes { key in
            let hash = KeyHash(key, seed: seed)
            state.withLock { state in
                guard isStill(item, hash, key.count, state) else { return }
                state.changes.raise(hash)
                if let pending = state.pending[hash] {
                    pending.raiseNote(to: note)
                } else {
                    state.index.setNote(note, of: hash)
                }
            }
        }
    }

    /// Returns whether something was there.
    @discardableResult
    func remove(_ hash: KeyHash) -> Bool { state.withLock { remove(hash, &$0) } }

    @discardableResult
    private func remove(_ hash: KeyHash, _ state: inout State) -> Bool {
        let wasPending = state.pending[hash] != nil
        state.pending[hash] = nil
        state.changes.raise(hash)
        guard state.index.remove(hash) || wasPending else {
            // Another process may have stored something here.
            writer.tell(.removal(low: hash.low, high: hash.high))
            return false
        }
        state.statistics.invalidated += 1
        writer.queue(.removal(hash), store: self)
        return true
    }

    /// Marks what is stored under this key as stale, for good. Returns whether something was there.
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

    /// Marks everything as stale, for good. Part by part, so that nobody waits for all of a large index; what is put in meanwhile may be
    /// marked as well, which costs it a validation.
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

    /// Drops everything, for good.
    public func removeAll() {
        // What it was is given back without the lock.
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

    /// Returns when all that was queued before is in a segment file.
    public func flush() { writer.writeWaiting(self) }

    /// Returns when all removals and marks that were queued before are in a segment file. Never waits for contents that are being coded.
    public func flushMarks() { writer.writeNeededNow(self) }

    /// Whether another process serves from this directory too, or is about to.
    public var hasPeer: Bool { writer.hasPeer }

    /// Whether a removal or a mark is not in a segment file.
    public var hasUnwrittenMarks: Bool { writer.hasUnwritten }

    /// Calls `then` once all removals and marks that were queued before are in a segment file, or the disk has refused them: at once, or from the
    /// writer's queue.
    public func whenMarksWritten(_ then: @escaping @Sendable (_ isWritten: Bool) -> Void) { writer.whenNeededWritten(then) }

    /// Returns when what does not wait for more is in a segment file.
    func waitUntilIdle() { writer.waitUntilIdle() }

    /// Returns when all that was queued before is on the disk, but for contents that are being coded.
    public func synchronize() { writer.synchronize(self) }

    /// Writes what waits, then a snapshot of the index that makes the next start quick, and lets go of the directory. Nothing may be put in
    /// afterwards.
    public func close() {
        writer.writeWaiting(self)
        writer.tryAgainNow(self)
        defer { directory.unlock() }
        guard directory.isWritable, state.withLock({ $0.owner == .us }) else { return }
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
    public func credentialPartition(_ parts: [UInt8]) -> [UInt8] {
        var out = [UInt8](repeating: 0, count: 16)
        crypto_generichash(&out, out.count, parts, UInt64(parts.count), directory.secret, directory.secret.count)
        return out
    }

    /// 32 bytes that stand for a long part of a key: a keyed BLAKE2b hash, so that nobody can find two contents with one key.
    public func contentDigest(_ content: [UInt8]) -> [UInt8] {
        var out = [UInt8](repeating: 0, count: 32)
        crypto_generichash(&out, out.count, content, UInt64(content.count), directory.secret, directory.secret.count)
        return out
    }
}
