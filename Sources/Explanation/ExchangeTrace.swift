// What is remembered of one exchange so that it can be explained later: numbers and small enums in a fixed size, nothing that is counted or
// allocated, so that remembering a hit costs next to nothing. Sentences are made of it when somebody asks (`WhyExplanation`).

import Addresses
import CachePolicy
import Decisions
import HTTPCore
import Telemetry
import Upstream

/// What looking into the store brought.
package enum FoundKind: UInt8, Sendable {
    case notLookedUp, nothing, otherVariant, stored
}

package struct ExchangeTrace: Sendable {
    /// What the store had, and what of it went out.
    package struct Found: Sendable {
        package var kind = FoundKind.notLookedUp
        /// Seconds; -1 where the response did not say, or nothing was found.
        package var lifetime: Int64 = -1
        package var age: Int64 = -1
        /// Who said that lifetime, and whether the operator's rules left out something that the response said.
        package var lifetimeSource = LifetimeSource.response
        package var isDisregarded = false
        /// The response says that the resource is gone: remembered as the upstream said it, or served from there.
        package var isGone = false
        /// How often something was read from the disk before it could go on.
        package var diskReads: UInt8 = 0
    }

    /// What the upstream did.
    package struct Upstream: Sendable {
        /// Until its response was there, or it had failed; -1 where it was not asked.
        package var microseconds: Int64 = -1
        package var times = TransferTimes()
        /// On the connection that carried it; nil where none did.
        package var spoken: SpokenProtocol?
        /// Of its response; 0 where there was none.
        package var status: UInt16 = 0
        package var failure: FetchFailure?
        /// A fault was injected.
        package var isFaulted = false
    }

    /// Why it was done so, and not otherwise.
    package struct Reasons: Sendable {
        /// The client wanted the upstream to be asked, and the operator has that ignored.
        package var isClientIgnored = false
        package var bypass: BypassReason?
        package var validation: ValidationReason?
        package var notStored: NotStoredReason?
        package var notRescued: NoRescueReason?
        /// What allowed the copy of those without credentials to go out, or why it might not.
        package var sharedPermission: SharedCopyPermission?
        package var notStoodIn: NoSharedRescueReason?
        /// What the operator's demands say against a response that was passed on.
        package var fault: UpstreamFault?
        /// Why Cistern responded itself, without asking.
        package var refusal: Refusal?
        /// It has what lets scripts of the request's origin read it from the last good response.
        package var carriesGrant = false
        /// What it told a preflight, by the operator's word.
        package var preflight: CrossOriginRules.Verdict?
    }

    /// The request's content.
    package struct Content: Sendable {
        /// What became of it; nil where it had none.
        package var outcome: ContentOutcome?
        /// From the request's head until it was whole.
        package var microseconds: Int64 = -1
    }

    /// Of what no client waited for.
    package struct Background: Sendable {
        package let cause: BackgroundCause
        /// The number of the exchange that it began with.
        package let behind: UInt64

        package init(cause: BackgroundCause, behind: UInt64) { (self.cause, self.behind) = (cause, behind) }
    }

    /// Counts the shard's exchanges; with the shard's number it names this one.
    package var number: UInt64 = 0
    /// Milliseconds since 1970 at its end.
    package var wall: Int64 = 0
    package var durationMicroseconds: Int64 = 0
    package var bodyBytes = 0
    package var found = Found()
    package var upstream = Upstream()
    package var content = Content()
    /// Whose request it was; nil through a Unix socket.
    package var client: IPAddress?
    /// By which the client's request came; nil in the background.
    package var version: HTTPVersion?
    /// The first bytes of the keyed hash of the request's credentials; 0 without credentials.
    package var partition: UInt32 = 0
    /// What the request's token came to; nil where none was looked at.
    package var identity: IdentityOutcome?
    package var status: UInt16 = 0
    package var targetCount: UInt16 = 0
    /// The place of its API, or `noAPI`.
    package var api: UInt16 = 0
    /// Of a request that is for none of several.
    package static let noAPI = UInt16.max
    package var method = MethodLabel.other
    package var result = CacheResult.miss
    package var mode = ServingMode.live
    package var isStored = false
    package var reasons = Reasons()
    /// nil for a client's exchange.
    package var background: Background?

    package init() {}
}

extension ExchangeTrace {
    package mutating func noteDiskRead() { if found.diskReads < .max { found.diskReads += 1 } }

    /// With what is known at the end.
    package mutating func complete(
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
    package static func partition(in key: [UInt8], at offset: Int) -> UInt32 {
        guard offset + 4 <= key.count else { return 0 }
        return key.withUnsafeBytes { bytes in
            guard bytes.loadUnaligned(fromByteOffset: offset - 4, as: UInt32.self) != 0 else { return 0 }
            return UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
        }
    }
}
