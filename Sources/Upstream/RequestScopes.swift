// The failure scopes to which a request belongs, and its client as a witness.

import HTTPCore

/// Keys and users are represented by hashes with a secret seed. Created once per request and borrowed by all readers, because copies need
/// reference counting.
public struct RequestScopes: ~Copyable, Sendable {
    /// The path without its query.
    public let path: ArraySlice<UInt8>
    /// The index of the route; nil if no route matches.
    public let route: Int?
    /// Hash of the exact target with its query, the variant, the partition and the host.
    public let key: UInt64
    /// Hash of the route, or of the path up to its last slash. Requests with equal numbers share connections.
    public let family: UInt64
    /// The user; 0 for none.
    public let user: UInt64
    /// The client's address; 0 if it is unknown.
    public let client: UInt64

    /// The client number of Cistern's own probe, which is a separate witness.
    public static let probe = UInt64.max

    /// - Parameters:
    ///   - host: the host in lower case if the upstream receives the client's; otherwise empty. Failures of one host are no evidence about
    ///     others.
    ///   - variant: a number for all other parts of the request that may change its response; 0 for none.
    public init(
        pathAndQuery: ArraySlice<UInt8>, host: [UInt8] = [], variant: UInt64 = 0, route: Int?, user: UInt64, client: UInt64 = 0
    ) {
        let end = pathAndQuery.firstIndex(of: UInt8(ascii: "?")) ?? pathAndQuery.endIndex
        path = pathAndQuery[..<end]
        self.route = route
        (self.user, self.client) = (user, client)
        var hasher = Self.hasher(variant, host, pathAndQuery)
        hasher.combine(user)
        key = Self.number(hasher)
        let directory = Self.directory(of: path)
        family = Self.number(route == nil ? Self.hasher(0, host, directory) : Self.hasher(UInt64((route ?? 0) + 1), host, []))
    }

    /// Creates a copy for the same request.
    public init(_ other: borrowing RequestScopes) {
        (path, route, key, family) = (other.path, other.route, other.key, other.family)
        (user, client) = (other.user, other.client)
    }

    /// The beginning of the path, for display.
    public var shownPath: [UInt8] { Array(path.prefix(FailureMemory.shownBytes)) }

    private static func directory(of path: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        path.lastIndex(of: UInt8(ascii: "/")).map { path[...$0] } ?? path
    }

    private static func hasher(_ number: UInt64, _ host: [UInt8], _ rest: ArraySlice<UInt8>) -> Hasher {
        var hasher = Hasher()
        hasher.combine(number)
        // No host contains a slash, and every path begins with one, so the combination is unambiguous.
        if !host.isEmpty { host.withUnsafeBytes { hasher.combine(bytes: $0) } }
        if !rest.isEmpty { rest.withUnsafeBytes { hasher.combine(bytes: $0) } }
        return hasher
    }

    private static func number(_ hasher: Hasher) -> UInt64 { UInt64(truncatingIfNeeded: hasher.finalize()) }
}

/// A client, as far as it can be identified: by its address, and by its user if these credentials have received a good response before.
struct Witness: Sendable, Equatable {
    let address: UInt64
    /// The user; 0 for none, or for credentials without a good response.
    let user: UInt64

    /// Whether the two are certainly different clients. One address with and without credentials may be one client.
    func isAnother(than other: Witness) -> Bool {
        address != other.address || (user != 0 && other.user != 0 && user != other.user)
    }
}

/// The clients that made an observation. An observation of one client has no effect on other clients.
struct Witnesses: Sendable, Equatable {
    private enum Seen: Equatable {
        case nobody
        case one(Witness)
        case several
    }

    private var seen = Seen.nobody

    mutating func add(_ witness: Witness) {
        switch seen {
        case .nobody: seen = .one(witness)
        case .one(let other) where witness.isAnother(than: other): seen = .several
        case .one(let other) where other.user == 0: seen = .one(witness)
        case .one, .several: break
        }
    }

    /// Whether only one client made the observation.
    var areOne: Bool { if case .one = seen { true } else { false } }

    func areOnly(_ witness: Witness) -> Bool { areOne && counts(for: witness) }

    func counts(for witness: Witness) -> Bool {
        switch seen {
        case .nobody: false
        case .one(let other): !witness.isAnother(than: other)
        case .several: true
        }
    }
}
