// What is remembered of one exchange so that it can be explained later: numbers and small enums in a fixed size, nothing that is counted or
// allocated, so that remembering a hit costs next to nothing. Sentences are made of it when somebody asks (`WhyExplanation`).

import Addresses
import CachePolicy
import Decisions
import HTTPCore
import Telemetry
import Upstream

/// What looking into the store brought.
public enum FoundKind: UInt8, Sendable {
    case notLookedUp, nothing, otherVariant, stored
}

public struct ExchangeTrace: Sendable {
    /// What the store had, and what of it went out.
    public struct Found: Sendable {
        public var kind = FoundKind.notLookedUp
        /// Seconds; -1 where the response did not say, or nothing was found.
        public var lifetime: Int64 = -1
        public var age: Int64 = -1
        /// Who said that lifetime, and whether the operator's rules left out something that the response said.
        public var lifetimeSource = LifetimeSource.response
        public var isDisregarded = false
        /// The response says that the resource is gone: remembered as the upstream said it, or served from there.
        public var isGone = false
        /// How often something was read from the disk before it could go on.
        public var diskReads: UInt8 = 0
        /// The number of a field that kept a copy from being used; 0 if none did.
        public var unknownField: UInt8 = 0
        /// What other nodes had; nil where that was not looked for.
        public var shared: SharedReply?
        /// Why that was not looked for, although it would have been.
        public var obstacle: SharedObstacle?
    }

    /// What the upstream did.
    public struct Upstream: Sendable {
        /// Until its response was there, or it had failed; -1 where it was not asked.
        public var microseconds: Int64 = -1
        public var times = TransferTimes()
        /// On the connection that carried it; nil where none did.
        public var spoken: SpokenProtocol?
        /// Of its response; 0 where there was none.
        public var status: UInt16 = 0
        /// The place of the address that has sent it.
        public var address: UInt8 = 0
        public var failure: FetchFailure?
        /// A fault was injected.
        public var isFaulted = false
        /// How long the upstream had before the copy would go out, in milliseconds, if the request is slow by nature; else 0.
        public var patience: UInt32 = 0
    }

    /// Why it was done so, and not otherwise.
    public struct Reasons: Sendable {
        /// The client wanted the upstream to be asked, and the operator has that ignored.
        public var isClientIgnored = false
        public var bypass: BypassReason?
        public var validation: ValidationReason?
        /// Why what was found counts as stale, where it does because of other nodes.
        public var doubt: FleetDoubt?
        public var notStored: NotStoredReason?
        public var notRescued: NoRescueReason?
        /// What allowed the copy of those without credentials to go out, or why it might not.
        public var sharedPermission: SharedCopyPermission?
        public var notStoodIn: NoSharedRescueReason?
        /// What the operator's demands say against a response that was passed on.
        public var fault: UpstreamFault?
        /// Why Cistern responded itself, without asking.
        public var refusal: Refusal?
        /// It has what lets scripts of the request's origin read it from the last good response.
        public var carriesGrant = false
        /// What it told a preflight, by the operator's word.
        public var preflight: CrossOriginRules.Verdict?
    }

    /// The request's content.
    public struct Content: Sendable {
        /// What became of it; nil where it had none.
        public var outcome: ContentOutcome?
        /// From the request's head until it was whole.
        public var microseconds: Int64 = -1
    }

    /// Of what no client waited for.
    public struct Background: Sendable {
        public let cause: BackgroundCause
        /// The number of the exchange that it began with.
        public let behind: UInt64

        public init(cause: BackgroundCause, behind: UInt64) { (self.cause, self.behind) = (cause, behind) }
    }

    /// Counts the shard's exchanges; with the shard's number it names this one.
    public var number: UInt64 = 0
    /// Milliseconds since 1970 at its end.
    public var wall: Int64 = 0
    public var durationMicroseconds: Int64 = 0
    public var bodyBytes = 0
    public var found = Found()
    public var upstream = Upstream()
    public var content = Content()
    /// Whose request it was; nil through a Unix socket.
    public var client: IPAddress?
    /// By which the client's request came; nil in the background.
    public var version: HTTPVersion?
    /// The first bytes of the keyed hash of the request's credentials; 0 without credentials.
    public var partition: UInt32 = 0
    /// What the request's token came to; nil where none was looked at.
    public var identity: IdentityOutcome?
    public var status: UInt16 = 0
    public var targetCount: UInt16 = 0
    /// The place of its API, or `noAPI`.
    public var api: UInt16 = 0
    /// Of a request that is for none of several.
    public static let noAPI = UInt16.max
    /// The place of its route in its API, or `noRoute`.
    public var route = noRoute
    /// Of a request that was responded to before anybody asked for its route.
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

    /// With what is known at the end.
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

    /// - Parameter offset: where the partition lies in the shard's keys, behind its length.
    public static func partition(in key: [UInt8], at offset: Int) -> UInt32 {
        guard offset + 4 <= key.count else { return 0 }
        return key.withUnsafeBytes { bytes in
            guard bytes.loadUnaligned(fromByteOffset: offset - 4, as: UInt32.self) != 0 else { return 0 }
            return UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
        }
    }
}
