// The seam between the two machines of the flow: what a fetch tells the exchange that waits for it. An exchange whose client left simply
// lets go of its fetch, which goes on filling the store where there is something to fill.

import CachePolicy
import Decisions
import Explanation
import HTTPCore
import ResponseCache
import Upstream

/// A response that arrived whole and is held in memory (at most `bufferLimitBytes`).
struct FetchedResponse {
    /// End-to-end fields only: what concerned the connection is gone, Content-Length is not among them.
    var head: ResponseHead
    /// As this client gets it: coded only where it accepts that.
    var content: [UInt8]
    /// Whether it was handed to the store, or why not.
    var storage: StorageDecision
    /// As it was stored, where it was.
    var storedHead: [UInt8] = []
    /// The entity tag that was made here, where the upstream sent no validator.
    var ownTag: [UInt8]?
    /// What the operator's demands say against it, where it is passed on all the same.
    var fault: UpstreamFault?
    var metadata: StoredMetadata?
    /// It says that the resource is gone, and stands for its copy from now on.
    var isRememberedAsGone = false
}

/// Is told what a fetch brings, on the shard's loop. After `fetchBrought`, `fetchConfirmed`, `fetchFailed`, `streamEnded` or
/// `streamBroke` nothing more comes.
protocol FetchReceiver: AnyObject {
    func fetchInformed(_ head: ResponseHead)
    /// The upstream wants to authenticate the connection.
    func fetchChallenged(_ transfer: Transfer)
    func fetchBrought(_ response: FetchedResponse)
    /// The upstream confirmed the stored response by a 304.
    func fetchConfirmed(_ confirmation: Confirmation)
    /// The upstream failed where a stored copy may go out, or sent no response at all.
    func fetchFailed(_ failure: FetchFailure)
    /// The response is passed on piece by piece: too large to hold, or nothing to be kept.
    /// Returns whether it is wanted; if not, nothing more comes.
    func streamBegan(_ head: ResponseHead, length: Int?, notStored: NotStoredReason) -> Bool
    func streamBrought(_ bytes: Span<UInt8>)
    func streamEnded()
    func streamBroke(_ error: UpstreamError)
    /// More of the request's content may be written.
    func fetchDrained()
}
