// The machine of one fetch: an event in, an action out, nothing done. What a response is good for is said by `ResponseDecision` and `WholeDecision`; this
// says what follows, and what a fetch without a client still does. Its shell is `Fetch`.
//
//     awaitingHead ► collecting ► examining ► readingIn ► ended      what is stored, or may be junk
//        ▲         ► confirming ────────────► readingIn ► ended      a 304 to our own conditions
//        ├ misled ◄┤                                                 asked again, without conditions
//                  ► streaming ─────────────────────────► ended      passed on as it comes
//                  ► discarding ────────────────────────► ended      it has failed

import CachePolicy
import HTTPCore
import Upstream

public struct FetchMachine {
    public enum State: Sendable, Equatable {
        case awaitingHead
        case collecting(CollectedFor)
        /// It is whole, and is looked at; beside the loop where it is long.
        case examining(CollectedFor)
        /// A 304 to our own conditions.
        case confirming
        /// A response to our own conditions that is none to the client's request: that goes out again, without conditions, once it has ended.
        case misled(discardedBytes: Int)
        case streaming
        /// It has come whole; what storing it looks at is being brought into memory.
        case readingIn(CacheStep)
        /// Nobody wants it any more; the rest is read so that the connection can be used again.
        case discarding(bytes: Int)
        case ended
    }

    /// What is done in the cache with a response that has come whole.
    public enum CacheStep: Sendable, Equatable {
        case store
        case confirm
        case rememberGone(NotStoredReason)
    }

    public enum Event: Sendable, Equatable {
        /// The head is there, and what is done with the response is decided.
        case decided(ResponseDecision)
        /// - Parameter fits: it may be held with what is held already.
        case contentCame(bytes: Int, fits: Bool)
        /// The response is whole.
        case transferEnded(isDelimited: Bool)
        /// It broke off, or none came, or the request could not be sent.
        case transferFailed(UpstreamError)
        case examined(WholeDecision)
        case readIn
        /// The client does not want what is passed on.
        case unwanted
        /// The client is gone.
        /// - Parameter mayBeStopped: nobody misses the request, as long as nothing has come of it.
        case abandoned(mayBeStopped: Bool)
    }

    public enum Action: Sendable, Equatable {
        case nothing
        /// What comes is held.
        case collect
        case hold
        /// What comes is passed on.
        case stream(NotStoredReason)
        case passOn
        /// It has become too long to be held: what was held is passed on, and then what comes.
        case passOnHeld
        case endStream
        case breakStream(UpstreamError)
        case examine(CollectedFor, isDelimited: Bool)
        /// What storing the response looks at is brought into memory.
        case readIn(CacheStep)
        /// The cache takes it, and it goes out.
        case take(CacheStep)
        /// It goes out whole, and is not stored.
        case bring(NotStoredReason, fault: UpstreamFault?)
        case askWithoutConditions
        /// Nothing good comes.
        case fail(UpstreamFault)
        case failTransfer(UpstreamError)
        /// The same, and no more of it is read.
        case failAndStop(UpstreamFault)
        /// It is a stream for which there is no room.
        case turnAway
        /// The upstream is asked no more.
        case stop
        /// It goes on, and another takes the client's place.
        case handOver
    }

    public private(set) var state = State.awaitingHead

    /// Read and thrown away of a response that nobody wants; beyond it the connection is closed instead.
    public static let discardLimitBytes = 64 * 1024

    public init() {}

    public mutating func handle(_ event: Event) -> Action {
        switch event {
        case .decided(let decision): decided(decision)
        case .contentCame(let count, let fits): contentCame(count, fits: fits)
        case .transferEnded(let isDelimited): transferEnded(isDelimited: isDelimited)
        case .transferFailed(let error): transferFailed(error)
        case .examined(let decision): examined(decision)
        case .readIn: readIn()
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
        case .askWithoutConditions: go(.misled(discardedBytes: 0), .nothing)
        case .collect(let purpose): go(.collecting(purpose), .collect)
        case .stream(let reason): go(.streaming, .stream(reason))
        case .turnAway: end(.turnAway)
        }
    }

    private mutating func contentCame(_ count: Int, fits: Bool) -> Action {
        switch state {
        case .collecting: return fits ? .hold : go(.streaming, .passOnHeld)
        case .streaming: return .passOn
        case .discarding(let before):
            guard before + count <= Self.discardLimitBytes else { return end(.stop) }
            return go(.discarding(bytes: before + count), .nothing)
        case .misled(let before):
            guard before + count <= Self.discardLimitBytes else { return end(.failAndStop(.unexpectedStatus)) }
            return go(.misled(discardedBytes: before + count), .nothing)
        case .awaitingHead, .examining, .confirming, .readingIn, .ended: return .nothing
        }
    }

    private mutating func transferEnded(isDelimited: Bool) -> Action {
        switch state {
        case .awaitingHead: end(.failTransfer(.connectionTerminated))
        case .collecting(let purpose): go(.examining(purpose), .examine(purpose, isDelimited: isDelimited))
        case .confirming: go(.readingIn(.confirm), .readIn(.confirm))
        case .misled: go(.awaitingHead, .askWithoutConditions)
        case .streaming: end(.endStream)
        case .discarding: end(.nothing)
        case .examining, .readingIn, .ended: .nothing
        }
    }

    private mutating func transferFailed(_ error: UpstreamError) -> Action {
        switch state {
        case .awaitingHead, .collecting, .confirming, .misled: end(.failTransfer(error))
        case .streaming: end(.breakStream(error))
        case .discarding: end(.nothing)
        case .examining, .readingIn, .ended: .nothing
        }
    }

    private mutating func examined(_ decision: WholeDecision) -> Action {
        guard case .examining = state else { return .nothing }
        return switch decision {
        case .store: go(.readingIn(.store), .readIn(.store))
        case .rememberGone(let reason): go(.readingIn(.rememberGone(reason)), .readIn(.rememberGone(reason)))
        case .passOn(let reason, let fault): end(.bring(reason, fault: fault))
        case .fail(let fault): end(.fail(fault))
        }
    }

    private mutating func readIn() -> Action {
        guard case .readingIn(let step) = state else { return .nothing }
        return end(.take(step))
    }

    /// What may fill the store goes on, and so does a request that may change something.
    private mutating func abandoned(mayBeStopped: Bool) -> Action {
        switch state {
        case .awaitingHead: mayBeStopped ? end(.stop) : .handOver
        case .streaming: end(.stop)
        case .collecting, .examining, .confirming, .misled, .readingIn: .handOver
        case .discarding, .ended: .nothing
        }
    }
}
