// The index: from a key's hash to where its record lies. Open addressing with plain structs (a dictionary of objects took twenty times as
// long), in 64 parts that grow one by one, so that growing never holds anybody up for long. 32 bytes an entry, at most three quarters full.

struct IndexEntry {
    var hash = KeyHash(low: 0, high: 0)
    /// Number of the segment in 48 bits (`Segment.numberLimit`), and above it the mark.
    private var place: UInt64 = 0
    /// The offset in the segment in units of 8 bytes.
    private(set) var offset: UInt32 = 0
    var flags: UInt32 = 0

    private static let markShift: UInt64 = 48

    init() {}

    /// - Parameter segment: below `Segment.numberLimit`.
    init(hash: KeyHash, segment: UInt64, offset: UInt32, flags: UInt32) {
        (self.hash, self.offset, self.flags) = (hash, offset, flags)
        place = segment & (Segment.numberLimit - 1)
    }

    var segment: UInt64 { place & (Segment.numberLimit - 1) }

    /// When it was last known to be in memory (`ResidencyTrust.mark`), in 16 bits; that is not written down.
    var inMemoryMark: UInt32 {
        get { UInt32(truncatingIfNeeded: place >> Self.markShift) }
        set { place = segment | UInt64(newValue) << Self.markShift }
    }

    static let occupied: UInt32 = 1
    /// Looked up since it was written: evicting spares it once.
    static let used: UInt32 = 2
    /// It outlives its segment (`Retention.isNeeded`).
    static let needed: UInt32 = 4
    /// Purged softly: it counts as stale, whatever it said.
    static let markedStale: UInt32 = 8
    /// What outlives the process; above them lies the note.
    static let lastingFlags: UInt32 = 15
    private static let noteShift: UInt32 = 4

    /// A number of 28 bits that whoever put the item in keeps with it in memory, until it is replaced; 0 for none.
    var note: UInt32 {
        get { flags >> Self.noteShift }
        set { flags = flags & Self.lastingFlags | newValue << Self.noteShift }
    }

    /// Where in its segment the record lies, in bytes.
    var byteOffset: Int { Int(offset) * RecordHeader.alignment }

    /// What an offset can name: no segment is larger.
    static let reach = (Int(UInt32.max) + 1) * RecordHeader.alignment

    /// Whether it leads to this record.
    func leads(to segment: UInt64, _ byteOffset: Int) -> Bool { self.segment == segment && self.byteOffset == byteOffset }

    func lies(before position: StoreWriter.Position) -> Bool {
        (segment, byteOffset) < (position.segment, position.offset)
    }

    var isOccupied: Bool { flags & Self.occupied != 0 }
}

extension IndexEntry {
    init(hash: KeyHash, segment: UInt64, byteOffset: Int, isMarkedStale: Bool, isNeeded: Bool = false) {
        let offset = UInt32(byteOffset / RecordHeader.alignment)
        let flags = (isMarkedStale ? Self.markedStale : 0) | (isNeeded ? Self.needed : 0)
        self.init(hash: hash, segment: segment, offset: offset, flags: flags)
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

    /// If it still leads to where `entry` does.
    mutating func noteInMemory(_ entry: IndexEntry, _ mark: UInt32) {
        let part = Self.part(entry.hash)
        guard let slot = parts[part].slot(of: entry.hash), parts[part].entries[slot].leads(to: entry.segment, entry.byteOffset) else {
            return
        }
        parts[part].entries[slot].inMemoryMark = mark
    }

    /// Returns whether an entry of this hash was there before.
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

    /// Returns whether an entry of this hash is there.
    mutating func markStale(_ hash: KeyHash) -> Bool {
        let part = Self.part(hash)
        guard let slot = parts[part].slot(of: hash) else { return false }
        parts[part].entries[slot].flags |= IndexEntry.markedStale
        return true
    }

    mutating func setNote(_ note: UInt32, of hash: KeyHash) {
        let part = Self.part(hash)
        if let slot = parts[part].slot(of: hash) { parts[part].entries[slot].note = max(note, parts[part].entries[slot].note) }
    }

    mutating func markAllStale() {
        for part in parts.indices { markAllStale(ofPart: part) }
    }

    mutating func markAllStale(ofPart part: Int) {
        for slot in parts[part].entries.indices where parts[part].entries[slot].isOccupied {
            parts[part].entries[slot].flags |= IndexEntry.markedStale
        }
    }

    /// What lies before this place.
    mutating func markStale(before end: StoreWriter.Position) {
        for part in parts.indices {
            for slot in parts[part].entries.indices where parts[part].entries[slot].isOccupied {
                if parts[part].entries[slot].lies(before: end) { parts[part].entries[slot].flags |= IndexEntry.markedStale }
            }
        }
    }

    /// One part's slots, the empty ones too: a snapshot without a copy, for those who go through everything and must not hold up others.
    func slots(ofPart part: Int) -> [IndexEntry] { parts[part].entries }

    /// Goes through all of it.
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
        if let slot = slot(of: entry.hash) {
            entries[slot] = entry
            return true
        }
        if (count + 1) * 4 > entries.count * 3 { grow() }
        place(entry)
        count += 1
        return false
    }

    private mutating func place(_ entry: IndexEntry) {
        var slot = home(entry.hash)
        while entries[slot].isOccupied { slot = (slot + 1) & (entries.count - 1) }
        entries[slot] = entry
    }

    private mutating func grow() {
        let old = entries
        entries = Array(repeating: IndexEntry(), count: max(16, old.count * 2))
        for entry in old where entry.isOccupied { place(entry) }
    }

    /// Closes the gap, so that no marks of the dead are needed.
    mutating func remove(_ hash: KeyHash) -> Bool {
        guard var gap = slot(of: hash) else { return false }
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
