// Log lines about the result of opening the store.

import CacheStore
import Glibc

public struct OpeningReport: Sendable {
    public enum Line: Sendable, Equatable {
        case info(String)
        case warning(String)
        case error(String)
    }

    public let lines: [Line]

    public init(_ cache: APICacheState) {
        let (directory, found) = (cache.directory, cache.store.statistics.opening)
        let snapshot = found.isFromSnapshot ? " from the snapshot" : ""
        var lines = [
            Line.info("store \(directory): \(found.entries) entries found in \(found.milliseconds) ms\(snapshot)")
        ]
        if found.hasLostKey {
            lines.append(.warning("the file key in \(directory) was missing or damaged: a new one was made, and what was kept is lost"))
        } else if found.hasForeignRecords {
            lines.append(
                .warning("nothing that is kept in \(directory) can be read: it was kept under another key than that in the file key"))
        }
        if found.damagedSpans > 0 {
            lines.append(
                .warning(
                    "damaged places in the store \(directory): \(found.damagedSpans). A purge or a write may have been kept there, so what was"
                        + " stored before the last of them counts as stale"))
        }
        if found.hasOpenKey {
            lines.append(
                .warning(
                    "the file key in \(directory) can be read by others: it tells users' partitions apart and should have mode 0600"))
        }
        if let shortage = WritingReport.shortage(at: directory, limitBytes: cache.store.settings.capacityBytes) {
            lines.append(.warning(shortage))
        }
        if found.error != 0 {
            let reason = String(cString: strerror(found.error))
            lines.append(
                .error("the cache directory \(directory) cannot be written to (\(reason)): responses are passed on and not kept"))
        }
        self.lines = lines
    }
}
