// The shell of one fetch: it asks the upstream, takes the response whole where it may be kept or a stored copy could replace it, has it looked at, and
// hands it to the cache. What comes next is said by `FetchMachine`, what a response is good for by `ResponseDecision`; here it is done. A fetch does not
// know whether a client still waits: one that fills the store goes on without one.

import CachePolicy
import Coordination
import Decisions
import Examination
import HTTPCore
import Identity
import Reactor
import ResponseCache
import Sharing
import Tracing
import Upstream

/// `@unchecked Sendable` because it is touched on its shard's loop only; the worker's results are brought there, and the store's readers do no
/// more than carry it back.
final class Fetch: @unchecked Sendable {
    /// What the failure memory has heard of it.
    struct Report {
        /// The response's status says that the upstream is in trouble.
        var isTrouble = false
        /// It has failed: that is reported once.
        var hasFailed = false
        /// The response is a stream: that it has begun is all that it tells.
        var isStream = false
    }

    let shard: ProxyShard
    let subject: DecidedRequest
    /// Where the response to a POST is stored that may answer later GETs.
    var keysOfGet: TargetKeys?
    /// Made when it is asked for first.
    var placed: PlacedRequest?
    /// Let go of when the response is passed on: the request is not sent again then.
    var body: RequestBody
    /// Where others may wait for what this fetch brings. They are told once.
    private var flight: Flight?
    /// Let go of when the fetch has told its end, or when the client left.
    private(set) var receiver: (any FetchReceiver)?
    private var transfer: Transfer?
    /// Its client's, also where that has left: the upstream is busy all the same.
    var place: AddressBudget.Place?
    var machine = FetchMachine()
    /// What the upstream responds with, without what concerns the connection, where it is not passed on as it comes.
    var response: ResponseHead?
    /// Its status, as soon as that is known.
    var status: Status?
    /// What that says of caching, once it was asked.
    var control: ResponseCacheControl?
    /// The upstream knows a user by the connection, or wants to: the response is its client's alone.
    var isOfConnectionUser: Bool
    var collected = CollectedContent()
    /// Which of the upstream's addresses has responded, by its place.
    var address = 0
    /// Until the response to an unsafe request is there.
    private var identityWrite: IdentityWrite?
    /// Milliseconds of the loop's clock.
    private(set) var began: Int64 = 0
    var report = Report()
    /// What has come and is not to be seen yet.
    var held: HeldResponse?
    /// The response to a write goes out although what it has changed is not in the store's files.
    var goesBeforeMarks = false
    /// The same where the fleet's log does not have it.
    var goesBeforeNodes = false
    /// `FleetLevel.lastTold` before the change.
    var lastToldBefore: UInt64 = 0
    /// Of what comes of it: when the request was sent and its response came, and its place among all that were sent.
    var recency = Recency(
        order: .unknown, isImported: false, requestTime: Timestamp(milliseconds: 0), responseTime: Timestamp(milliseconds: 0))

    /// nil where it is not recorded, or it is over.
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

    /// Sends the request, which the transfer has from then on; the receiver is told at once where it cannot even be tried.
    /// - Parameters:
    ///   - flight: in which others wait for this fetch.
    ///   - cause: why it is made, where no client waits for it.
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

    /// Ends what was learned of the request's tokens, where the response may have changed whom they belong to.
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

    /// When each phase of asking ended.
    var times: TransferTimes { transfer?.times ?? TransferTimes() }

    /// On the connection that carries it, or did.
    var spoken: SpokenProtocol? { transfer?.spoken }

    /// Whether what comes is not the upstream's doing, but practised.
    var isFaulted: Bool { transfer?.fault != nil }

    var clock: Int64 { shard.loop.batchMilliseconds }

    /// What asks; nil where it has been stopped.
    var running: Transfer? { transfer }

    // MARK: The client's side

    /// Returns false where the exchange should wait for `fetchDrained`.
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

    /// Whether nothing has been sent, nothing will change anything, and nobody else waits for it: so nobody misses it if it is never sent. A write
    /// whose content is whole is not among them: its client may have left in the belief that it is done.
    var mayLeaveQueue: Bool {
        shard.loop.assertOnLoop()
        guard case .awaitingHead = machine.state, transfer?.isQueued == true, subject.isReading else { return false }
        return flight.map { !shard.shared.collapsed.hasFollowers($0) } ?? true
    }

    /// The client is gone. What fills the store goes on, unless it still waits for a connection: then others have that sooner. So does a request
    /// that has been sent whole, since it may change something.
    /// - Parameter successor: takes the client's place.
    func abandon(isRequestWhole: Bool, to successor: BackgroundRecord) {
        shard.loop.assertOnLoop()
        receiver = nil
        let action = machine.handle(.abandoned(mayBeStopped: !isRequestWhole || mayLeaveQueue))
        guard case .handOver = action else { return perform(action) }
        successor.fetch = self
        receiver = successor
    }

    // MARK: What the machine says

    /// What needs the event's own data (a head, bytes, a successor) is done where the event comes in.
    func perform(_ action: FetchMachine.Action) {
        switch action {
        case .nothing, .collect, .hold, .stream, .passOn, .passOnHeld, .handOver: break
        case .endStream:
            if !report.isStream { noteSuccess() }
            letGo { $0.streamEnded() }
        case .breakStream(let error):
            span?.work.failure = .transfer(error)
            letGo { $0.streamBroke(error) }
        case .examine(let purpose, let isDelimited): examine(purpose, isDelimited: isDelimited)
        case .readIn(let step): readIn(step)
        case .take(let step): take(step)
        case .bring(let reason, let fault): passOnWhole(reason, fault)
        case .askWithoutConditions:
            // RFC 9111 §4.3.4: a 304 for what is not stored is no response to anybody, so the upstream is asked for the whole.
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

    /// Nothing good comes.
    func fail(_ failure: FetchFailure) {
        span?.work.failure = failure
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

    /// Tells those who wait for this fetch, once.
    func land(_ outcome: FlightOutcome) {
        let (collapsed, client) = (shard.shared.collapsed, subject.scopes.client)
        // A follower takes over what its leader has abandoned.
        if outcome != .abandoned || flight.map(collapsed.hasFollowers) != true { endLease(outcome) }
        let told = outcome == .stored && givesCookie ? .unshareable : outcome
        // With a copy the failure memory decides, and no wait is longer than the soft deadline.
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
            // A response that is the same for all users is stored under another key than the request's own.
            case .stored: place.keys.common == nil ? .stored : .free
            case .unshareable: .eachRequest
            case .failed(let failure) where failure.isOfUpstream: subject.found == nil ? .eachRequest : .eachNode
            case .failed, .outdated, .overtaken, .abandoned: .free
            }
        level.ended(place.keys.own, end, by: subject.scopes.client)
    }

    /// The response is longer than what nodes share. They need not wait for its end.
    func noteTooLongForNodes() {
        guard let level = shard.level, let place = subject.place, place.takesLease else { return }
        level.ended(place.keys.own, .eachNode, by: subject.scopes.client)
    }

    /// Whether content of this length is more than what nodes share.
    func isTooLongForNodes(_ bytes: Int) -> Bool { shard.level.map { bytes > $0.contentLimitBytes } ?? false }

    /// Whether the response begins something with this client, and does not say that others may have it, ever or for a while: who waits for it asks for
    /// himself.
    private var givesCookie: Bool {
        guard let response, response.fields.contains(.setCookie) else { return false }
        let control = ResponseCacheControl(response.fields)
        return !control.isPublic && control.sharedMaxAge ?? control.maxAge ?? 0 <= 0
    }

    /// The receiver hears of the end, and nothing more.
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
        (span.work.address, span.work.status, span.work.isAbandoned) = (address, status?.rawValue ?? 0, isAbandoned)
        (span.work.times, span.work.spoken, span.work.isFaulted) = (times, spoken, isFaulted)
        shard.endSpan(span)
    }
}
