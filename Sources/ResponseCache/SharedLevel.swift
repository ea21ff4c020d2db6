// The level behind the store that the nodes of a fleet fill together: what the cache asks of it, and what goes over. Which engine that is, how
// records are sealed and who may take which, is not known here.

import CachePolicy
import CacheStore
import HTTPCore

/// One for each thread that stores responses, touched on that thread only.
public protocol SharedLevel: AnyObject {
    /// The longest content that goes over, bytes.
    var contentLimitBytes: Int { get }

    /// Whether anything can be given now: whoever is told no need not make a key for it. Counted where not.
    func mayOffer() -> Bool

    /// Gives others what has just been stored here. Nobody waits for it.
    /// - Parameter key: in the place of the item's own.
    func offer(_ item: NewItem, as key: [UInt8], _ recency: Recency)

    /// A write has made something invalid, on all nodes.
    /// - Parameters:
    ///   - marks: keys of the local marks of this write. They contain no credentials.
    ///   - isDoubtful: whether a login or a captive portal answered the write. Stored responses then become stale and are kept.
    func invalidated(_ marks: [[UInt8]], isDoubtful: Bool)
}

/// What lies in the shared level for one place: a response, or the marker that leads to variants.
public struct SharedRecord: Sendable {
    /// The same on all nodes of a fleet: the cache key, with credentials hashed by the fleet's secret.
    public var key: [UInt8]
    public var metadata: [UInt8]
    public var head: [UInt8]
    public var body: ItemBody

    public init(key: [UInt8], metadata: [UInt8], head: [UInt8], body: ItemBody) {
        (self.key, self.metadata, self.head, self.body) = (key, metadata, head, body)
    }
}

/// Where a request's response may lie in the shared level.
public struct SharedPlace: Sendable, Equatable {
    /// Of the fleet's secrets, the one by which the key is made.
    public let secret: Int
    /// As all nodes know it.
    public internal(set) var key: [UInt8]
    /// As this node's store does; of a variant, that of its marker.
    var localKey: [UInt8]
    var isCommon: Bool
    /// Only a response for all requests is looked for, whatever unknown fields they have.
    var isForAll = false
    /// Of a variant the names of the selecting fields, as markers have them; else empty.
    var names: [UInt8] = []
}

/// A look-up that goes on in the shared level. A reference, since it goes through many hands.
public final class SharedLookUp: Sendable {
    public let head: RequestHead
    public let keys: TargetKeys
    /// The first is where it would be stored.
    public let places: [SharedPlace]
    /// `good` and `keep_if` of the target's route.
    let (good, kept): (GoodResponse, GoodResponse)

    init(head: RequestHead, keys: TargetKeys, places: [SharedPlace], good: GoodResponse, kept: GoodResponse) {
        (self.head, self.keys, self.places, self.good, self.kept) = (head, keys, places, good, kept)
    }
}

/// How credentials are hashed for all nodes of a fleet: by its secret, and by the one that it has in its place while secrets are changed.
public struct FleetHashing: Sendable {
    public typealias Hash = @Sendable (_ parts: [UInt8]) -> [UInt8]
    /// Beginning with the one by which records are written.
    let hashes: [Hash]

    /// - Parameter hashes: each makes 16 bytes that tell nothing about what they are made of.
    public init(_ hashes: [Hash]) { self.hashes = hashes }
}

/// What the cache knows of the fleet that it belongs to.
public struct FleetMembership: Sendable {
    public let hashing: FleetHashing
    public let sight: FleetSight

    public init(_ hashing: FleetHashing, _ sight: FleetSight) { (self.hashing, self.sight) = (hashing, sight) }
}

/// What became of a record that was found in the shared level.
public enum TakingResult: Sendable, Equatable {
    /// It is stored here.
    case taken
    /// A marker that leads on.
    case leads(to: SharedPlace)
    /// What is stored here is as recent, a mark concerns it, or it is not what it should be.
    case notTaken
    /// The response fails `good` or `keep_if` of the route, or is worse than the local good copy.
    case notGood
}
