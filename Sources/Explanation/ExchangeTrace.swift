// The data recorded for one exchange, from which it can be explained later. It consists of numbers and small enums, without references or
// allocations, so that recording a hit costs almost nothing. `WhyExplanation` generates the sentences on request.

import Addresses
import CachePolicy
import Decisions
import Figures
import HTTPCore
import Upstream

/// Result of the lookup in the store.
public enum FoundKind: UInt8, Sendable {
    case notLookedUp, nothing, otherVariant, stored
}

public struct ExchangeTrace: Sendable {
    /// The lookup, and properties of the response that was found.
    public struct Found: Sendable {
        public var kind = FoundKind.notLookedUp
        /// Seconds; -1 if the response gave none, or none was found.
        public var lifetime: Int64 = -1
        public var age: Int64 = -1
        /// Origin of the lifetime, and whether the operator's rules ignored a directive of the response.
        public var lifetimeSource = LifetimeSource.response
        public var isDisregarded = false
        /// The response states that the resource is gone: received from the upstream and stored, or served from the store.
        public var isGone = false
        /// Number of reads from disk that were needed before the exchange could continue.
        public var diskReads: UInt8 = 0
        /// Number of a field that prevented a hit; 0 if none did.
        public var unknownField: UInt8 = 0
        /// Result of the lookup in the fleet's shared store; nil if there was none.
        public var shared: SharedReply?
        /// Why that lookup was skipped; nil if it was not.
        public var obstacle: SharedObstacle?
    }

    /// The upstream's part of the exchange.
    public struct Upstream: Sendable {
        /// Time until the upstream's response arrived or failed; -1 if no request was sent.
        public var microseconds: Int64 = -1
        public var times = TransferTimes()
        /// Protocol of the connection that was used; nil if there was none.
        public var spoken: SpokenProtocol?
        /// Status of the upstream's response; 0 if there was none.
        public var status: UInt16 = 0
        /// Index of the upstream address that responded.
        public var address: UInt8 = 0
        public var failure: FetchFailure?
        /// Whether a fault was injected.
        public var isFaulted = false
        /// Soft deadline in milliseconds if the request is known to be slow; else 0.
        public var patience: UInt32 = 0
    }

    /// Reasons for what was done.
    public struct Reasons: Sendable {
        /// Whether the request required validation, and the operator's settings ignored that.
        public var isClientIgnored = false
        public var bypass: BypassReason?
        public var validation: ValidationReason?
        /// Why the stored response counts as stale because of other nodes; nil if it does not.
        public var doubt: FleetDoubt?
        public var notStored: NotStoredReason?
        public var notRescued: NoRescueReason?
        /// What permitted serving a response stored without credentials, or why it was not served.
        public var sharedPermission: SharedCopyPermission?
        public var notStoodIn: NoSharedRescueReason?
        /// Violation of the operator's requirements by a response that was forwarded; nil if none.
        public var fault: UpstreamFault?
        /// Why Cistern responded itself without contacting the upstream; nil if it did not.
        public var refusal: Refusal?
        /// Whether the response got its CORS fields for the request's origin from the last good response.
        public var carriesGrant = false
        /// Cistern's own answer to a preflight; nil if it gave none.
        public var preflight: CrossOriginRules.Verdict?
    }

    /// The request's content.
    public struct Content: Sendable {
        /// How the content was handled; nil if the request had none.
        public var outcome: ContentOutcome?
        /// Time from the request's head until its content was complete; -1 if unknown.
        public var microseconds: Int64 = -1
    }

    /// Information about a fetch without a waiting client.
    public struct Background: Sendable {
        public let cause: BackgroundCause
        /// Number of the exchange that started the fetch.
        public let behind: UInt64

        public init(cause: BackgroundCause, behind: UInt64) { (self.cause, self.behind) = (cause, behind) }
    }

    /// Number of the exchange on its shard; identifies it together with the shard's number.
    public var number: UInt64 = 0
    /// Time at the end of the exchange, in milliseconds since 1970.
    public var wall: Int64 = 0
    public var durationMicroseconds: Int64 = 0
    public var bodyBytes = 0
    public var found = Found()
    public var upstream = Upstream()
    public var content = Content()
    /// Address of the client; nil for a Unix socket.
    public var client: IPAddress?
    /// Protocol version of the client's request; nil for background fetches.
    public var version: HTTPVersion?
    /// First bytes of the keyed hash of the credentials; 0 without credentials.
    public var partition: UInt32 = 0
    /// Result of identifying the user; nil if this was not attempted.
    public var identity: IdentityOutcome?
    public var status: UInt16 = 0
    public var targetCount: UInt16 = 0
    /// Index of the API, or `noAPI`.
    public var api: UInt16 = 0
    /// For a request that belongs to none of several APIs.
    public static let noAPI = UInt16.max
    /// Index of the route in its API, or `noRoute`.
    public var route = noRoute
    /// For a request that was answered before its route was determined.
    public static let noRoute = UInt16.max
    public var method = MethodLabel.other
    public var result = CacheResult.miss
    public var mode = ServingMode.live
    public var isStored = false
    public var reasons = Reasons()
    /// nil for a client's exchange.
    public var background: Background?

    public init() {}
}

extension ExchangeTrace {
    public mutating func noteDiskRead() { if found.diskReads < .max { found.diskReads += 1 } }

    /// Adds the data that are available only at the end of the exchange.
    public mutating func complete(
        by record: borrowing ExchangeRecord, of client: IPAddress? = nil, _ version: HTTPVersion? = nil, wall: Int64
    ) {
        self.wall = wall
        (self.client, self.version) = (client, version)
        durationMicroseconds = record.durationMicroseconds
        upstream.microseconds = record.upstreamMicroseconds ?? -1
        content.microseconds = record.contentMicroseconds ?? -1
        bodyBytes = record.bodyBytes
        status = record.status
        method = record.method
        result = record.result
    }

    /// - Parameter offset: offset of the partition in the shard's keys, after its length.
    public static func partition(in key: [UInt8], at offset: Int) -> UInt32 {
        guard offset + 4 <= key.count else { return 0 }
        return key.withUnsafeBytes { bytes in
            guard bytes.loadUnaligned(fromByteOffset: offset - 4, as: UInt32.self) != 0 else { return 0 }
            return UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
        }
    }
}
