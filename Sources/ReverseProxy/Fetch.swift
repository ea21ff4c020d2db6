// The machine of one fetch: asks the upstream, takes the answer whole where it may be kept or a stored copy could replace it, checks it,
// stores it. It does not know whether a client still waits: a fetch that fills the store goes on without one.

import CachePolicy
import CacheStore
import Downstream
import HTTPCore
import Reactor
import Upstream

final class Fetch: TransferReceiver {
    /// What is done with the answer. Decided once, when its head is there.
    enum Mode {
        case awaitingHead
        /// Taken whole; `decision` is the head's share of whether it is stored.
        case collecting(ResponseHead, StorageDecision)
        /// A 304 to our own conditions.
        case confirming(ResponseHead)
        case streaming
        /// Nobody wants it any more; the rest is read so that the connection can be used again.
        case discarding
        case ended
    }

    /// What the request was, as far as storing needs to know.
    struct Subject {
        let head: RequestHead
        let directives: RequestCacheControl
        /// nil where the store has nothing to do with the request.
        let key: [UInt8]?
        let sharedKey: [UInt8]
        let isPartitioned: Bool
        let found: FoundResponse?
        /// Whether `found` may go out while the upstream fails.
        let mayRescue: Bool
    }

    private let shard: ProxyShard
    private let subject: Subject
    /// Let go of when the fetch has told its end, or when the client left.
    private var receiver: (any FetchReceiver)?
    private var transfer: Transfer?
    private var mode = Mode.awaitingHead
    private var content: [UInt8] = []
    private var checker = JSONTextChecker()
    /// JSON without a content coding is checked piece by piece, so that a large answer holds nobody up at its end.
    private var checksAsItComes = false
    private var discarded = 0
    private var requestTime = Timestamp(milliseconds: 0)
    private var responseTime = Timestamp(milliseconds: 0)

    /// Read and thrown away of an answer that nobody wants; beyond it the connection is closed instead.
    private static let discardLimitBytes = 64 * 1024

    init(shard: ProxyShard, subject: Subject, receiver: any FetchReceiver) {
        self.shard = shard
        self.subject = subject
        self.receiver = receiver
    }

    /// Sends the request. Returns false where it cannot even be tried.
    func start(_ request: UpstreamRequest) -> Bool {
        requestTime = shard.now
        transfer = shard.upstream.start(request, receiver: self)
        return transfer != nil
    }

    // MARK: The client's side

    /// Returns false where the exchange should wait for `fetchDrained`.
    func write(_ bytes: Span<UInt8>) -> Bool { transfer?.write(bytes) ?? true }

    func endContent() { transfer?.endContent() }
    func pause() { transfer?.pause() }
    func resume() { transfer?.resume() }

    /// The client is gone. What fills the store goes on; so does a request that has been sent whole, since it may change something.
    func abandon(isRequestWhole: Bool) {
        receiver = nil
        switch mode {
        case .awaitingHead where !isRequestWhole, .streaming: end()
        case .awaitingHead, .collecting, .confirming, .discarding, .ended: break
        }
    }

    private func end() {
        mode = .ended
        receiver = nil
        transfer?.cancel()
        transfer = nil
    }

    // MARK: The upstream's side

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {
        receiver?.fetchInformed(ResponseHead(status: head.status, reason: head.reason, fields: head.fields.removingHopByHop()))
    }

    func transfer(_ transfer: Transfer, received head: ResponseHead) {
        responseTime = shard.now
        shard.upstreamAnswered(head.status)
        invalidate(after: head)
        let length = head.fields.first(.contentLength).flatMap(DeltaSeconds.length)
        let answer = ResponseHead(status: head.status, reason: head.reason, fields: head.fields.removingHopByHop())
        if let found = subject.found, head.status == 304, Validation.applies(answer, to: found.metadata, head: found.item.head) {
            mode = .confirming(answer)
            return
        }
        // A 304 to our own condition that speaks of something else: the client has not asked for it.
        if subject.found != nil, head.status == 304 { return fail(.fault(.unexpectedStatus, 304)) }
        if subject.mayRescue, let fault = headFault(answer) { return fail(.fault(fault, head.status)) }
        let decision = storageDecision(answer)
        let isTooLarge = length.map { $0 > shard.settings.bufferLimitBytes } ?? false
        let isWanted = decision == .allowed || (subject.mayRescue && answer.status.isSuccessful)
        if subject.head.method == .get, isWanted, !isTooLarge, !head.status.forbidsContent {
            if let length { content.reserveCapacity(length) }
            checksAsItComes = answer.isUncodedJSON
            mode = .collecting(answer, decision)
        } else if case .forbidden(let reason) = decision {
            stream(answer, length: length, reason)
        } else {
            stream(answer, length: length, .tooLarge)
        }
    }

    func transfer(_ transfer: Transfer, content bytes: Span<UInt8>) {
        switch mode {
        case .collecting(let head, _):
            guard content.count + bytes.count <= shard.settings.bufferLimitBytes else {
                return overflow(head, bytes)
            }
            content.append(copying: bytes)
            if checksAsItComes { _ = checker.consume(bytes) }
        case .streaming:
            receiver?.streamBrought(bytes)
        case .discarding:
            discarded += bytes.count
            if discarded > Self.discardLimitBytes { end() }
        case .awaitingHead, .confirming, .ended: break
        }
    }

    func transferEnded(_ transfer: Transfer, isDelimited: Bool) {
        let mode = self.mode
        self.mode = .ended
        self.transfer = nil
        defer { receiver = nil }
        switch mode {
        case .collecting(let head, let decision): collected(head, decision, isDelimited: isDelimited)
        case .confirming(let head): confirmed(head)
        case .streaming: receiver?.streamEnded()
        case .awaitingHead: receiver?.fetchFailed(.transfer(.connectionTerminated))
        case .discarding, .ended: break
        }
    }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        let mode = self.mode
        self.mode = .ended
        self.transfer = nil
        shard.upstreamFailed(error)
        defer { receiver = nil }
        switch mode {
        case .awaitingHead, .collecting, .confirming: receiver?.fetchFailed(.transfer(error))
        case .streaming: receiver?.streamBroke(error)
        case .discarding, .ended: break
        }
    }

    func transferDrained(_ transfer: Transfer) { receiver?.fetchDrained() }

    // MARK: Judging

    private func headFault(_ answer: ResponseHead) -> UpstreamFault? {
        guard let found = subject.found else { return nil }
        return LastGood.faultOfHead(
            answer, storedIsJSON: found.metadata.flags.contains(.isJSON), path: subject.head.target,
            strictness: shard.settings.policy.strictness)
    }

    private func storageDecision(_ answer: ResponseHead) -> StorageDecision {
        guard subject.key != nil else { return .forbidden(.bypassed(subject.head)) }
        return Storing.decide(
            request: subject.head, directives: subject.directives, response: answer, control: ResponseCacheControl(answer.fields),
            isPartitioned: subject.isPartitioned, settings: shard.settings.policy)
    }

    /// A copy goes out instead of this answer; what still comes of it is thrown away.
    private func fail(_ failure: FetchFailure) {
        mode = .discarding
        content = []
        receiver?.fetchFailed(failure)
        receiver = nil
    }

    private func stream(_ head: ResponseHead, length: Int?, _ reason: NotStoredReason) {
        mode = .streaming
        guard let receiver else { return end() }
        receiver.streamBegan(head, length: length, notStored: reason)
    }

    /// Larger than what is held: passed on from here, what was held first.
    private func overflow(_ head: ResponseHead, _ bytes: Span<UInt8>) {
        let held = content
        content = []
        stream(head, length: nil, .tooLarge)
        receiver?.streamBrought(held.span)
        receiver?.streamBrought(bytes)
    }

    private func collected(_ head: ResponseHead, _ decision: StorageDecision, isDelimited: Bool) {
        let check = checkContent(head, isDelimited: isDelimited)
        if let fault = check.fault {
            if subject.mayRescue, shard.settings.policy.strictness == .rescue {
                receiver?.fetchFailed(.fault(fault, head.status))
            } else {
                receiver?.fetchAnswered(WholeAnswer(head: head, content: content, storage: .forbidden(fault.notStored)))
            }
            return
        }
        guard decision == .allowed else {
            receiver?.fetchAnswered(WholeAnswer(head: head, content: content, storage: decision))
            return
        }
        let (bytes, metadata, result) = store(head, check.decoded)
        receiver?.fetchAnswered(WholeAnswer(head: head, content: content, storage: result, storedHead: bytes, metadata: metadata))
    }

    /// The content without its coding, and what is wrong with it.
    private func checkContent(_ head: ResponseHead, isDelimited: Bool) -> (decoded: [UInt8]?, fault: UpstreamFault?) {
        let coding = ContentCoding(head.fields)
        let isJSON = head.fields.first(.contentType).flatMap(MediaType.init)?.isJSON ?? false
        guard coding != .gzip else {
            guard let decoded = try? GzipDecoder.decode(content, limit: shard.settings.bufferLimitBytes) else {
                return (nil, content.isEmpty ? .emptyContent : .undecodable)
            }
            return (decoded, isJSON ? LastGood.faultOfContent(JSONTextChecker.check(decoded.span), isDelimited: isDelimited) : nil)
        }
        // Coded in a way that we cannot take off: it is passed on as it is, and not stored.
        guard coding == .identity else { return (nil, nil) }
        if isJSON { return (nil, LastGood.faultOfContent(checker.finish(), isDelimited: isDelimited)) }
        return (nil, isDelimited ? nil : .unprovenEnd)
    }

    // MARK: Storing

    private func store(_ head: ResponseHead, _ decoded: [UInt8]?) -> (head: [UInt8], metadata: StoredMetadata, result: StorageDecision) {
        let body = decoded ?? content
        var kept = head
        if let via = shard.via { kept.fields.append(.via, via) }
        let (bytes, metadata) = StoredHead.make(
            kept, control: ResponseCacheControl(head.fields), contentBytes: body.count, isDecoded: decoded != nil, requestTime: requestTime,
            responseTime: responseTime)
        guard let key = subject.key, let lookUp = shard.lookUp, !lookUp.isOvertaken(subject.sharedKey, requestTime: requestTime) else {
            return (bytes, metadata, .forbidden(.storeRefused))
        }
        let names = SelectingFields.names(response: head.fields, request: subject.head.fields, settings: shard.settings.policy)
        let result = lookUp.insert(
            key: key, names: names, request: subject.head.fields, metadata: metadata, head: bytes, body: body, now: responseTime)
        return (bytes, metadata, result == .accepted ? .allowed : .forbidden(result == .tooLarge ? .tooLarge : .storeRefused))
    }

    /// How often a confirmation that brings no new freshness is written down: the head in memory is current in any case.
    private static let confirmationInterval: Int64 = 10_000

    private func confirmed(_ answer: ResponseHead) {
        guard let found = subject.found,
            let fresh = Validation.freshened(
                found.metadata, head: found.item.head, by: answer, contentBytes: found.item.body.count, requestTime: requestTime,
                responseTime: responseTime)
        else {
            receiver?.fetchFailed(.fault(.unexpectedStatus, 304))
            return
        }
        let isRecent = responseTime.milliseconds - found.metadata.responseTime.milliseconds < Self.confirmationInterval
        let isSame = fresh.metadata.freshnessLifetime == nil && fresh.metadata.flags == found.metadata.flags
        if !(isRecent && isSame), let lookUp = shard.lookUp, !lookUp.isOvertaken(subject.sharedKey, requestTime: requestTime) {
            lookUp.store.insert(
                NewItem(
                    key: found.key, metadata: fresh.metadata.encoded(), head: fresh.bytes, body: Array(found.item.body), mayRescue: true))
        }
        receiver?.fetchConfirmed(Confirmation(found: found, head: fresh.bytes, metadata: fresh.metadata))
    }

    private func invalidate(after head: ResponseHead) {
        guard !subject.head.method.isSafe, let lookUp = shard.lookUp else { return }
        let targets = Invalidation.targets(
            method: subject.head.method, target: subject.head.pathAndQuery, response: head, origin: shard.origin)
        for target in targets { lookUp.invalidate(shard.sharedKey(of: target, for: subject.head), at: responseTime) }
    }
}

extension ResponseHead {
    fileprivate var isUncodedJSON: Bool {
        fields.first(.contentType).flatMap(MediaType.init)?.isJSON == true && ContentCoding(fields) == .identity
    }
}

extension NotStoredReason {
    /// Why the store had nothing to do with a request.
    fileprivate static func bypassed(_ head: RequestHead) -> NotStoredReason {
        if head.method != .get { return .methodNotCacheable }
        if head.fields.contains(.range) { return .rangeRequest }
        if head.fields.contains(.ifMatch) || head.fields.contains(.ifUnmodifiedSince) || head.fields.contains(.ifRange) {
            return .preconditions
        }
        return .requestContent
    }
}

extension DeltaSeconds {
    /// A Content-Length that the upstream side has checked already.
    fileprivate static func length(_ text: ArraySlice<UInt8>) -> Int? { Int(String(decoding: text, as: UTF8.self)) }
}
