// The state machine of one fetch: it maps events to actions and performs nothing itself. `ResponseDecision` and `WholeDecision` judge
// responses; this machine decides what follows, also after the client has left. `Fetch` drives it.
//
//     awaitingHead ► collecting ► examining ► loading ► ended      to be stored, or to be checked before forwarding
//        ▲         ► confirming ────────────► loading ► ended      a 304 to Cistern's own conditions
//        ├ misled ◄┤                                               requested again, without conditions
//                  ► streaming ───────────────────────► ended      forwarded as it arrives
//                  ► discarding ──────────────────────► ended      failed

import CachePolicy
import HTTPCore
import Upstream

public struct FetchMachine {
    public enum State: Sendable, Equatable {
        case awaitingHead
        case collecting(CollectedFor)
        /// The response is complete and its content is examined; long content off the event loop.
        case examining(CollectedFor)
        /// A 304 to Cistern's own conditions.
        case confirming
        /// A response to Cistern's own conditions that does not answer the client's request. The request is sent again without conditions
        /// after this response has ended.
        case misled(discardedBytes: Int)
        case streaming
        /// The response is complete; records needed for storing it are loaded into memory.
        case loading(CacheStep)
        /// The response is not needed. The rest is read so that the connection can be reused.
        case discarding(bytes: Int)
        case ended
    }

    /// How the cache processes a complete response.
    public enum CacheStep: Sendable, Equatable {
        case store
        case confirm
        case rememberGone(NotStoredReason)
    }

    public enum Event: Sendable, Equatable {
        /// The head has arrived, and the handling of the response is decided.
        case decided(ResponseDecision)
        /// - Parameter fits: whether the bytes can be buffered in addition to those already buffered.
        case contentArrived(bytes: Int, fits: Bool)
        /// The response is complete.
        case transferEnded(isDelimited: Bool)
        /// The response was truncated or missing, or the request could not be sent.
        case transferFailed(UpstreamError)
        case examined(WholeDecision)
        /// The records needed for storing the response are in memory.
        case loaded
        /// The client cannot receive what is forwarded.
        case unwanted
        /// The client has disconnected.
        /// - Parameter mayBeStopped: whether the request may be cancelled, as long as no response has arrived.
        case abandoned(mayBeStopped: Bool)
    }

    public enum Action: Sendable, Equatable {
        case nothing
        /// Buffer the content that follows.
        case collect(CollectedFor)
        /// Add content to the buffer.
        case buffer
        /// Forward the content as it arrives.
        case stream(NotStoredReason)
        /// Forward content of a stream.
        case forward
        /// The content exceeds the buffer: forward the buffered part, then the rest as it arrives.
        case forwardBuffered
        case endStream
        case breakStream(UpstreamError)
        case examine(CollectedFor, isDelimited: Bool)
        /// Load the records needed for storing the response into memory.
        case load(CacheStep)
        /// Let the cache process the response, and deliver it.
        case updateCache(CacheStep)
        /// Deliver the complete response without storing it.
        case deliver(NotStoredReason, fault: UpstreamFault?)
        case retryWithoutConditions
        /// Report a fault; the response is not used.
        case fail(UpstreamFault)
        case failTransfer(UpstreamError)
        /// Report a fault, and stop reading the response.
        case failAndStop(UpstreamFault)
        /// Reject a stream, because no more streams are allowed.
        case rejectStream
        /// Cancel the request to the upstream.
        case stop
        /// Continue without the client, in the background.
        case handOver
    }

    public private(set) var state = State.awaitingHead

    /// Maximum number of bytes to read and discard from a response that is not needed. Beyond it, the connection is closed.
    public static let discardLimitBytes = 64 * 1024

    public init() {}

    public mutating func handle(_ event: Event) -> Action {
        switch event {
        case .decided(let decision): decided(decision)
        case .contentArrived(let count, let fits): contentArrived(count, fits: fits)
        case .transferEnded(let isDelimited): transferEnded(isDelimited: isDelimited)
        case .transferFailed(let error): transferFailed(error)
        case .examined(let decision): examined(decision)
        case .loaded: loaded()
        case .unwanted: state == .streaming ? end(.stop) : .nothing
        case .abandoned(let mayBeStopped): abandoned(mayBeStopped: mayBeStopped)
        }
    }

    private mutating func end(_ action: Action) -> Action { go(.ended, action) }

    private mutating func go(_ next: State, _ action: Action) -> Action {
        state = next
        return action
    }

    private mutating func decided(_ decision: ResponseDecision) -> Action {
        guard state == .awaitingHead else { return .nothing }
        return switch decision {
        case .fail(let fault): go(.discarding(bytes: 0), .fail(fault))
        case .confirm: go(.confirming, .nothing)
        case .fetchUnconditionally: go(.misled(discardedBytes: 0), .nothing)
        case .collect(let purpose): go(.collecting(purpose), .collect(purpose))
        case .stream(let reason): go(.streaming, .stream(reason))
        case .refuseStream: end(.rejectStream)
        }
    }

    private mutating func contentArrived(_ count: Int, fits: Bool) -> Action {
        switch state {
        case .collecting: return fits ? .buffer : go(.streaming, .forwardBuffered)
        case .streaming: return .forward
        case .discarding(let before):
            guard before + count <= Self.discardLimitBytes else { return end(.stop) }
            return go(.discarding(bytes: before + count), .nothing)
        case .misled(let before):
            guard before + count <= Self.discardLimitBytes else { return end(.failAndStop(.unexpectedStatus)) }
            return go(.misled(discardedBytes: before + count), .nothing)
        case .awaitingHead, .examining, .confirming, .loading, .ended: return .nothing
        }
    }

    private mutating func transferEnded(isDelimited: Bool) -> Action {
        switch state {
        case .awaitingHead: end(.failTransfer(.connectionTerminated))
        case .collecting(let purpose): go(.examining(purpose), .examine(purpose, isDelimited: isDelimited))
        case .confirming: go(.loading(.confirm), .load(.confirm))
        case .misled: go(.awaitingHead, .retryWithoutConditions)
        case .streaming: end(.endStream)
        case .discarding: end(.nothing)
        case .examining, .loading, .ended: .nothing
        }
    }

    private mutating func transferFailed(_ error: UpstreamError) -> Action {
        switch state {
        case .awaitingHead, .collecting, .confirming, .misled: end(.failTransfer(error))
        case .streaming: end(.breakStream(error))
        case .discarding: end(.nothing)
        case .examining, .loading, .ended: .nothing
        }
    }

    private mutating func examined(_ decision: WholeDecision) -> Action {
        guard case .examining = state else { return .nothing }
        return switch decision {
        case .store: go(.loading(.store), .load(.store))
        case .rememberGone(let reason): go(.loading(.rememberGone(reason)), .load(.rememberGone(reason)))
        case .passOn(let reason, let fault): end(.deliver(reason, fault: fault))
        case .fail(let fault): end(.fail(fault))
        }
    }

    private mutating func loaded() -> Action {
        guard case .loading(let step) = state else { return .nothing }
        return end(.updateCache(step))
    }

    /// A fetch that may fill the store continues, and so does a request that may change data.
    private mutating func abandoned(mayBeStopped: Bool) -> Action {
        switch state {
        case .awaitingHead: mayBeStopped ? end(.stop) : .handOver
        case .streaming: end(.stop)
        case .collecting, .examining, .confirming, .misled, .loading: .handOver
        case .discarding, .ended: .nothing
        }
    }
}
