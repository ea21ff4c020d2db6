// The interface between the state machines of `Exchange` and `Fetch`: the results that a fetch reports. After its client disconnects, an
// exchange releases its fetch, which continues if it fills the store.

import CachePolicy
import Decisions
import Explanation
import HTTPCore
import ResponseCache
import Upstream

/// A complete response in memory, with at most `bufferLimitBytes` of content.
struct FetchedResponse {
    /// End-to-end fields only, without Content-Length.
    var head: ResponseHead
    /// Content in a coding that this client accepts.
    var content: [UInt8]
    /// Whether the response was passed to the store, or why not.
    var storage: StorageDecision
    /// The head as stored; empty if the response was not stored.
    var storedHead: [UInt8] = []
    /// The entity tag that Cistern generated because the upstream sent no validator; nil if there is none.
    var ownTag: [UInt8]?
    /// The operator's requirement that a forwarded response fails; nil if it fails none.
    var fault: UpstreamFault?
    var metadata: StoredMetadata?
    /// True if the response says that the resource is gone, and replaces its stored response from now on.
    var isRememberedAsGone = false
}

/// Receives the results of a fetch on the shard's loop. `fetchBrought`, `fetchConfirmed`, `fetchFailed`, `streamEnded` and `streamBroke`
/// are final.
protocol FetchReceiver: AnyObject {
    func fetchInformed(_ head: ResponseHead)
    /// The upstream requests authentication of the connection.
    func fetchChallenged(_ transfer: Transfer)
    func fetchBrought(_ response: FetchedResponse)
    /// The upstream confirmed the stored response by a 304.
    func fetchConfirmed(_ confirmation: Confirmation)
    /// The upstream sent no response, or a bad one for which a stored response may be served.
    func fetchFailed(_ failure: FetchFailure)
    /// The response is forwarded while it arrives. Called again if it turns out to be too large for the store.
    /// - Parameter notStored: nil if the response is also collected. Its end is then `fetchBrought` or `fetchFailed`, as if it were held.
    /// - Returns: whether the content is wanted. If not, and the response is not collected, this call is final.
    func streamBegan(_ head: ResponseHead, length: Int?, notStored: NotStoredReason?) -> Bool
    func streamBrought(_ bytes: Span<UInt8>)
    func streamEnded()
    func streamBroke(_ error: UpstreamError)
    /// More of the request content may be written.
    func fetchDrained()
}
