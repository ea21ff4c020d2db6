// Remembers parsed purges of the fleet's log, because each record from another node is compared with up to a thousand of them.

import CachePolicy
import HTTPCore

/// Used on one thread only.
final class SelectionMemo {
    private struct Entry {
        /// Whether the purge concerns this API.
        let isMeant: Bool
        let tag: String?
        /// Beginning of the partition on this node.
        let partition: [UInt8]?
        /// Partitions of the user in the shared level; nil for all users.
        let users: Set<[UInt8]>?
        /// The paths without the exceptions; nil for all paths.
        let matching: PathTable<Bool>?
        /// The conditions that all nodes evaluate alike.
        let entries: EntrySelection
        let prefixBytes: Int
        let matchingBytes: Int
        let exceptBytes: Int

        init(_ selection: FleetSelection, _ criteria: PurgeCriteria, _ settings: ResponseCacheSettings) {
            isMeant = selection.isMeant(settings)
            tag = criteria.tag
            partition = criteria.partition.map { [UInt8](hexadecimal: $0) ?? [] }
            users = criteria.user.map { Set($0.shared) }
            matching = criteria.matching.map { PathTable([(RoutePattern($0), true)], rest: false) }
            var entries = EntrySelection(
                prefix: criteria.prefix.map { .init($0) }, target: criteria.target.map { .init($0, settings.arguments) })
            entries.paths = criteria.paths
            self.entries = entries
            (prefixBytes, matchingBytes) = (criteria.prefix?.utf8.count ?? 0, criteria.matching?.utf8.count ?? 0)
            exceptBytes = criteria.except.reduce(0) { $0 + $1.utf8.count }
        }
    }

    /// A purge as in the log. Its hash covers the ends only, because it may be long. Comparing is cheap too: the log and the memo usually
    /// share the array's storage.
    private struct Argument: Hashable {
        let bytes: [UInt8]

        private static let sampleBytes = 64

        func hash(into hasher: inout Hasher) {
            hasher.combine(bytes.count)
            for sample in [bytes.prefix(Self.sampleBytes), bytes.suffix(Self.sampleBytes)] {
                sample.withUnsafeBytes { hasher.combine(bytes: $0) }
            }
        }
    }

    private let settings: ResponseCacheSettings
    private var entries: [Argument: Entry] = [:]

    /// Maximum number of entries: twice `MarkTable.Limits.selections`. Beyond it, all are parsed anew.
    private static let limit = 1 << 11

    init(_ settings: ResponseCacheSettings) { self.settings = settings }

    /// Returns whether a purge may select a shared record. Returns true if the purge cannot be parsed, or if the budget is used up. Evaluates
    /// conditions of constant cost before those whose cost grows with the purge's length.
    /// - Parameter argument: the purge as in the log.
    func maySelect(_ argument: [UInt8], _ record: ComparedRecord) -> Bool {
        let budget = record.budget
        guard budget.isWithinLimit, let entry = entry(argument, budget), let key = record.key else { return true }
        budget.note(40)
        guard entry.isMeant else { return false }
        // A marker has no tags; its variants have.
        if let tag = entry.tag, !record.tags.contains(tag) { return false }
        if let partition = entry.partition, !key.partition.starts(with: partition) { return false }
        if let users = entry.users, let partition = record.sharedPartition, !users.contains(partition) { return false }
        budget.note(60 + entry.prefixBytes)
        guard let matching = entry.matching, let path = record.path else { return entry.entries.mayContain(key, record.path) }
        budget.note(path.comparisons * entry.matchingBytes / 2)
        guard matching.holdsForAny(path, { $0 }) else { return false }
        budget.note(path.comparisons * entry.exceptBytes / 2)
        return entry.entries.mayContain(key, path)
    }

    private func entry(_ bytes: [UInt8], _ budget: PurgeBudget) -> Entry? {
        let argument = Argument(bytes: bytes)
        if let known = entries[argument] { return known }
        budget.note(2_000 + 8 * bytes.count)
        guard let selection = FleetSelection(bytes), let criteria = selection.criteria else { return nil }
        if entries.count >= Self.limit { entries = [:] }
        let entry = Entry(selection, criteria, settings)
        entries[argument] = entry
        return entry
    }
}

/// Limits the comparisons of a search's records with purges, so that they do not hold the event loop. Used on one thread only.
public final class PurgeBudget {
    private var work = 0

    /// Maximum work of one search: a comparison counts 40 to 100, its bytes and the readings of the path more. Comparisons of one record
    /// with 1,024 purges of tags need less than a third.
    private static let workLimit = 160 << 10

    public init() {}

    var isWithinLimit: Bool { work <= Self.workLimit }

    func note(_ units: Int) { work += units }
}

/// A record from another node that is compared with purges. Its parts are read once.
final class ComparedRecord {
    /// Key of the record in this node's store; nil if it cannot be parsed.
    let key: StoredKey?
    let budget: PurgeBudget
    private let record: FleetRecord
    private(set) lazy var path = key?.path
    private(set) lazy var tags = Self.tags(ofHead: record.head)
    /// Partition in the record's key in the shared level; nil if it cannot be parsed.
    private(set) lazy var sharedPartition = StoredKey.partition(of: record.key).map { Array($0) }

    init(_ record: FleetRecord, ownKey: [UInt8], _ budget: PurgeBudget) {
        (self.record, key, self.budget) = (record, StoredKey(ownKey), budget)
    }

    private static func tags(ofHead head: [UInt8]) -> Set<String> {
        StoredHead.parse(head.span).map { Set(CacheTags.tags(of: $0.fields)) } ?? []
    }
}
