// Size and state of the store as figures, for pages and for /metrics.

import CacheStore
import Figures

public struct CacheFigures: Sendable {
    private let store: StoreStatistics

    /// - Parameter cache: nil if nothing is stored. The figures then show an empty store that is not writable.
    public init(_ cache: APICacheState?) {
        guard let cache else {
            var nothing = StoreStatistics()
            nothing.canOpen = false
            store = nothing
            return
        }
        store = cache.store.statistics
    }

    public var entries: Int { store.entries }
    public var bytes: Int { store.fileBytes }
    public var limitBytes: Int { store.capacityBytes }
    public var isWritable: Bool { store.isWritable }
    public var evicted: Int { store.evicted }
    public var writeErrors: Int { store.writeErrors }
    /// Maximum bytes that the store can use: the configured limit, or less on a disk with little space.
    public var usableBytes: Int { store.usableBytes }
    /// Reason for which the store accepts no new responses; nil if it accepts them.
    public var refusal: StoreRefusal? { store.refusal.map { StoreRefusal($0) } }

    public func write(to writer: inout MetricsWriter) {
        writer.gauge("cistern_store_bytes", "Bytes of the store's segment files.", Double(store.fileBytes))
        writer.gauge("cistern_store_limit_bytes", "The limit on the store's files.", Double(store.capacityBytes))
        writer.gauge(
            "cistern_store_room_bytes", "Maximum bytes that the store's files can use: the limit, or less on a disk with little space.",
            Double(store.usableBytes))
        writer.gauge(
            "cistern_store_entries", "Entries of the store: stored responses, and records of Vary, purges and writes.",
            Double(store.entries))
        writer.gauge("cistern_store_pending_bytes", "Bytes that wait to be written.", Double(store.pendingBytes))
        writer.gauge(
            "cistern_store_writable", "Whether new responses are written to the cache directory: 0 while its disk refuses writes.",
            store.isWritable ? 1 : 0)
        writer.counter(
            "cistern_store_removals", "Stored responses that were removed, by cause.",
            [
                ("cause=\"evicted\"", Double(store.evicted)), ("cause=\"replaced\"", Double(store.replaced)),
                ("cause=\"invalidated\"", Double(store.invalidated)), ("cause=\"damaged\"", Double(store.damaged)),
            ])
        writer.counter("cistern_store_reinserted", "Stored responses rewritten because they had been used.", UInt64(store.reinserted))
        writer.counter(
            "cistern_store_confirmations_written", "Confirmation times that were written to the store.", UInt64(store.notesWritten))
        writer.gauge(
            "cistern_store_confirmations_pending", "Confirmation times that wait in memory to be written.",
            Double(store.notesWaiting))
        writer.counter(
            "cistern_store_disk_reads", "Stored responses that had to be read from disk, because they were not in memory.",
            UInt64(store.loaded))
        writer.gauge("cistern_store_disk_reads_waiting", "Reads of stored responses in progress.", Double(store.diskReadsWaiting))
        writer.counter("cistern_store_encoded", "Stored contents that were compressed for the store.", UInt64(store.encoded.contents))
        writer.counter(
            "cistern_store_encoded_bytes", "Bytes of contents compressed for the store, before and after.",
            [("form=\"before\"", Double(store.encoded.plainBytes)), ("form=\"after\"", Double(store.encoded.codedBytes))])
        writer.counter("cistern_store_dropped", "Responses not written because the write queue was full.", UInt64(store.dropped))
        writer.counter(
            "cistern_store_write_errors", "Failed attempts to write to the cache directory, by cause.",
            zip(WriteFault.Cause.allCases, store.writeErrorsByCause).map { ("cause=\"\($0.rawValue)\"", Double($1)) })
    }
}
