// The index: maps the hash of a key to the position of its record. It uses open addressing with plain structs, because a dictionary of
// objects took twenty times as long. It consists of 64 parts that grow separately, so that growing blocks callers only briefly. An entry
// has 32 bytes; at most three quarters of the slots are occupied.

struct IndexEntry {
    var hash = KeyHash(low: 0, high: 0)
    /// Number of the segment in the lower 48 bits (`Segment.numberLimit`), `inMemoryMark` in the upper 16 bits.
    private var packed: UInt64 = 0
    /// Offset of the record in its segment, in units of 8 bytes.
    private(set) var offset: UInt32 = 0
    var flags: UInt32 = 0

    private static let markShift: UInt64 = 48

    init() {}

    /// - Parameter segment: number of the segment, below `Segment.numberLimit`.
    init(hash: KeyHash, segment: UInt64, offset: UInt32, flags: UInt32) {
        (self.hash, self.offset, self.flags) = (hash, offset, flags)
        packed = segment & (Segment.numberLimit - 1)
    }

    var segment: UInt64 { packed & (Segment.numberLimit - 1) }

    /// Time at which the record was last known to be in memory (`ResidencyTrust.mark`), in 16 bits; 0 for never. Not written to disk.
    var inMemoryMark: UInt32 {
        get { UInt32(truncatingIfNeeded: packed >> Self.markShift) }
        set { packed = segment | UInt64(newValue) << Self.markShift }
    }

    static let occupied: UInt32 = 1
    /// Set when the item is looked up after it was written. Eviction keeps such an item once.
    static let used: UInt32 = 2
    /// The item is kept when its segment is evicted (`Retention.isNeeded`).
    static let needed: UInt32 = 4
    /// The item was marked stale by a purge or a later change: it is stale regardless of its metadata.
    static let markedStale: UInt32 = 8
    /// The note changed since it was last written to a record. Not written to disk.
    static let noteIsUnwritten: UInt32 = 1 << 31
    private static let noteShift: UInt32 = 4
    /// Mask of the note; it has 27 bits.
    static let noteMask: UInt32 = (1 << 27) - 1

    /// A number that the caller attaches to the item until the item is replaced; 0 for none.
    var note: UInt32 {
        get { flags >> Self.noteShift & Self.noteMask }
        set { flags = flags & ~(Self.noteMask << Self.noteShift) | newValue << Self.noteShift }
    }

    var isNoteUnwritten: Bool { flags & Self.noteIsUnwritten != 0 }

    /// Offset of the record in its segment, in bytes.
    var byteOffset: Int { Int(offset) * RecordHeader.alignment }

    /// Number of bytes that an offset can address. No segment is larger.
    static let reach = (Int(UInt32.max) + 1) * RecordHeader.alignment

    /// Whether the entry refers to the record at this position.
    func leads(to segment: UInt64, _ byteOffset: Int) -> Bool { self.segment == segment && self.byteOffset == byteOffset }

    func lies(before position: StoreWriter.Position) -> Bool {
        (segment, byteOffset) < (position.segment, position.offset)
    }

    var isOccupied: Bool { flags & Self.occupied != 0 }
}

extension IndexEntry {
    init(hash: KeyHash, segment: UInt64, byteOffset: Int, isMarkedStale: Bool, isNeeded: Bool = false, note: UInt32 = 0) {
        let offset = UInt32(byteOffset / RecordHeader.alignment)
        let flags = (isMarkedStale ? Self.markedStale : 0) | (isNeeded ? Self.needed : 0)
        self.init(hash: hash, segment: segment, offset: offset, flags: flags)
        self.note = note
    }
}

struct IndexTable {
    private var parts: [IndexPart] = Array(repeating: IndexPart(), count: IndexTable.partCount)
    private(set) var count = 0

    static let partCount = 64

    static func part(_ hash: KeyHash) -> Int { Int(truncatingIfNeeded: hash.high) & (partCount - 1) }

    func find(_ hash: KeyHash) -> IndexEntry? {
        let part = Self.part(hash)
        guard let slot = parts[part].slot(of: hash) else { return nil }
        return parts[part].entries[slot]
    }

    mutating func markUsed(_ hash: KeyHash) {
        let part = Self.part(hash)
        if let slot = parts[part].slot(of: hash) { parts[part].entries[slot].flags |= IndexEntry.used }
    }

    /// Sets the in-memory mark if the stored entry still refers to the record of `entry`.
    mutating func noteInMemory(_ entry: IndexEntry, _ mark: UInt32) {
        let part = Self.part(entry.hash)
        guard let slot = parts[part].slot(of: entry.hash), parts[part].entries[slot].leads(to: entry.segment, entry.byteOffset) else {
            return
        }
        parts[part].entries[slot].inMemoryMark = mark
    }

    /// Inserts or replaces an entry. Returns whether an entry with this hash existed.
    @discardableResult
    mutating func set(_ entry: IndexEntry) -> Bool {
        let replaced = parts[Self.part(entry.hash)].set(entry)
        if !replaced { count += 1 }
        return replaced
    }

    @discardableResult
    mutating func remove(_ hash: KeyHash) -> Bool {
        let removed = parts[Self.part(hash)].remove(hash)
        if removed { count -= 1 }
        return removed
    }

    /// Marks an entry as stale. Returns whether an entry with this hash exists.
    mutating func markStale(_ hash: KeyHash) -> Bool {
        let part = Self.part(hash)
        guard let slot = parts[part].slot(of: hash) else { return false }
        parts[part].entries[slot].flags |= IndexEntry.markedStale
        return true
    }

    /// Sets the note of an entry if it is larger than the present one. It must then be written.
    mutating func setNote(_ note: UInt32, of hash: KeyHash) {
        parts[Self.part(hash)].raiseNote(note, of: hash, isUnwritten: true)
    }

    /// Sets a written note, if the entry still refers to the record that the note was written for.
    mutating func setWritten(_ note: WrittenNote) {
        guard let entry = find(note.hash), note.applies(to: entry) else { return }
        parts[Self.part(note.hash)].raiseNote(note.note, of: note.hash, isUnwritten: false)
    }

    /// Number of entries with a note that must be written.
    var unwrittenNotes: Int { parts.reduce(0) { $0 + $1.unwrittenNotes } }

    /// A slot of a part.
    struct SlotPosition: Equatable {
        var part = 0
        var slot = 0
    }

    /// Maximum number of slots that are visited at once. Visiting takes less than 0.1 ms.
    static let slotsAtOnce = 1 << 14

    /// Takes notes that must be written. They then count as written. If the index changes between two calls, notes may remain for the next
    /// time.
    /// - Parameter start: first slot to visit.
    /// - Returns: the next slot to visit; nil at the end.
    mutating func takeUnwrittenNotes(from start: SlotPosition) -> (notes: [WrittenNote], next: SlotPosition?) {
        let (notes, slot) = parts[start.part].takeUnwrittenNotes(from: start.slot, limit: Self.slotsAtOnce)
        if let slot { return (notes, SlotPosition(part: start.part, slot: slot)) }
        return (notes, start.part + 1 < Self.partCount ? SlotPosition(part: start.part + 1) : nil)
    }

    /// Marks a note that was taken as unwritten again, because the disk refused it.
    mutating func putBack(_ note: WrittenNote) {
        let part = Self.part(note.hash)
        guard let slot = parts[part].slot(of: note.hash), note.applies(to: parts[part].entries[slot]) else { return }
        parts[part].markNoteUnwritten(slot)
    }

    mutating func markAllStale() {
        for part in parts.indices { markAllStale(ofPart: part) }
    }

    mutating func markAllStale(ofPart part: Int) {
        for slot in parts[part].entries.indices where parts[part].entries[slot].isOccupied {
            parts[part].entries[slot].flags |= IndexEntry.markedStale
        }
    }

    /// Marks all entries with records before this position as stale.
    mutating func markStale(before end: StoreWriter.Position) {
        for part in parts.indices {
            for slot in parts[part].entries.indices where parts[part].entries[slot].isOccupied {
                if parts[part].entries[slot].lies(before: end) { parts[part].entries[slot].flags |= IndexEntry.markedStale }
            }
        }
    }

    /// All slots of one part, including empty ones. The array is shared until it is changed, so iterating over it does not block writers.
    func slots(ofPart part: Int) -> [IndexEntry] { parts[part].entries }

    /// Removes all matching entries. Visits the whole index.
    mutating func removeAll(where isGone: (IndexEntry) -> Bool) {
        var gone: [KeyHash] = []
        visitAll { if isGone($0) { gone.append($0.hash) } }
        for hash in gone { remove(hash) }
    }

    func visitAll(_ visit: (IndexEntry) -> Void) {
        for part in parts {
            for entry in part.entries where entry.isOccupied { visit(entry) }
        }
    }
}

private struct IndexPart {
    var entries: [IndexEntry] = []
    private var count = 0
    private(set) var unwrittenNotes = 0

    private func home(_ hash: KeyHash) -> Int { Int(truncatingIfNeeded: hash.low) & (entries.count - 1) }

    func slot(of hash: KeyHash) -> Int? {
        guard !entries.isEmpty else { return nil }
        var slot = home(hash)
        while entries[slot].isOccupied {
            if entries[slot].hash == hash { return slot }
            slot = (slot + 1) & (entries.count - 1)
        }
        return nil
    }

    mutating func set(_ entry: IndexEntry) -> Bool {
        var entry = entry
        entry.flags |= IndexEntry.occupied
        if entry.isNoteUnwritten { unwrittenNotes += 1 }
        if let slot = slot(of: entry.hash) {
            if entries[slot].isNoteUnwritten { unwrittenNotes -= 1 }
            entries[slot] = entry
            return true
        }
        if (count + 1) * 4 > entries.count * 3 { grow() }
        put(entry)
        count += 1
        return false
    }

    private mutating func put(_ entry: IndexEntry) {
        var slot = home(entry.hash)
        while entries[slot].isOccupied { slot = (slot + 1) & (entries.count - 1) }
        entries[slot] = entry
    }

    private mutating func grow() {
        let old = entries
        entries = Array(repeating: IndexEntry(), count: max(16, old.count * 2))
        for entry in old where entry.isOccupied { put(entry) }
    }

    /// Sets the note of an entry if it is larger than the present one.
    mutating func raiseNote(_ note: UInt32, of hash: KeyHash, isUnwritten: Bool) {
        guard let slot = slot(of: hash), note > entries[slot].note else { return }
        entries[slot].note = note
        if isUnwritten { markNoteUnwritten(slot) }
    }

    mutating func markNoteUnwritten(_ slot: Int) {
        guard !entries[slot].isNoteUnwritten else { return }
        entries[slot].flags |= IndexEntry.noteIsUnwritten
        unwrittenNotes += 1
    }

    /// - Returns: the notes of at most `limit` slots, and the next slot; nil if no note remains.
    mutating func takeUnwrittenNotes(from first: Int, limit: Int) -> (notes: [WrittenNote], next: Int?) {
        var taken: [WrittenNote] = []
        taken.reserveCapacity(min(unwrittenNotes, limit))
        let end = min(first + limit, entries.count)
        var slot = first
        while slot < end, unwrittenNotes > 0 {
            if entries[slot].isNoteUnwritten {
                entries[slot].flags &= ~IndexEntry.noteIsUnwritten
                taken.append(WrittenNote(entries[slot]))
                unwrittenNotes -= 1
            }
            slot += 1
        }
        return (taken, unwrittenNotes > 0 && end < entries.count ? end : nil)
    }

    /// Removes the entry and moves later entries into the gap, so that no deletion markers are needed.
    mutating func remove(_ hash: KeyHash) -> Bool {
        guard var gap = slot(of: hash) else { return false }
        if entries[gap].isNoteUnwritten { unwrittenNotes -= 1 }
        let mask = entries.count - 1
        var next = (gap + 1) & mask
        while entries[next].isOccupied {
            let distance = (next &- home(entries[next].hash)) & mask
            if distance >= (next &- gap) & mask {
                entries[gap] = entries[next]
                gap = next
            }
            next = (next + 1) & mask
        }
        entries[gap] = IndexEntry()
        count -= 1
        return true
    }
}
