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

    /// Maximum number of entries, as in `MarkTable.Limits.selections`. Beyond it, all are parsed anew.
    private static let limit = 1 << 10

    init(_ settings: ResponseCacheSettings) { self.settings = settings }

    /// Returns whether a purge may select a shared record. A purge that cannot be parsed may select any.
    /// - Parameters:
    ///   - argument: the purge as in the log.
    ///   - key: key of the record in this node's store; nil if it cannot be parsed.
    ///   - shared: key of the record in the shared level.
    ///   - tags: the record's tags.
    func maySelect(_ argument: [UInt8], _ key: StoredKey?, ofShared shared: [UInt8], tags: () -> [String]) -> Bool {
        guard let entry = entry(argument), let key else { return true }
        guard entry.selection.isMeant(settings) else { return false }
        // A marker has no tags; its variants have.
        if let tag = entry.criteria.tag, !tags().contains(tag) { return false }
        if let partition = entry.partition, !key.partition.starts(with: partition) { return false }
        if let user = entry.criteria.user, let partition = StoredKey.partition(of: shared), !user.shared.contains(Array(partition)) {
            return false
        }
        return entry.entries.mayContain(key)
    }

    private func entry(_ argument: [UInt8]) -> Entry? {
        let hash = ContentHash.number(of: argument.span)
        if let known = entries[hash], known.argument == argument { return known }
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
