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
            Line.info(
                "store \(directory): \(found.entries) \(found.entries == 1 ? "entry" : "entries") loaded in \(found.milliseconds) ms\(snapshot)"
            )
        ]
        if found.hasLostKey {
            lines.append(
                .warning(
                    "the file key in \(directory) was missing or damaged: a new key was created, and all stored responses "
                        + "are lost"))
        } else if found.hasForeignRecords {
            lines.append(
                .warning(
                    "cannot read the stored responses in \(directory): they were stored with another key than the one in the file "
                        + "key"))
        }
        if found.overLimit > 0 {
            lines.append(
                .warning("store.size is smaller than the store \(directory): its oldest entries were deleted (\(found.overLimit))"))
        }
        if found.damagedSpans > 0 {
            lines.append(
                .warning(
                    "damaged records in the store \(directory): \(found.damagedSpans). They may have contained a purge or a write, so "
                        + "responses"
                        + " stored before the last of them count as stale"))
        }
        if found.hasOpenKey {
            lines.append(
                .warning(
                    "the file key in \(directory) is readable by other users: it protects users' partitions; set its mode to 0600"))
        }
        if let shortage = WritingReport.shortage(at: directory, limitBytes: cache.store.settings.capacityBytes) {
            lines.append(.warning(shortage))
        }
        let reason = String(cString: strerror(found.error))
        if found.error != 0, let path = found.unreadablePath {
            lines.append(
                .error(
                    "cannot read \(path) (\(reason)): the files of the store are kept as they are, and responses are forwarded and not "
                        + "stored; remove the cause, and restart"))
        } else if found.error != 0 {
            lines.append(
                .error("cannot write to the cache directory \(directory) (\(reason)): responses are forwarded and not stored"))
        }
        self.lines = lines
    }
}
