// One request to the upstream. A response that may be stored, or that a stored response could replace, is collected, examined and passed to
// the cache. `FetchMachine` decides the next step, `ResponseDecision` the use of the response. A fetch does not depend on its client: one
// that fills the store continues without it.

import CachePolicy
import Decisions
import Explanation
import HTTPCore
import Identity
import Reactor
import ResponseCache
import Sharing
import Tracing
import Upstream

/// `@unchecked Sendable` because it is used on its shard's loop only; the worker and the store's readers only pass it and their results to
/// that loop.
final class Fetch: @unchecked Sendable {
    /// What was reported to the failure memory.
    struct Report {
        /// The response's status shows that the upstream is in trouble.
        var isTrouble = false
        /// A failure has been reported. It is reported once.
        var hasFailed = false
        /// The response is a stream. Its beginning counts as success.
        var isStream = false
    }

    let shard: ProxyShard
    let subject: DecidedRequest
    /// Key under which the response to a POST may be stored for later GETs; nil if it may not.
    var keysOfGet: TargetKeys?
    /// Created on first use of `placedRequest`.
    var placed: PlacedRequest?
    /// Content of the request. Released when the response is streamed, because the request is not sent again then.
    var body: RequestBody
    /// The flight that this fetch leads. Its followers are notified once.
    private var flight: Flight?
    /// Released when the fetch has reported its end, or when the client has disconnected.
    private(set) var receiver: (any FetchReceiver)?
    private var transfer: Transfer?
    /// Slot in the request budget of the client's address. It is kept after the client has disconnected, because the upstream is still
    /// busy.
    var place: AddressBudget.Place?
    var machine = FetchMachine()
    /// The response without hop-by-hop fields; nil for a response that is streamed.
    var response: ResponseHead?
    /// Status of the response; nil until its head has arrived.
    var status: Status?
    /// Caching directives of the response; nil until they are first used.
    var control: ResponseCacheControl?
    /// The upstream authenticates the connection, or requests that, so the response is for this client only.
    var isOfConnectionUser: Bool
    var collected = CollectedContent()
    /// Index of the upstream address that responded.
    var address = 0
    /// Exists until the response to an unsafe request has arrived.
    private var identityWrite: IdentityWrite?
    /// Milliseconds of the loop's clock.
    private(set) var began: Int64 = 0
    var report = Report()
    /// Part of the response that has arrived and is held back.
    var held: HeldResponse?
    /// The response to a write is sent although its marks are not in the store's files.
    var goesBeforeMarks = false
    /// The response to a write is sent although its marks are not in the fleet log.
    var goesBeforeNodes = false
    /// `FleetLevel.lastTold` before the change.
    var lastToldBefore: UInt64 = 0
    /// Times of the request and its response, and the request's number among all requests sent.
    var recency = Recency(
        order: .unknown, isImported: false, requestTime: Timestamp(milliseconds: 0), responseTime: Timestamp(milliseconds: 0))

    /// nil if tracing does not record the fetch, or once it has ended.
    private(set) var span: FetchSpan?

    init(
        shard: borrowing ProxyShard, subject: borrowing DecidedRequest, body: RequestBody, receiver: borrowing any FetchReceiver
    ) {
        self.shard = copy shard
        self.subject = copy subject
        self.body = body
        self.receiver = copy receiver
        isOfConnectionUser = subject.owned != nil
    }

    /// Sends the request. The receiver is notified at once if the request cannot be sent.
    /// - Parameters:
    ///   - flight: the flight that this fetch leads; nil if there is none.
    ///   - cause: cause of a background fetch; nil if a client waits.
    func start(_ request: consuming UpstreamRequest, leads flight: Flight?, because cause: BackgroundCause? = nil) {
        shard.loop.assertOnLoop()
        span = shard.beginSpan(&request, for: subject, cause)
        self.flight = flight
        shard.noteCookies(sentWith: subject)
        began = clock
        request.shares = shard.shares(of: subject.scopes)
        request.client = subject.scopes.client == 0 ? nil : subject.scopes.client
        if case .streamed = body { request.shares.append(StreamedContent.share(of: shard.settings.upstream.maximumConnections)) }
        if !subject.isSafe { shard.cache?.readAhead(forWrite: subject.head) }
        if !subject.isReading { identityWrite = shard.beginIdentityWrite(subject.head) }
        ask(request)
    }

    private func ask(_ request: consuming UpstreamRequest) {
        noteSending()
        span?.asked = SystemTime.monotonicMicroseconds
        transfer = shard.ask(request, for: self)
        guard transfer != nil else { return perform(machine.handle(.transferFailed(.connectionLimitReached))) }
        if case .whole(let content) = body { transfer?.write(whole: content.bytes) }
    }

    /// Discards identity data of the request's tokens if the response may have changed whom they identify.
    func noteIdentity(_ response: ResponseHead) {
        identityWrite?.isRejected = response.status.rawValue / 100 == 4
        identityWrite = nil
        shard.noteIdentity(response, to: subject.head)
    }

    func noteSending() {
        recency.requestTime = shard.cache?.shared.timeOfRequest(at: shard.now) ?? shard.now
        recency.order = shard.takeSentOrder()
    }

    func becomeStream() -> Bool { transfer?.becomeStream() ?? false }

    /// End times of the phases of the transfer.
    var times: TransferTimes { transfer?.times ?? TransferTimes() }

    /// Protocol of the connection that carries the request, or carried it.
    var spoken: SpokenProtocol? { transfer?.spoken }

    /// Whether the outcome comes from an injected fault.
    var isFaulted: Bool { transfer?.fault != nil }

    var clock: Int64 { shard.loop.batchMilliseconds }

    /// The active transfer; nil once it has been stopped.
    var running: Transfer? { transfer }

    // MARK: The client's side

    /// Returns false if the exchange must wait for `fetchDrained` before it writes more.
    func write(_ bytes: Span<UInt8>) -> Bool {
        shard.loop.assertOnLoop()
        return transfer?.write(bytes) ?? true
    }

    func endContent() {
        shard.loop.assertOnLoop()
        transfer?.endContent()
    }

    func pause() {
        shard.loop.assertOnLoop()
        transfer?.pause()
    }

    func resume() {
        shard.loop.assertOnLoop()
        transfer?.resume()
    }

    /// Whether the fetch may be cancelled while it waits for a connection: nothing has been sent, nothing would change, and no request
    /// follows it. A complete write is excluded, because its client may have disconnected in the belief that it is done.
    var mayLeaveQueue: Bool {
        shard.loop.assertOnLoop()
        guard case .awaitingHead = machine.state, transfer?.isQueued == true, subject.isReading else { return false }
        return flight.map { !shard.shared.collapsed.hasFollowers($0) } ?? true
    }

    /// Called when the client has disconnected. A fetch that fills the store continues, unless it still waits for a connection that other
    /// requests need. A request that was sent completely continues too, because it may change something.
    /// - Parameter successor: becomes the receiver of a fetch that continues.
    func abandon(isRequestWhole: Bool, to successor: BackgroundRecord) {
        shard.loop.assertOnLoop()
        receiver = nil
        let action = machine.handle(.abandoned(mayBeStopped: !isRequestWhole || mayLeaveQueue))
        guard case .handOver = action else { return perform(action) }
        successor.fetch = self
        receiver = successor
    }

    // MARK: Actions of the state machine

    /// Actions that need the data of their event, such as a head or bytes, are performed where the event is handled.
    func perform(_ action: FetchMachine.Action) {
        switch action {
        case .nothing, .collect, .hold, .stream, .passOn, .passOnHeld, .handOver: break
        case .endStream:
            if !report.isStream { noteSuccess() }
            letGo { $0.streamEnded() }
        case .breakStream(let error):
            span?.work.upstream.failure = .transfer(error)
            letGo { $0.streamBroke(error) }
        case .examine(let purpose, let isDelimited): examine(purpose, isDelimited: isDelimited)
        case .readIn(let step): readIn(step)
        case .take(let step): take(step)
        case .bring(let reason, let fault): passOnWhole(reason, fault)
        case .askWithoutConditions:
            // RFC 9111 §4.3.4: a 304 that matches no stored response cannot be used, so the request is repeated without conditions.
            guard var request = transfer?.request else { return }
            Validation.removeConditions(from: &request.fields)
            control = nil
            ask(request)
        case .fail(let fault):
            note(fault)
            collected.removeAll()
            fail(fault)
        case .failTransfer(let error): fail(.transfer(error))
        case .failAndStop(let fault):
            fail(fault)
            stop()
        case .turnAway:
            fail(.tooManyStreams)
            stop()
        case .stop: stop()
        }
    }

    private func fail(_ fault: UpstreamFault) { fail(.fault(fault, status ?? 502)) }

    /// Ends the fetch without a usable response.
    func fail(_ failure: FetchFailure) {
        span?.work.upstream.failure = failure
        if isOutage(failure), let found = subject.found { shard.cache?.noteFailed(found, at: shard.cacheTime) }
        land(.failed(failure))
        letGo { $0.fetchFailed(failure) }
    }

    private func stop() {
        place = nil
        receiver = nil
        endSpan(isAbandoned: true)
        land(.abandoned)
        transfer?.cancel()
        transfer = nil
    }

    /// Reports the outcome to the followers and to the lease, once.
    func land(_ outcome: FlightOutcome) {
        let (collapsed, client) = (shard.shared.collapsed, subject.scopes.client)
        // A follower takes over an abandoned fetch, and with it the lease.
        if outcome != .abandoned || flight.map(collapsed.hasFollowers) != true { endLease(outcome) }
        let told = outcome == .stored && givesCookie ? .unshareable : outcome
        // If there is a stored response, the failure memory decides, and no wait exceeds the soft deadline.
        let isRemembered = told == .unshareable || subject.found == nil
        if let flight {
            self.flight = nil
            collapsed.end(flight, told, by: client, now: clock, isRemembered: isRemembered)
        } else if let place = subject.place, place.sharing != .none {
            collapsed.note(told, of: place.flight, upstream: clock - began, by: client, now: clock, isRemembered: isRemembered)
        }
    }

    private func endLease(_ outcome: FlightOutcome) {
        guard let level = shard.level, let place = subject.place, place.takesLease else { return }
        let end: LeaseEnd =
            switch outcome {
            // A response for all users is stored under another key than that of the request.
            case .stored: place.keys.common == nil ? .stored : .free
            case .unshareable: .eachRequest
            case .failed(let failure) where failure.isOfUpstream: subject.found == nil ? .eachRequest : .eachNode
            case .failed, .outdated, .overtaken, .abandoned: .free
            }
        level.ended(place.keys.own, end, by: subject.scopes.client)
    }

    /// Ends the wait of other nodes, because the response is longer than what nodes share.
    func noteTooLongForNodes() {
        guard let level = shard.level, let place = subject.place, place.takesLease else { return }
        level.ended(place.keys.own, .eachNode, by: subject.scopes.client)
    }

    /// Whether content of this length exceeds what nodes share.
    func isTooLongForNodes(_ bytes: Int) -> Bool { shard.level.map { bytes > $0.contentLimitBytes } ?? false }

    /// Whether the response sets a cookie and permits no reuse by other clients (`public`, or a positive lifetime). Followers then send
    /// their own requests.
    private var givesCookie: Bool {
        guard let response, response.fields.contains(.setCookie) else { return false }
        let control = ResponseCacheControl(response.fields)
        return !control.isPublic && control.sharedMaxAge ?? control.maxAge ?? 0 <= 0
    }

    /// Reports the end to the receiver and releases it.
    func letGo(_ tell: (any FetchReceiver) -> Void) {
        place = nil
        endSpan()
        guard let receiver else { return }
        self.receiver = nil
        tell(receiver)
    }

    private func endSpan(isAbandoned: Bool = false) {
        guard let span else { return }
        self.span = nil
        span.work.isAbandoned = isAbandoned
        span.work.upstream.note(self)
        shard.endSpan(span)
    }
}
