// Which requests get connections of their own, since a request like them has broken the rules of HTTP/2 on a connection that carried nothing else: a
// path, with any arguments, and a client with whose requests that has happened on several paths. Plain values; the time is passed in.

import HTTPCore

struct KeptApart {
    private struct Mark {
        let number: UInt64
        /// Milliseconds of the loop's clock.
        var until: Int64
        /// Paths of a client.
        var count = 1
    }

    private var paths: [Mark] = []
    private var clients: [Mark] = []

    /// How long a mark counts.
    private static let duration: Int64 = 10 * 60_000
    /// Marks at most. The oldest makes room.
    private static let limit = 64
    /// From so many paths on all requests of the client are kept apart.
    private static let pathsOfClient = 3

    var isEmpty: Bool { paths.isEmpty && clients.isEmpty }

    /// A request like this has broken HTTP/2, and nothing else can have.
    /// - Parameter client: nil if no client waits for it.
    mutating func note(path: UInt64, client: UInt64?, at now: Int64) {
        let isNew = Self.mark(path, in: &paths, at: now)
        if let client, isNew { _ = Self.mark(client, in: &clients, at: now) }
    }

    func holds(path: UInt64, client: UInt64?, at now: Int64) -> Bool {
        if paths.contains(where: { $0.number == path && now < $0.until }) { return true }
        guard let client else { return false }
        return clients.contains { $0.number == client && now < $0.until && $0.count >= Self.pathsOfClient }
    }

    /// Returns whether it is a new one.
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
    /// By which it is kept apart: its target without arguments.
    var pathNumber: UInt64 {
        var hasher = Hasher()
        for byte in target.prefix(while: { $0 != UInt8(ascii: "?") }) { hasher.combine(byte) }
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }
}
