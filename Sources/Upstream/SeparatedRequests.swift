// Requests that get separate connections over HTTP/2, because a similar request may have ended a connection that others used too. Requests
// match by path with any query. They match by client if this has happened several times. Plain values; the time is an argument.
//
// If a request was alone on a connection that broke the HTTP/2 rules, it is the cause. If a shared connection ended, each request without a
// complete response may be the cause. These are suspected for a short time, which doubles with each further connection.

import HTTPCore

struct SeparatedRequests {
    /// Why a request gets a separate connection.
    enum Evidence: Equatable {
        /// A similar request had no complete response when a shared connection ended.
        case suspicion
        /// A similar request broke the HTTP/2 rules.
        case proof
    }

    private struct Mark {
        let number: UInt64
        /// End of the mark, in milliseconds of the loop's clock.
        var until: Int64
        /// For a client: number of paths.
        var count = 1
    }

    /// A path or client with a request that had no complete response when a shared connection ended.
    private struct Suspect {
        /// Number of such connections, each within `duration` of the end of the previous suspicion.
        var count = 0
        /// Number of such connections at which the suspicion begins.
        let least: Int
        /// End of the suspicion, in milliseconds of the loop's clock. Before it begins, the time of the last connection.
        var until: Int64

        /// Extends the suspicion.
        mutating func extend(at now: Int64) {
            until = count < least ? now : now + min(SeparatedRequests.duration, SeparatedRequests.suspicion << min(count - least, 6))
        }
    }

    private var paths: [Mark] = []
    private var clients: [Mark] = []
    private var suspectedPaths: [UInt64: Suspect] = [:]
    private var suspectedClients: [UInt64: Suspect] = [:]
    /// Time from which no request gets a separate connection, in milliseconds of the loop's clock.
    private var end = Int64.min

    /// Lifetime of a mark, and of the memory of a suspicion, in milliseconds.
    private static let duration: Int64 = 10 * 60_000
    /// First duration of a suspicion in milliseconds.
    private static let suspicion: Int64 = 15_000
    /// Maximum number of marks. A new one replaces the oldest.
    private static let limit = 64
    /// Maximum number of suspected paths, and of suspected clients. It exceeds the requests of some connections.
    private static let suspectLimit = 512
    /// Number of marked paths, or of ended connections, after which all requests of a client get separate connections.
    private static let countOfClient = 3

    /// Whether any request gets a separate connection.
    func isActive(at now: Int64) -> Bool { now < end }

    /// Records that a request was alone on a connection and broke the HTTP/2 rules.
    /// - Parameter client: nil if no client waits for the request.
    mutating func note(path: UInt64, client: UInt64?, at now: Int64) {
        let isNew = Self.mark(path, in: &paths, at: now)
        if let client, isNew { _ = Self.mark(client, in: &clients, at: now) }
        end = max(end, now + Self.duration)
    }

    /// Records that a shared connection ended on which these paths and clients had no complete response.
    mutating func suspect(paths: Set<UInt64>, clients: Set<UInt64>, at now: Int64) {
        for path in paths { suspect(path, in: \.suspectedPaths, from: 1, at: now) }
        for client in clients { suspect(client, in: \.suspectedClients, from: Self.countOfClient, at: now) }
    }

    /// Records that a suspected request ended its separate connection. The suspicion lasts longer. The request has harmed no other one, so
    /// the connection does not count.
    mutating func confirm(path: UInt64, client: UInt64?, at now: Int64) {
        suspectedPaths[path]?.extend(at: now)
        if let client { suspectedClients[client]?.extend(at: now) }
        end = max(end, suspectedPaths[path]?.until ?? end, client.flatMap { suspectedClients[$0]?.until } ?? end)
    }

    /// Returns why a request must get a separate connection; nil if it need not.
    func evidence(path: UInt64, client: UInt64?, at now: Int64) -> Evidence? {
        if paths.contains(where: { $0.number == path && now < $0.until }) { return .proof }
        if let client, clients.contains(where: { $0.number == client && now < $0.until && $0.count >= Self.countOfClient }) {
            return .proof
        }
        let isSuspect = now < suspectedPaths[path]?.until ?? .min || now < client.flatMap { suspectedClients[$0]?.until } ?? .min
        return isSuspect ? .suspicion : nil
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

    private mutating func suspect(
        _ number: UInt64, in suspects: WritableKeyPath<Self, [UInt64: Suspect]>, from least: Int, at now: Int64
    ) {
        if self[keyPath: suspects][number] == nil, self[keyPath: suspects].count >= Self.suspectLimit {
            let oldest = self[keyPath: suspects].min { $0.value.until < $1.value.until }
            if let oldest { self[keyPath: suspects][oldest.key] = nil }
        }
        var suspect = self[keyPath: suspects][number] ?? Suspect(least: least, until: now)
        if now - suspect.until >= Self.duration { suspect.count = 0 }
        suspect.count += 1
        suspect.extend(at: now)
        self[keyPath: suspects][number] = suspect
        end = max(end, suspect.until)
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
