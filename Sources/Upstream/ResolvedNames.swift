// Addresses of the upstreams' DNS names. Names in use are resolved regularly, off the event loops. After a failed or unanswered lookup the
// last result remains valid.

import Glibc
import Reactor

/// A function that resolves a name. Blocks the calling thread.
public struct NameLookUp: Sendable {
    /// Returns the addresses in order of preference, and the result of getaddrinfo(3).
    let find: @Sendable (String) -> (addresses: [NamedAddress]?, code: Int32)

    /// - Parameter find: returns the addresses; nil on failure.
    public init(_ find: @escaping @Sendable (String) -> [NamedAddress]?) {
        self.find = { name in
            let addresses = find(name)
            return (addresses, addresses == nil ? EAI_AGAIN : 0)
        }
    }

    /// - Parameter find: returns the addresses and the result of getaddrinfo(3).
    public init(withCode find: @escaping @Sendable (String) -> (addresses: [NamedAddress]?, code: Int32)) { self.find = find }

    /// getaddrinfo(3). Names below `localhost` need no entry in the hosts file (RFC 6761 §6.3).
    public static let system = NameLookUp(withCode: { host in
        let name = host.hasSuffix(".") ? host.dropLast().lowercased() : host.lowercased()
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        // Without an IPv6 route, ::1 is still an address of localhost.
        hints.ai_flags = name == "localhost" ? 0 : AI_ADDRCONFIG
        var first: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, nil, &hints, &first)
        guard code == 0 else {
            let isLocal = name == "localhost" || name.hasSuffix(".localhost")
            return isLocal ? (["::1", "127.0.0.1"].compactMap { NamedAddress($0) }, 0) : (nil, code)
        }
        defer { freeaddrinfo(first) }
        var found: [NamedAddress] = []
        var next = first
        while let one = next {
            if let address = one.pointee.ai_addr.flatMap({ NamedAddress($0) }), !found.contains(address) { found.append(address) }
            next = one.pointee.ai_next
        }
        return (found, 0)
    })
}

/// Resolves each name once for all shards and APIs of the process. Thread-safe.
public final class ResolvedNames: Sendable {
    public static let shared = ResolvedNames(.system)

    private struct Name {
        /// The last two results.
        var last: [NamedAddress] = []
        var before: [NamedAddress]?
        /// Start of the last look-up.
        var begunAt: Int64
        /// Number of active look-ups.
        var active = 1
        var hasFailed = false
        /// Callbacks for an answer, or the end of all active look-ups: one for each waiting connection attempt.
        var waiting: [@Sendable () -> Void] = []
        /// Last result of getaddrinfo(3); nil before the first look-up.
        var code: Int32?
    }

    private struct State {
        var names: [String: Name] = [:]
        var found: UInt64 = 0
        var failed: UInt64 = 0
    }

    /// Milliseconds after which a look-up is started beside an active one, and the maximum number of active ones.
    private static let patience: Int64 = 1_000
    private static let activeLimit = 16

    private let lookUp: NameLookUp
    private let state = Mutex(State())

    public init(_ lookUp: NameLookUp) { self.lookUp = lookUp }

    /// Starts a look-up of a name if the last one began at least an interval ago, or if there was none. Beside an active one, that happens
    /// only after `patience`: its name server may respond again, and its own repetition may take seconds.
    /// - Parameters:
    ///   - interval: milliseconds.
    ///   - now: milliseconds of the loops' clock.
    func refresh(_ host: String, interval: Int64, now: Int64) {
        let isDue = state.withLock { state in
            guard var name = state.names[host] else {
                state.names[host] = Name(begunAt: now)
                return true
            }
            let wait = name.active == 0 ? interval : max(interval, Self.patience)
            guard now - name.begunAt >= wait, name.active < Self.activeLimit else { return false }
            (name.begunAt, name.active) = (now, name.active + 1)
            state.names[host] = name
            return true
        }
        guard isDue else { return }
        let isRunning = PlainThread.start { [self] in
            let found = lookUp.find(host)
            note(found.addresses, found.code, of: host)
        }
        // No thread could be created. A later call will try again.
        if !isRunning { note(nil, EAI_SYSTEM, of: host) }
    }

    private func note(_ answer: [NamedAddress]?, _ code: Int32, of host: String) {
        let waiting = state.withLock { state -> [@Sendable () -> Void] in
            guard var name = state.names[host] else { return [] }
            name.active -= 1
            name.code = code
            if let answer, !answer.isEmpty {
                name.before = name.last.isEmpty ? nil : name.last
                (name.last, name.hasFailed) = (answer, false)
                state.found += 1
            } else {
                name.hasFailed = true
                state.failed += 1
            }
            let ended = name.active == 0 || answer?.isEmpty == false ? name.waiting : []
            if !ended.isEmpty { name.waiting = [] }
            state.names[host] = name
            return ended
        }
        for then in waiting { then() }
    }

    /// The last known addresses; empty if there are none.
    func addresses(of host: String) -> [NamedAddress] { state.withLock { $0.names[host]?.last ?? [] } }

    /// Whether the last completed look-up failed.
    func hasFailed(_ host: String) -> Bool { state.withLock { $0.names[host]?.hasFailed ?? false } }

    /// Calls `then` on a look-up's thread when one has an answer, or when all active ones have ended; at once if none is active.
    func whenEnded(_ host: String, _ then: @escaping @Sendable () -> Void) {
        let isUnderWay = state.withLock { state in
            guard state.names[host].map({ $0.active > 0 }) == true else { return false }
            state.names[host]?.waiting.append(then)
            return true
        }
        if !isUnderWay { then() }
    }

    /// Result of getaddrinfo(3) for a name that was not found; nil if it was found, or not looked up yet.
    func failure(of host: String) -> Int32? {
        state.withLock { $0.names[host].flatMap { name in name.code.flatMap { $0 == 0 ? nil : $0 } } }
    }

    /// The addresses in the last two results; nil until there are two. Two results are needed because name servers may return a different
    /// part of many addresses each time.
    func lately(_ host: String) -> Set<NamedAddress>? {
        state.withLock { state in
            guard let name = state.names[host], let before = name.before else { return nil }
            return Set(name.last).union(before)
        }
    }

    /// Number of successful and of failed look-ups.
    public var counts: (found: UInt64, failed: UInt64) { state.withLock { ($0.found, $0.failed) } }
}

extension ResolvedNames: Equatable {
    public static func == (one: ResolvedNames, other: ResolvedNames) -> Bool { one === other }
}
