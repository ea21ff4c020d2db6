// The state machine of one fetch: it maps events to actions and performs nothing itself. `ResponseDecision` and `WholeDecision` judge
// responses; this machine decides what follows, also after the client has left. `Fetch` drives it.
//
//     awaitingHead ► collecting ► examining ► loading ► ended      to be stored, or to be checked before forwarding
//        ▲              └───────► streaming                        too long, or a stream
//        │         ► confirming ────────────► loading ► ended      a 304 to Cistern's own conditions
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
        /// The content shows that the response is a stream.
        case recognizedAsStream
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
        /// The content exceeds the buffer, or is a stream: forward the buffered part, then the rest as it arrives.
        case forwardBuffered(isStream: Bool)
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
    public var isCollecting: Bool { if case .collecting = state { true } else { false } }

    /// Maximum number of bytes to read and discard from a response that is not needed. Beyond it, the connection is closed.
    public static let discardLimitBytes = 64 * 1024

    public init() {}

    public mutating func handle(_ event: Event) -> Action {
        let next: (state: State, action: Action) =
            switch event {
            case .decided(let decision): decided(decision)
            case .contentArrived(let count, let fits): contentArrived(count, fits: fits)
            case .transferEnded(let isDelimited): transferEnded(isDelimited: isDelimited)
            case .transferFailed(let error): transferFailed(error)
            case .examined(let decision): examined(decision)
            case .loaded: if case .loading(let step) = state { (.ended, .updateCache(step)) } else { (state, .nothing) }
            case .recognizedAsStream: isCollecting ? (.streaming, .forwardBuffered(isStream: true)) : (state, .nothing)
            case .unwanted: state == .streaming ? (.ended, .stop) : (state, .nothing)
            case .abandoned(let mayBeStopped): abandoned(mayBeStopped: mayBeStopped)
            }
        state = next.state
        return next.action
    }

    // MARK: The next state, with the action that leads to it

    private func decided(_ decision: ResponseDecision) -> (State, Action) {
        guard state == .awaitingHead else { return (state, .nothing) }
        return switch decision {
        case .fail(let fault): (.discarding(bytes: 0), .fail(fault))
        case .confirm: (.confirming, .nothing)
        case .fetchUnconditionally: (.misled(discardedBytes: 0), .nothing)
        case .collect(let purpose): (.collecting(purpose), .collect(purpose))
        case .stream(let reason): (.streaming, .stream(reason))
        case .refuseStream: (.ended, .rejectStream)
        }
    }

    private func contentArrived(_ count: Int, fits: Bool) -> (State, Action) {
        switch state {
        case .collecting: return fits ? (state, .buffer) : (.streaming, .forwardBuffered(isStream: false))
        case .streaming: return (state, .forward)
        case .discarding(let before):
            let bytes = before + count
            return bytes <= Self.discardLimitBytes ? (.discarding(bytes: bytes), .nothing) : (.ended, .stop)
        case .misled(let before):
            let bytes = before + count
            return bytes <= Self.discardLimitBytes ? (.misled(discardedBytes: bytes), .nothing) : (.ended, .failAndStop(.unexpectedStatus))
        case .awaitingHead, .examining, .confirming, .loading, .ended: return (state, .nothing)
        }
    }

    private func transferEnded(isDelimited: Bool) -> (State, Action) {
        switch state {
        case .awaitingHead: (.ended, .failTransfer(.connectionTerminated))
        case .collecting(let purpose): (.examining(purpose), .examine(purpose, isDelimited: isDelimited))
        case .confirming: (.loading(.confirm), .load(.confirm))
        case .misled: (.awaitingHead, .retryWithoutConditions)
        case .streaming: (.ended, .endStream)
        case .discarding: (.ended, .nothing)
        case .examining, .loading, .ended: (state, .nothing)
        }
    }

    private func transferFailed(_ error: UpstreamError) -> (State, Action) {
        switch state {
        case .awaitingHead, .collecting, .confirming, .misled: (.ended, .failTransfer(error))
        case .streaming: (.ended, .breakStream(error))
        case .discarding: (.ended, .nothing)
        case .examining, .loading, .ended: (state, .nothing)
        }
    }

    private func examined(_ decision: WholeDecision) -> (State, Action) {
        guard case .examining = state else { return (state, .nothing) }
        return switch decision {
        case .store: (.loading(.store), .load(.store))
        case .rememberGone(let reason): (.loading(.rememberGone(reason)), .load(.rememberGone(reason)))
        case .passOn(let reason, let fault): (.ended, .deliver(reason, fault: fault))
        case .fail(let fault): (.ended, .fail(fault))
        }
    }

    /// A fetch that may fill the store continues, and so does a request that may change data.
    private func abandoned(mayBeStopped: Bool) -> (State, Action) {
        switch state {
        case .awaitingHead: mayBeStopped ? (.ended, .stop) : (state, .handOver)
        case .streaming: (.ended, .stop)
        case .collecting, .examining, .confirming, .misled, .loading: (state, .handOver)
        case .discarding, .ended: (state, .nothing)
        }
    }
}
