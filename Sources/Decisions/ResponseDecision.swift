// Decides how a response of the upstream is handled: when its head arrives and, if it is buffered, again when it is complete. Pure
// functions of the request, its stored response and the storing rules. `Fetch` carries out the decisions.

import CachePolicy
import HTTPCore

public enum ResponseDecision: Sendable, Equatable {
    /// The response counts as an upstream failure. The rest of it is discarded.
    case fail(UpstreamFault)
    /// A 304 to Cistern's own conditions: the stored response is still valid.
    case confirm
    /// A response to Cistern's own conditions that does not answer the client's request. The request is sent again without conditions.
    case fetchUnconditionally
    /// The response is buffered completely before any of it is sent.
    case collect(CollectedFor)
    /// The response is forwarded as it arrives, and is not stored.
    case stream(NotStoredReason)
    /// The response is a stream, and the limit on streams is reached. It is aborted.
    case refuseStream
}

extension ResponseDecision {
    /// Whether the response itself is used.
    public var isUse: Bool {
        switch self {
        case .confirm, .collect, .stream: true
        case .fail, .fetchUnconditionally, .refuseStream: false
        }
    }
}

/// Why a response is buffered completely.
public enum CollectedFor: Sendable, Equatable {
    /// To be stored if its content is good.
    case store
    /// To be checked: if the content is bad, the stored response is served instead.
    case check(NotStoredReason)
    /// To be stored next to the good stored response, because it states that the resource is gone.
    case gone(NotStoredReason)
}

/// How a complete response is handled.
public enum WholeDecision: Sendable, Equatable {
    /// The response is passed to the cache and sent.
    case store
    /// The response is sent. If its content is good, it is stored next to the existing one.
    case rememberGone(NotStoredReason)
    /// The response is sent and not stored.
    /// - Parameter fault: violation of the operator's requirements or of the rules; nil if none.
    case passOn(NotStoredReason, fault: UpstreamFault?)
    /// The response counts as an upstream failure.
    case fail(UpstreamFault)
}

// MARK: Head

/// A question about an unexpected response, decided by other responses or by the client's own requests.
public enum UnexpectedResponse: Sendable, Equatable {
    /// Does a gateway fail in this way for many targets?
    case surprise(Surprise)
    /// Has the target had such content, and no good response, for long, although other targets have good responses?
    case lasting
    /// Is it a separate representation that the upstream has for this Accept field?
    case otherForm
    /// Has the client just written to the target?
    case afterOwnWrite
    /// Has the upstream refused the request's credentials since their last good response?
    case afterRefusal
}

/// The facts known when the head of a response arrives. Not copyable, because the type is large.
public struct ResponseFacts: ~Copyable {
    public let request: RequestHead
    /// The request's fields as sent, including Cistern's own conditions.
    private let sent: KnownFieldSet
    private let status: Status
    /// The stored response.
    public let copy: StoredMetadata?
    /// Whether the stored response may be served instead.
    public var mayRescue: Bool
    /// Whether the response is a stream (`StreamedResponse`).
    public var isStream = false
    /// Whether the response refuses the credentials to which the stored response belongs.
    public var isRefusal = false
    /// Whether the response has a cache key.
    public var isLookedUp: Bool
    /// The operator's requirements for responses if there is a stored one; nil if there are none.
    public var good: GoodResponse?
    public let strictness: Strictness
    /// The upstream's origin, to recognize its own URIs; nil if unknown.
    public var upstream: UpstreamOrigin?

    public init(
        _ request: RequestHead, sent: KnownFieldSet, _ status: Status, copy: StoredMetadata?, mayRescue: Bool = false,
        isLookedUp: Bool = false,
        good: GoodResponse? = nil, strictness: Strictness
    ) {
        self.request = request
        self.sent = sent
        self.status = status
        self.copy = copy
        self.mayRescue = mayRescue
        self.isLookedUp = isLookedUp
        self.good = good
        self.strictness = strictness
    }

    /// Decides by the head of a response alone. Returns nil if the storing rules must decide (`use`).
    /// - Parameters:
    ///   - response: head without hop-by-hop fields.
    ///   - stored: head of the stored response; empty if there is none.
    ///   - hasOtherRescue: whether a stored response without credentials, or a superseded one, may be served. Called only if the request
    ///     has none and the upstream reports trouble; other faults may concern this user only.
    ///   - seen: answers a question about an unexpected response. Called only if needed.
    public func judge(
        _ response: ResponseHead, beside stored: Span<UInt8>, hasOtherRescue: () -> Bool, _ seen: (UnexpectedResponse) -> Bool
    ) -> ResponseDecision? {
        // Without the store, the client learns what the upstream answered, whatever it is.
        if Validation.isUnasked(response, request: sent), isLookedUp { return .fail(.unexpectedStatus) }
        // Checked before the stored response, which is never a stream.
        if isStream { return .stream(.stream) }
        if let answered = answersConditions(response, stored) { return answered }
        guard let copy else {
            return status != 429 && LastGood.isTrouble(status) && hasOtherRescue() ? .fail(.serverError) : nil
        }
        guard mayRescue else { return nil }
        if let fault = fault(response, beside: copy, stored, seen) { return .fail(fault) }
        // Forwarded at once: a long file must not be held until the stored response is served instead of it.
        return isFile(response, insteadOf: copy, stored) ? .stream(.contentType) : nil
    }

    private func isFile(_ response: ResponseHead, insteadOf copy: StoredMetadata, _ stored: Span<UInt8>) -> Bool {
        guard strictness == .rescue, status == 200, LastGood.isFile(response) else { return false }
        return LastGood.isOfOtherType(response, than: LastGood.Copy(copy, head: stored, beside: response))
    }

    private func answersConditions(_ response: ResponseHead, _ stored: Span<UInt8>) -> ResponseDecision? {
        guard isLookedUp, let copy else { return nil }
        switch status {
        // RFC 9111 §4.3.4: a 304 that does not match the stored response is useless to every client.
        case 304:
            return Validation.applies(response, to: copy, head: stored, strictness: strictness)
                ? .confirm : .fetchUnconditionally
        // RFC 9110 §13.1.2 specifies 412 for methods other than GET and HEAD, which may include QUERY.
        case 412 where sent.contains(.ifNoneMatch) || sent.contains(.ifModifiedSince): return .fetchUnconditionally
        default: return nil
        }
    }

    private func fault(
        _ response: ResponseHead, beside copy: StoredMetadata, _ stored: Span<UInt8>, _ seen: (UnexpectedResponse) -> Bool
    ) -> UpstreamFault? {
        if request.method == .options { return LastGood.faultOfPreflight(response) }
        // For a range request, only trouble of the upstream justifies serving the range from the stored response.
        if request.fields.contains(.range) {
            return LastGood.isTrouble(status) && !(status == 429 && seen(.afterRefusal)) ? .serverError : nil
        }
        let copy = LastGood.Copy(copy, head: stored, beside: response)
        if let fault = LastGood.faultOfHead(response, beside: copy, to: request, strictness: strictness) {
            // A client can provoke a rate limit, and would get data to which it has no right any more.
            let isAnswer =
                switch fault {
                case .unexpectedType: seen(.otherForm) || seen(.lasting)
                case .unexpectedStatus: seen(.lasting)
                case .rateLimited: seen(.afterRefusal)
                default: false
                }
            return isAnswer ? nil : fault
        }
        if !isRefusal, let surprise = LastGood.surprise(response, beside: copy, to: request, at: upstream, strictness: strictness) {
            return !seen(.afterOwnWrite) && seen(.surprise(surprise)) ? surprise.fault : nil
        }
        return good?.faultOfHead(response)
    }

    // MARK: Usable responses

    /// Limits for buffering a response.
    public struct Capacity: Sendable {
        /// Length of the response in bytes; nil if unknown.
        public let length: Int?
        public let limitBytes: Int
        /// Maximum length of content that is examined on the event loop.
        public let examinedAtOnceBytes: Int
        /// Whether the memory for content that waits to be examined is exhausted.
        public let isExaminerFull: Bool

        public init(length: Int?, limitBytes: Int, examinedAtOnceBytes: Int, isExaminerFull: Bool) {
            self.length = length
            self.limitBytes = limitBytes
            self.examinedAtOnceBytes = examinedAtOnceBytes
            self.isExaminerFull = isExaminerFull
        }

        fileprivate var isTooLarge: Bool { length.map { $0 > limitBytes } ?? false }
        fileprivate var isRefused: Bool { isExaminerFull && length.map { $0 > examinedAtOnceBytes } ?? true }
    }

    /// - Parameters:
    ///   - storage: whether the rules permit storing.
    ///   - saysGone: whether the head states that the resource is gone.
    ///   - capacity: evaluated only if the response would be buffered.
    public func use(_ storage: StorageDecision, saysGone: Bool, _ capacity: @autoclosure () -> Capacity) -> ResponseDecision {
        let purpose: CollectedFor? =
            switch storage {
            case .allowed: .store
            case .forbidden(let reason) where saysGone: .gone(reason)
            case .forbidden(let reason): mayRescue && status.isSuccessful ? .check(reason) : nil
            }
        if isLookedUp, request.method != .head, let purpose {
            let capacity = capacity()
            if capacity.isRefused { return .stream(.storeRefused) }
            if !capacity.isTooLarge { return .collect(purpose) }
        }
        if case .forbidden(let reason) = storage { return .stream(reason) }
        return .stream(.tooLarge)
    }
}

// MARK: Complete response

extension CollectedFor {
    /// - Parameters:
    ///   - fault: fault of the content; nil if none.
    ///   - obstacle: why the content could not be judged; nil if it was.
    ///   - mayFail: whether a fault is a failure for the client: a stored response may be served instead, or the client has received a part of
    ///     content that was cut off.
    public func decide(
        _ fault: UpstreamFault?, obstacle: NotStoredReason? = nil, mayFail: Bool, _ strictness: Strictness
    ) -> WholeDecision {
        switch (self, fault) {
        case (.gone(let reason), _): .rememberGone(reason)
        case (_, let fault?): mayFail && strictness == .rescue ? .fail(fault) : .passOn(fault.notStored, fault: fault)
        case (.store, nil): obstacle.map { .passOn($0, fault: nil) } ?? .store
        case (.check(let reason), nil): .passOn(reason, fault: nil)
        }
    }
}
