// Passes the users that lookups have identified from a process that stops to the next one, which uses them for rescues. A process
// that uses the store deletes the file when it starts. After a crash there is none, because a write before the crash may have changed the
// user of a session.

import Glibc
import Identity
import Reactor
import ResponseCache

public struct RememberedIdentities {
    /// Maximum length of the file in bytes.
    private static let limitBytes = 64 << 20
    private static let digestBytes = 32
    private static let numberBytes = 8

    private let path: String
    private let directory: String
    private let isOfFleet: Bool
    private let apis: [APIState]
    private let cache: APICacheState

    /// nil if nothing is stored.
    /// - Parameter isOfFleet: whether other nodes serve the users while this process does not run. They may change the users of sessions.
    public init?(of apis: [APIState], isOfFleet: Bool) {
        guard let store = apis.lazy.compactMap(\.settings.store).first, let cache = apis.lazy.compactMap(\.cache).first else { return nil }
        (path, directory, self.apis, self.cache) = (store.path(of: "identities"), store.path(of: "."), apis, cache)
        self.isOfFleet = isOfFleet
    }

    /// Writes the file. Called when all requests have ended and no successor runs.
    /// - Parameter now: milliseconds since 1970.
    public func write(now: Int64) {
        let tables = tables
        guard !isOfFleet, !tables.isEmpty else { return }
        var content = Self.bytes(now)
        for (name, table) in tables {
            let records = table.remembered()
            content += name + Self.bytes(Int64(records.count)) + records
        }
        _ = WholeWrite.replace(path, with: cache.contentDigest(content) + content)
    }

    /// Deletes the file and adopts its users, before any request is served.
    public func take(now: Int64) {
        let file = FileContent.read(path, limit: Self.limitBytes, .own)
        // Otherwise a crash could restore the file.
        guard unlink(path) == 0, isDirectoryWritten(), !isOfFleet, let file, file.count >= Self.digestBytes + Self.numberBytes
        else { return }
        var rest = file[Self.digestBytes...]
        guard cache.contentDigest(Array(rest)).elementsEqual(file[..<Self.digestBytes]) else { return }
        let stopped = Self.number(&rest)
        var records: [[UInt8]: ArraySlice<UInt8>] = [:]
        while rest.count >= Self.digestBytes + Self.numberBytes {
            let name = Array(rest.prefix(Self.digestBytes))
            rest = rest.dropFirst(Self.digestBytes)
            let count = max(0, Int(Self.number(&rest)))
            records[name] = rest.prefix(count)
            rest = rest.dropFirst(count)
        }
        // Meanwhile, requests may have reached the upstream another way, and changed the users of their sessions.
        for (name, table) in tables where (0...table.settings.keep).contains(now - stopped) {
            if let records = records[name] { table.adopt(records, now: now) }
        }
    }

    /// The tables, each with a digest of the settings on which its results depend.
    private var tables: [(name: [UInt8], table: LookedUpIdentities)] {
        apis.flatMap { api in
            api.cacheSettings.lookUps.enumerated().map { index, table in
                let (settings, facts) = (table.settings, api.settings.sharingFacts.sorted())
                let words = [api.name, "\(index)", settings.path] + settings.pointers + [""] + settings.fields + [""] + facts
                return (cache.contentDigest(Array(words.joined(separator: "\n").utf8)), table)
            }
        }
    }

    private func isDirectoryWritten() -> Bool {
        let opened = Descriptor(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
        return opened.isOpen && fsync(opened.number) == 0
    }

    private static func bytes(_ number: Int64) -> [UInt8] { (0..<numberBytes).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } }

    private static func number(_ rest: inout ArraySlice<UInt8>) -> Int64 {
        defer { rest = rest.dropFirst(numberBytes) }
        return Int64(bitPattern: rest.prefix(numberBytes).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
    }
}
