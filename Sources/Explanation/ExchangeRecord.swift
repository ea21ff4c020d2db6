// The record of one exchange: a client's request, or a background fetch. Each part is filled once, by the code that knows it. Metrics, the
// access log, `why`, Cache-Status and spans read it. It consists of numbers and small enums, without references or allocations, so that
// recording a hit costs almost nothing. `WhyExplanation` generates the sentences on request.

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

public struct ExchangeRecord: Sendable {
    /// The lookup, and properties of the response that was found.
    public struct Found: Sendable {
        public var kind = FoundKind.notLookedUp
        /// Seconds; -1 if the response gave none, or none was found.
        public var lifetime: Int64 = -1
        public var age: Int64 = -1
        /// Seconds that count for `stale_for`.
        public var staleness: Int64 = 0
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
        public var fleetReply: FleetReply?
        /// Why that lookup was skipped; nil if it was not.
        public var obstacle: FleetObstacle?
    }

    /// The upstream's part of the exchange, and of its span.
    public struct Upstream: Sendable {
        /// Time until the upstream's response arrived or failed; -1 if it was not asked.
        public var microseconds: Int64 = -1
        public var times = TransferTimes()
        /// Protocol of the connection that was used; nil if there was none.
        public var spoken: SpokenProtocol?
        /// Status of the upstream's response; 0 if there was none.
        public var status: UInt16 = 0
        /// Index of the upstream address that responded.
        public var address: UInt8 = 0
        public var failure: FetchFailure?
        public var isFaulted = false
        /// Soft deadline in milliseconds if the request is known to be slow; else 0.
        public var patience: UInt32 = 0

        public init() {}
    }

    /// Reasons for what was done.
    public struct Reasons: Sendable {
        /// Whether the request required validation, and the operator's settings ignored that.
        public var isClientIgnored = false
        /// Whether the upstream did not receive a field in which the client named another method.
        public var isMethodOverrideRemoved = false
        public var bypass: BypassReason?
        public var validation: ValidationReason?
        /// Why the stored response counts as stale because of other nodes; nil if it does not.
        public var doubt: FleetDoubt?
        public var notStored: NotStoredReason?
        /// Whether metrics and the access log omit `notStored`: the response is a stream, and the request bypasses the store.
        public var isBypassedStream = false
        public var notRescued: NoRescueReason?
        /// What permitted serving a response stored without credentials, or why it was not served.
        public var sharedRescuePermission: SharedRescuePermission?
        public var sharedRescueRefusal: NoSharedRescueReason?
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
        /// Time from the request's head until its content was complete; -1 if it had none, or it was streamed.
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
    /// Microseconds from the request's head to the end of the response.
    public var durationMicroseconds: Int64 = 0
    public var bodyBytes = 0
    public var source = ContentSource.upstream
    /// Age in seconds of a response from the store; nil for other responses.
    public var age: Int64?
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
    /// Status of the response to the client; of a background fetch, that of the upstream's response.
    public var status: UInt16
    public var targetCount: UInt16 = 0
    /// Index of the API, or `noAPI`.
    public var api: UInt16 = 0
    /// For a request that belongs to none of several APIs.
    public static let noAPI = UInt16.max
    public var hasAPI: Bool { api != Self.noAPI }
    /// Index of the route in its API, or `noRoute`.
    public var route = noRoute
    /// For a request that was answered before its route was determined.
    public static let noRoute = UInt16.max
    public var method: MethodLabel
    public var result: CacheResult
    public var mode = ServingMode.live
    public var isStored = false
    public var reasons = Reasons()
    /// nil for a client's exchange.
    public var background: Background?

    public init(_ result: CacheResult, _ method: MethodLabel, status: UInt16 = 0) {
        (self.result, self.method, self.status) = (result, method, status)
    }
}

extension ExchangeRecord {
    /// Whether the request has failed: its client received a status of 5xx, from the upstream or from Cistern.
    public var isServerError: Bool { status >= 500 }

    /// Index in `MetricNames.rescueCauses` if a stored response was served instead; nil otherwise.
    var rescueCause: Int? { result == .rescued ? upstream.failure.flatMap(MetricNames.index(of:)) : nil }

    /// Why the response was not stored, as metrics and the access log name it.
    var loggedNotStored: NotStoredReason? { reasons.isBypassedStream ? nil : reasons.notStored }

    /// The reason in the access log: of a rescue or an error, or for not storing; nil if there is none.
    public var loggedReason: String? {
        let failure = result == .error ? upstream.failure?.label : nil
        return rescueCause.map { MetricNames.rescueCauses[$0] } ?? failure ?? loggedNotStored?.rawValue
    }

    public mutating func noteDiskRead() { if found.diskReads < .max { found.diskReads += 1 } }

    /// - Parameter offset: offset of the partition in the shard's keys, after its length.
    public static func partition(in key: [UInt8], at offset: Int) -> UInt32 {
        guard offset + 4 <= key.count else { return 0 }
        return key.withUnsafeBytes { bytes in
            guard bytes.loadUnaligned(fromByteOffset: offset - 4, as: UInt32.self) != 0 else { return 0 }
            return UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
        }
    }
}

// Counters of completed exchanges: for the process, for their route, and for their API.
extension LabelledFigures {
    public mutating func record(_ exchange: borrowing ExchangeRecord) {
        count(.requests, RequestLabels.index(exchange.result, exchange.method, StatusClass.index(of: exchange.status)))
        observe(.requestDuration, exchange.result.rawValue, exchange.durationMicroseconds)
        if exchange.upstream.microseconds >= 0 { observe(.upstreamDuration, 0, exchange.upstream.microseconds) }
        if let age = exchange.age { observe(.servedAge, 0, age) }
        count(.responseBytes, exchange.source.rawValue, by: UInt64(exchange.bodyBytes))
        if exchange.source == .store { count(.savedBytes, exchange.result.rawValue, by: UInt64(exchange.bodyBytes)) }
        if exchange.result == .rescued {
            if let cause = exchange.rescueCause { count(.rescued, cause) }
            if let permission = exchange.reasons.sharedRescuePermission { count(.rescuedWithShared, of: permission) }
        }
        if let index = exchange.loggedNotStored.flatMap(MetricNames.index(of:)) {
            count(.notStored, index)
            if exchange.isServerError { count(.errorsNotStored, index) }
        }
    }

    public mutating func recordOfRoute(_ exchange: borrowing ExchangeRecord) {
        count(.routeRequests, RequestLabels.index(exchange.result, StatusClass.index(of: exchange.status)))
        observe(.routeDuration, 0, exchange.durationMicroseconds)
        if let cause = exchange.rescueCause { count(.routeRescued, cause) }
        if let index = exchange.loggedNotStored.flatMap(MetricNames.index(of:)) {
            count(.routeNotStored, index)
            if exchange.isServerError { count(.errorsNotStored, index) }
        }
    }

    /// Counts a client's request, if there are several APIs.
    public mutating func recordOfAPI(_ exchange: borrowing ExchangeRecord) {
        count(.apiRequests, exchange.result.rawValue)
        if exchange.isServerError { count(.apiServerErrors) }
        if let index = exchange.loggedNotStored.flatMap(MetricNames.index(of:)) {
            count(.notStored, index)
            if exchange.isServerError { count(.errorsNotStored, index) }
        }
    }
}
