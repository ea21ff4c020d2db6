// What is done with a response of the upstream: once when its head is there, and, where it is taken whole, once more at its end. Pure functions of the
// request, of the copy that is stored for it, and of what the rules of storing say; `Fetch` does what comes of them.

import CachePolicy
import HTTPCore

public enum ResponseDecision: Sendable, Equatable {
    /// It counts as a failure of the upstream. What is still to come of it is thrown away.
    case fail(UpstreamFault)
    /// It is a 304 to our own conditions: the copy still holds.
    case confirm
    /// It is a response to our own conditions, and none to the client's request: that is sent again, without conditions.
    case askWithoutConditions
    /// It is taken whole before anything of it goes out.
    case collect(CollectedFor)
    /// It goes out as it comes, and is not stored.
    case stream(NotStoredReason)
    /// It is a stream, and streams hold as many connections as they may: it is given up.
    case turnAway
}

extension ResponseDecision {
    /// Whether the response counts for what it is.
    public var isUse: Bool {
        switch self {
        case .confirm, .collect, .stream: true
        case .fail, .askWithoutConditions, .turnAway: false
        }
    }
}

/// Why a response is taken whole.
public enum CollectedFor: Sendable, Equatable {
    /// It is stored if its content is good.
    case store
    /// It may be junk, and a copy would go out instead.
    case check(NotStoredReason)
    /// It says that the resource is gone, which is remembered beside the copy.
    case gone(NotStoredReason)
}

/// What is done with a response that has come whole.
public enum WholeDecision: Sendable, Equatable {
    /// It is handed to the cache, and goes out.
    case store
    /// It goes out, and is remembered beside the copy if its content is good.
    case rememberGone(NotStoredReason)
    /// It goes out, and is not stored.
    /// - Parameter fault: what the operator's demands, or the rules, say against it.
    case passOn(NotStoredReason, fault: UpstreamFault?)
    /// It counts as a failure of the upstream.
    case fail(UpstreamFault)
}

// MARK: The head

/// What other responses, and the client's own requests, tell of an unexpected response.
public enum UnexpectedResponse: Sendable, Equatable {
    /// Whether a gateway fails in this way for many targets.
    case surprise(Surprise)
    /// Whether it is a representation of its own, which the upstream has for this Accept field.
    case otherForm
    /// Whether its client has just written to the target.
    case afterOwnWrite
}

/// All that is known when a response's head is there. Not copyable, since it is large.
public struct ResponseFacts: ~Copyable {
    /// The copy: what the rules know of it, and its head.
    public typealias Copy = (metadata: StoredMetadata, head: UnsafeRawBufferPointer)

    public let request: RequestHead
    /// The request's fields as they were sent, with our own conditions.
    private let sent: KnownFieldSet
    private let status: Status
    public let copy: Copy?
    /// Whether the copy may go out instead.
    public var mayRescue: Bool
    /// It is a stream (`StreamedResponse`).
    public var isStream = false
    /// Whether the response has a place in the store.
    public var isLookedUp: Bool
    /// What the operator demands of a response where there is a copy; nil where that is nothing.
    public var good: GoodResponse?
    public let strictness: Strictness
    /// Where the upstream is, to tell its own URIs from others'.
    public var upstream: UpstreamOrigin?

    public init(
        _ request: RequestHead, sent: KnownFieldSet, _ status: Status, copy: Copy?, mayRescue: Bool = false, isLookedUp: Bool = false,
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

    /// What the head alone tells; nil where the response can be used.
    /// - Parameters:
    ///   - response: without what concerns the connection.
    ///   - hasStandIn: whether the copy of others may stand in. Asked only where it counts: where the request has no copy of its own, only an
    ///     upstream in trouble is a reason for it, since all else that is wrong with a response may be about this user.
    ///   - seen: what other responses tell of an unexpected one. Asked only where it counts.
    public func judge(_ response: ResponseHead, hasStandIn: () -> Bool, _ seen: (UnexpectedResponse) -> Bool) -> ResponseDecision? {
        if Validation.isUnasked(status, request: sent) { return .fail(.unexpectedStatus) }
        // Whatever is stored: a copy is no stream.
        if isStream { return .stream(.stream) }
        if let answered = answersConditions(response) { return answered }
        guard let copy else {
            return status != 429 && LastGood.isTrouble(status) && hasStandIn() ? .fail(.serverError) : nil
        }
        guard mayRescue else { return nil }
        return fault(response, beside: copy, seen).map { .fail($0) }
    }

    private func answersConditions(_ response: ResponseHead) -> ResponseDecision? {
        guard isLookedUp, let copy else { return nil }
        switch status {
        // RFC 9111 §4.3.4: a 304 for what is not stored is no response to anybody.
        case 304:
            return Validation.applies(response, to: copy.metadata, head: copy.head, strictness: strictness)
                ? .confirm : .askWithoutConditions
        // What RFC 9110 §13.1.2 has for methods other than GET and HEAD, and so perhaps for QUERY.
        case 412 where sent.contains(.ifNoneMatch) || sent.contains(.ifModifiedSince): return .askWithoutConditions
        default: return nil
        }
    }

    private func fault(_ response: ResponseHead, beside copy: Copy, _ seen: (UnexpectedResponse) -> Bool) -> UpstreamFault? {
        if request.method == .options { return LastGood.faultOfPreflight(response) }
        // A part was asked for: only an upstream in trouble is a reason to cut it from the copy.
        if request.fields.contains(.range) { return LastGood.isTrouble(status) ? .serverError : nil }
        let copy = LastGood.Copy(copy.metadata, head: copy.head, beside: response)
        if let fault = LastGood.faultOfHead(response, beside: copy, to: request, strictness: strictness) {
            return fault == .unexpectedType && seen(.otherForm) ? nil : fault
        }
        if let surprise = LastGood.surprise(response, beside: copy, to: request, at: upstream, strictness: strictness) {
            return !seen(.afterOwnWrite) && seen(.surprise(surprise)) ? surprise.fault : nil
        }
        return good?.faultOfHead(response)
    }

    // MARK: What can be used

    /// How long a response may be that is held, and whether there is room.
    public struct Room: Sendable {
        /// nil where nobody knows.
        public let length: Int?
        public let limitBytes: Int
        /// Beyond it content is looked at beside the loop.
        public let examinedAtOnceBytes: Int
        /// What waits for that is held in memory, and that is too much already.
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
    ///   - storage: whether the rules let it be stored.
    ///   - saysGone: whether the head says that what is stored is gone.
    ///   - room: asked for only where the response would be held.
    public func use(_ storage: StorageDecision, saysGone: Bool, _ room: @autoclosure () -> Room) -> ResponseDecision {
        if isLookedUp, request.method != .head, let purpose = purpose(storage, saysGone) {
            let room = room()
            if room.isRefused { return .stream(.storeRefused) }
            if !room.isTooLarge { return .collect(purpose) }
        }
        if case .forbidden(let reason) = storage { return .stream(reason) }
        return .stream(.tooLarge)
    }

    private func purpose(_ storage: StorageDecision, _ saysGone: Bool) -> CollectedFor? {
        switch storage {
        case .allowed: .store
        case .forbidden(let reason) where saysGone: .gone(reason)
        case .forbidden(let reason): mayRescue && status.isSuccessful ? .check(reason) : nil
        }
    }
}

// MARK: The whole

extension CollectedFor {
    /// - Parameters:
    ///   - fault: what its content tells.
    ///   - obstacle: why nobody can tell whether its content is good.
    ///   - mayRescue: whether a copy may go out instead.
    public func decide(
        _ fault: UpstreamFault?, obstacle: NotStoredReason? = nil, mayRescue: Bool, _ strictness: Strictness
    ) -> WholeDecision {
        if case .gone(let reason) = self { return .rememberGone(reason) }
        if let fault { return mayRescue && strictness == .rescue ? .fail(fault) : .passOn(fault.notStored, fault: fault) }
        switch self {
        case .store: return obstacle.map { .passOn($0, fault: nil) } ?? .store
        case .check(let reason), .gone(let reason): return .passOn(reason, fault: nil)
        }
    }
}
