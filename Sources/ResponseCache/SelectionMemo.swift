// Remembers parsed purges of the fleet's log, because each record from another node is compared with up to a thousand of them.

import CachePolicy
import HTTPCore

/// Used on one thread only.
final class SelectionMemo {
    private struct Entry {
        let argument: [UInt8]
        let selection: FleetSelection
        let criteria: PurgeCriteria
        /// The conditions that all nodes evaluate alike.
        let entries: EntrySelection
        /// Beginning of the partition on this node.
        let partition: [UInt8]?
    }

    private let settings: ResponseCacheSettings
    /// By the hash of the argument, which may be long.
    private var entries: [UInt64: Entry] = [:]

    /// Maximum number of entries: twice `MarkTable.Limits.selections`. Beyond it, all are parsed anew.
    private static let limit = 1 << 11

    init(_ settings: ResponseCacheSettings) { self.settings = settings }

    /// Returns whether a purge may select a shared record. A purge that cannot be parsed may select any. So may every purge after the
    /// comparisons of the record have taken long.
    /// - Parameter argument: the purge as in the log.
    func maySelect(_ argument: [UInt8], _ record: ComparedRecord) -> Bool {
        guard record.hasTime, let entry = entry(argument, record), let key = record.key else { return true }
        record.note(100 + argument.count / 8)
        guard entry.selection.isMeant(settings) else { return false }
        // A marker has no tags; its variants have.
        if let tag = entry.criteria.tag, !record.tags.contains(tag) { return false }
        if let partition = entry.partition, !key.partition.starts(with: partition) { return false }
        if let user = entry.criteria.user, let partition = StoredKey.partition(of: record.sharedKey),
            !user.shared.contains(Array(partition))
        {
            return false
        }
        if let prefix = entry.criteria.prefix { record.note(prefix.utf8.count) }
        if entry.entries.paths != nil { record.note(record.path.map { $0.comparisons * argument.count / 2 } ?? 0) }
        return entry.entries.mayContain(key, record.path)
    }

    private func entry(_ argument: [UInt8], _ record: ComparedRecord) -> Entry? {
        let hash = ContentHash.number(of: argument.span)
        if let known = entries[hash], known.argument == argument { return known }
        record.note(2_000 + 8 * argument.count)
        guard let selection = FleetSelection(argument), let criteria = selection.criteria else { return nil }
        var selected = EntrySelection(
            prefix: criteria.prefix.map { .init($0) }, target: criteria.target.map { .init($0, settings.arguments) })
        selected.paths = criteria.paths
        if entries.count >= Self.limit { entries = [:] }
        let entry = Entry(
            argument: argument, selection: selection, criteria: criteria, entries: selected,
            partition: criteria.partition.map { [UInt8](hexadecimal: $0) ?? [] })
        entries[hash] = entry
        return entry
    }
}

/// A record from another node that is compared with purges. Its parts are read once.
final class ComparedRecord {
    /// Key of the record in the shared level.
    let sharedKey: [UInt8]
    /// Key of the record in this node's store; nil if it cannot be parsed.
    let key: StoredKey?
    private let head: [UInt8]
    private(set) lazy var path = key?.path
    private(set) lazy var tags = Self.tags(ofHead: head)
    private var work = 0

    /// Maximum work for one record: a comparison counts 100, its bytes and the readings of the path more. Comparisons with 1,024 purges of
    /// tags need less. Without optimization it takes 2 to 5 ms.
    private static let workLimit = 160 << 10

    init(_ record: FleetRecord, ownKey: [UInt8]) { (sharedKey, key, head) = (record.key, StoredKey(ownKey), record.head) }

    private static func tags(ofHead head: [UInt8]) -> Set<String> {
        StoredHead.parse(head.span).map { Set(CacheTags.tags(of: $0.fields)) } ?? []
    }

    var hasTime: Bool { work <= Self.workLimit }

    func note(_ units: Int) { work += units }
}
