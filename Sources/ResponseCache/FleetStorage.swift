// The interface to the store that the nodes of a fleet share, used by the cache and by request handling. Module `Sharing` implements it; a
// node without a fleet has `NoFleetStorage`.

import CachePolicy
import CacheStore
import HTTPCore
import Identity

/// One instance for each event loop, used on that loop only.
public protocol FleetStorage: AnyObject {
    /// Whether this node belongs to a fleet.
    var isShared: Bool { get }

    /// Maximum length of shared content in bytes.
    var contentLimitBytes: Int { get }

    // MARK: Lookups

    /// Returns why a lookup would be useless now; nil if it may find a response.
    func obstacle(for keys: TargetKeys) -> FleetObstacle?

    /// Looks up a response and stores it in `cache`. Ends after the lookup timeout or, if another node has the lease, after `wait`.
    /// - Parameter wait: maximum wait for another node's lease, in milliseconds; nil: the lookup takes no lease.
    func search(_ lookUp: FleetLookUp, in cache: ResponseCache, wait: Int64?, for waiter: any FleetWaiter)

    // MARK: Leases

    /// Whether every request for the key must be sent, because the last response could not be shared or the upstream failed.
    func isForEachRequest(_ key: [UInt8]) -> Bool

    /// Ends the lease on `key`: the holder's request has ended, or its response cannot be shared.
    /// - Parameter key: key under which the response was to be stored.
    func ended(_ key: [UInt8], _ end: LeaseEnd, by client: UInt64)

    // MARK: Offers

    /// Returns whether records are accepted now. If not, the caller need not build a key; the rejected offer is counted.
    func mayOffer() -> Bool

    /// Offers a response that was just stored to the other nodes. Does not block.
    /// - Parameter key: key to use instead of the item's own.
    func offer(_ item: NewItem, as key: [UInt8], _ recency: Recency)

    /// Publishes that a write has invalidated responses, to all nodes.
    /// - Parameters:
    ///   - marks: keys of the local marks of this write. They contain no credentials.
    ///   - isDoubtful: whether the outcome of the write is unclear. Stored responses then become stale and are kept.
    func invalidated(_ marks: [[UInt8]], isDoubtful: Bool)

    /// Publishes that a write may have changed the users of tokens, to all nodes.
    /// - Parameters:
    ///   - tokens: their hashes (`RequestKeyMaker.announcedTokens`).
    ///   - isLost: whether no response arrived, so that the upstream may still process the write.
    func invalidated(identitiesOf tokens: [[UInt8]], isLost: Bool)

    /// Number of the last published write of this loop.
    var lastAnnounced: UInt64 { get }

    /// Whether a published write is not in the log yet.
    var isAwaited: Bool { get }

    /// Waits until all writes so far are in the log, for the look-up timeout at most.
    /// - Parameter then: called on the loop; whether the writes since `former` (an earlier `lastAnnounced`) are in the log.
    func whenPropagated(since former: UInt64, _ then: @escaping (_ isPropagated: Bool) -> Void)
}

/// The level of a node that shares nothing.
public final class NoFleetStorage: FleetStorage, Sendable {
    public static let instance = NoFleetStorage()

    public let isShared = false
    public let contentLimitBytes = Int.max
    public let lastAnnounced: UInt64 = 0
    public let isAwaited = false

    public func obstacle(for keys: TargetKeys) -> FleetObstacle? { nil }
    public func search(_ lookUp: FleetLookUp, in cache: ResponseCache, wait: Int64?, for waiter: any FleetWaiter) {
        _ = waiter.fleetLookUpEnded(.missing, nil)
    }
    public func isForEachRequest(_ key: [UInt8]) -> Bool { false }
    public func ended(_ key: [UInt8], _ end: LeaseEnd, by client: UInt64) {}
    public func mayOffer() -> Bool { false }
    public func offer(_ item: NewItem, as key: [UInt8], _ recency: Recency) {}
    public func invalidated(_ marks: [[UInt8]], isDoubtful: Bool) {}
    public func invalidated(identitiesOf tokens: [[UInt8]], isLost: Bool) {}
    public func whenPropagated(since former: UInt64, _ then: @escaping (_ isPropagated: Bool) -> Void) { then(true) }
}

public enum LeaseEnd: Sendable, Equatable {
    /// Another node may take the lease.
    case free
    /// A stored response was served. Its record may still be on its way from another shard, so the lease is not removed and expires.
    case served
    /// The response is stored here. If it was not offered to other nodes, each node sends its own request.
    case stored
    case eachNode
    case eachRequest
}

/// A request that waits for a lookup, on its loop.
public protocol FleetWaiter: AnyObject {
    /// Number that represents the client's address; 0 if the client has none.
    var clientNumber: UInt64 { get }

    /// - Parameter refusal: why the last record was refused.
    /// - Returns: whether a client still waits for the response.
    func fleetLookUpEnded(_ outcome: FleetOutcome, _ refusal: FleetRefusal?) -> Bool

    /// Called when the request begins to wait for another node's lease.
    func fleetWaits()

    /// Called when a response was stored after `fleetLookUpEnded`.
    func fleetResponseCameLate()
}

/// A record in the shared level: a response or a Vary marker.
public struct FleetRecord: Sendable {
    /// Equal on all nodes of a fleet: the cache key, with credentials hashed by the fleet's secret.
    public var key: [UInt8]
    public var metadata: [UInt8]
    public var head: [UInt8]
    public var body: ItemBody

    public init(key: [UInt8], metadata: [UInt8], head: [UInt8], body: ItemBody) {
        (self.key, self.metadata, self.head, self.body) = (key, metadata, head, body)
    }
}

/// Position of a response in the shared level, with the corresponding local key.
public struct FleetLocation: Sendable, Equatable {
    /// Index of the fleet secret with which the key is made.
    public let secret: Int
    /// Key of the record in the shared level.
    public internal(set) var key: [UInt8]
    /// Key in this node's store; for a variant, the key of its marker.
    var localKey: [UInt8]
    var isCommon: Bool
    /// Whether only a response that serves all requests, whatever unknown fields they have, may be used.
    var isForAll = false
    /// For a variant, the encoded names of the selecting fields; otherwise empty.
    var names: [UInt8] = []
}

/// A lookup that continues in the shared level. A class, because it is passed along often.
public final class FleetLookUp: Sendable {
    public let head: RequestHead
    public let keys: TargetKeys
    /// The first location is that of the response to store.
    public let locations: [FleetLocation]
    /// `good` and `keep_if` of the target's route.
    let (good, kept): (GoodResponse, GoodResponse)

    init(head: RequestHead, keys: TargetKeys, locations: [FleetLocation], good: GoodResponse, kept: GoodResponse) {
        (self.head, self.keys, self.locations, self.good, self.kept) = (head, keys, locations, good, kept)
    }
}

/// Returns a hash of credentials: 16 bytes that reveal nothing about them.
public typealias CredentialHash = @Sendable (_ parts: [UInt8]) -> [UInt8]

/// The cache's settings for its fleet.
public struct FleetMembership: Sendable {
    /// Hashes with the secrets of the fleet: the current one, which is used for writing records, and during rotation the other one.
    let hashes: [CredentialHash]
    public let logLink: FleetLogLink
    /// Length in bytes of the hash of a token in the log. A collision ends the look-up result of another token.
    public static let tokenBytes = 8
    /// Seals the credentials of purged users; nil if that is not possible.
    let sealing: FleetSealing?
    /// `FleetLogLink.blindPeriod` at the present time.
    public let blindPeriod: BlindPeriod

    public init(
        _ hashes: [CredentialHash], _ logLink: FleetLogLink, _ sealing: FleetSealing? = nil, blindPeriod: @escaping BlindPeriod = { nil }
    ) {
        (self.hashes, self.logLink, self.sealing, self.blindPeriod) = (hashes, logLink, sealing, blindPeriod)
    }
}

/// Result of processing a record from the shared level.
public enum TakingResult: Sendable, Equatable {
    /// The response is now stored locally.
    case taken
    /// The record is a Vary marker that refers to this location.
    case leads(to: FleetLocation)
    /// The local response is as recent, a mark invalidates the record, or the record is invalid.
    case notTaken
    /// The response fails `good` or `keep_if` of the route, or is worse than the local good response.
    case notGood
}
