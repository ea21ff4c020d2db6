// Remembers beside the store which purges of excluded paths (`cache: off`) this node has announced. Without it, each start would repeat
// them on all nodes.

import HTTPCore
import Reactor
import ResponseCache

/// Callable on any thread, but not on an event loop: it reads and writes a file.
public final class AnnouncedExclusions: Sendable {
    private let files: FleetFiles
    /// Purges that one fleet has seen are unknown to another one.
    private let fleet: [UInt8]
    /// Hashes of the purges of all paths that are excluded now.
    private let wanted = Mutex<Set<UInt64>>([])

    init(_ files: FleetFiles, fleet: String) { (self.files, self.fleet) = (files, Array(fleet.utf8)) }

    /// Returns the purges that have not been announced. Forgets all others than the given ones: if their paths are excluded again, other
    /// nodes may have stored responses meanwhile.
    /// - Parameter selections: the purges of all paths that are excluded now.
    public func unannounced(_ selections: [FleetSelection]) -> [FleetSelection] {
        wanted.withLock { wanted in
            wanted = Set(selections.map(hash))
            let known = files.announcedExclusions()
            let kept = known.intersection(wanted)
            if kept != known { files.keep(announcedExclusions: kept) }
            return selections.filter { !kept.contains(hash($0)) }
        }
    }

    /// Notes purges that were published, or that are stored and will be.
    public func note(_ selections: [FleetSelection]) {
        wanted.withLock { wanted in
            let known = files.announcedExclusions()
            let all = known.union(selections.map(hash)).intersection(wanted)
            if all != known { files.keep(announcedExclusions: all) }
        }
    }

    private func hash(_ selection: FleetSelection) -> UInt64 {
        let bytes = fleet + [0] + selection.bytes
        return ContentHash.number(of: bytes.span)
    }
}
