// The store's families on the page at /metrics.

import CacheStore
import Telemetry

extension StoreStatistics {
    func write(to writer: inout MetricsWriter) {
        writer.gauge("cistern_store_bytes", "Bytes of the store's segment files.", Double(fileBytes))
        writer.gauge("cistern_store_limit_bytes", "The limit on the store's files.", Double(capacityBytes))
        writer.gauge("cistern_store_entries", "Stored responses.", Double(entries))
        writer.gauge("cistern_store_pending_bytes", "Bytes that wait to be written.", Double(pendingBytes))
        writer.gauge("cistern_store_writable", "Whether the cache directory can be written to.", isWritable ? 1 : 0)
        writer.counter(
            "cistern_store_removals", "Stored responses that are no more, by cause.",
            [
                ("cause=\"evicted\"", Double(evicted)), ("cause=\"replaced\"", Double(replaced)),
                ("cause=\"invalidated\"", Double(invalidated)), ("cause=\"damaged\"", Double(damaged)),
            ])
        writer.counter("cistern_store_reinserted", "Stored responses written again because they had been used.", UInt64(reinserted))
        writer.counter(
            "cistern_store_disk_reads", "Stored responses that were not in memory when they were wanted, and read from the disk first.",
            UInt64(broughtIn))
        writer.gauge("cistern_store_disk_reads_waiting", "Of these, reads that have not ended.", Double(diskReadsWaiting))
        writer.counter("cistern_store_dropped", "Responses not written because too much waited.", UInt64(dropped))
        writer.counter("cistern_store_write_errors", "Writes that the disk did not take.", UInt64(writeErrors))
    }
}
