// Requests that get separate connections, because a similar request has broken the HTTP/2 rules on a connection without other exchanges.
// Requests match by path with any query. They match by client if this has happened on several of its paths. Plain values; the time is an
// argument.

import HTTPCore

struct SeparatedRequests {
    private struct Mark {
        let number: UInt64
        /// End of the mark, in milliseconds of the loop's clock.
        var until: Int64
        /// For a client: number of paths.
        var count = 1
    }

    private var paths: [Mark] = []
    private var clients: [Mark] = []

    /// Lifetime of a mark in milliseconds.
    private static let duration: Int64 = 10 * 60_000
    /// Maximum number of marks. A new one replaces the oldest.
    private static let limit = 64
    /// Number of marked paths after which all requests of a client get separate connections.
    private static let pathsOfClient = 3

    var isEmpty: Bool { paths.isEmpty && clients.isEmpty }

    /// Records that a request was alone on a connection and broke the HTTP/2 rules.
    /// - Parameter client: nil if no client waits for the request.
    mutating func note(path: UInt64, client: UInt64?, at now: Int64) {
        let isNew = Self.mark(path, in: &paths, at: now)
        if let client, isNew { _ = Self.mark(client, in: &clients, at: now) }
    }

    func holds(path: UInt64, client: UInt64?, at now: Int64) -> Bool {
        if paths.contains(where: { $0.number == path && now < $0.until }) { return true }
        guard let client else { return false }
        return clients.contains { $0.number == client && now < $0.until && $0.count >= Self.pathsOfClient }
    }

    /// Returns whether the mark is new.
    private static func mark(_ number: UInt64, in marks: inout [Mark], at now: Int64) -> Bool {
        marks.removeAll { now >= $0.until }
        if let index = marks.firstIndex(where: { $0.number == number }) {
            marks[index].until = now + duration
            marks[index].count += 1
            return false
        }
        if marks.count == limit { marks.removeFirst() }
        marks.append(Mark(number: number, until: now + duration))
        return true
    }
}

extension UpstreamRequest {
    /// Hash of the target without its query.
    var pathNumber: UInt64 {
        var hasher = Hasher()
        for byte in target.prefix(while: { $0 != UInt8(ascii: "?") }) { hasher.combine(byte) }
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }
}
