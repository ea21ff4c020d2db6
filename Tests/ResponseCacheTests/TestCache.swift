// A cache with its own store, used as fetches and the administration interface use it. Without sockets. The clock moves only on request.

import CachePolicy
import CacheStore
import HTTPCore
import TestSupport

@testable import ResponseCache

final class TestCache {
    typealias Lines = [(String, String)]

    private let temporary = TestTools.temporaryDirectory()
    let cache: ResponseCache
    private let clock = Clock()
    /// The clock, in milliseconds.
    var now: Int64 {
        get { clock.now }
        set { clock.now = newValue }
    }

    private final class Clock {
        var now: Int64 = 1_795_000_000_000
    }

    /// A second view of a cache, as on another thread.
    static func other(_ shared: APICacheState, mayWait: Bool = true) -> ResponseCache {
        ResponseCache(shared, mayWait: mayWait) { CacheTime(wall: Timestamp(seconds: 1_795_000_000), monotonic: 0) }
    }

    init(residency: ScriptedResidency? = nil, named name: String? = nil, _ configure: (inout ResponseCacheSettings) -> Void = { _ in })
        throws
    {
        var place = StoreSettings(directory: temporary.path, capacityBytes: 16 << 20)
        if let residency { place.residency = residency }
        let store = try ResponseStore(place)
        var settings = ResponseCacheSettings(
            upstream: UpstreamOrigin(Array("http://upstream.test".utf8)), name: name.map { StoredKey.name(ofAPI: $0) })
        settings.policy.credentials.fields = ["authorization", "cookie", "x-user"]
        // Responses differ by Vary only.
        settings.policy.harmlessFields += ["x-a", "x-b", "x-f"]
        configure(&settings)
        cache = ResponseCache(APICacheState(store: store, sent: SentRequests(), settings: settings), mayWait: true) { [clock] in
            CacheTime(wall: Timestamp(milliseconds: clock.now), monotonic: clock.now)
        }
    }

    deinit { cache.store.close() }

    var time: CacheTime { CacheTime(wall: Timestamp(milliseconds: now), monotonic: now) }

    static func fields(_ lines: Lines) -> Fields {
        var fields = Fields()
        for (name, value) in lines { fields.append(name: name, value: value) }
        return fields
    }

    static func request(_ target: String, _ lines: Lines = [], method: HTTPCore.Method = .get) -> RequestHead {
        RequestHead(method: method, target: Array(target.utf8)[...], version: .http11, fields: fields(lines))
    }

    static func response(_ status: Status = 200, _ lines: Lines) -> ResponseHead {
        var fields = fields(lines)
        if !fields.contains(.contentType), !status.forbidsContent { fields.append(name: "Content-Type", value: "application/json") }
        return ResponseHead(status: status, fields: fields)
    }

    // MARK: Fetches

    /// A sent request, with the response that was found for it.
    struct Sent {
        let request: StorableExchange
        let order: SentOrder
        let time: Timestamp
    }

    /// - Parameter other: this cache after a restart.
    func send(
        _ target: String, _ lines: Lines = [], method: HTTPCore.Method = .get, content: String? = nil, by other: ResponseCache? = nil
    ) throws -> Sent {
        let cache = other ?? cache
        let head = Self.request(target, lines, method: method)
        let finding = try cache.find(head, content: content.map { Array($0.utf8) })
        let request = StorableExchange(head, RequestCacheControl(head.fields), keys: finding.keys, found: finding.result.found)
        return Sent(request: request, order: cache.state.sent.next(), time: cache.state.times.ofRequest(time.wall))
    }

    private func recency(_ sent: Sent) -> Recency {
        Recency(order: sent.order, isImported: false, requestTime: sent.time, responseTime: time.wall)
    }

    /// Receives the response, and stores it if permitted.
    @discardableResult
    func complete(
        _ sent: Sent, _ lines: Lines, _ content: String = "{}", status: Status = 200, ownTag: String? = nil, by other: ResponseCache? = nil
    ) -> StorageDecision {
        let cache = other ?? cache
        let response = Self.response(status, lines)
        let decision = cache.decideStoring(response, for: sent.request)
        guard decision == .allowed else { return decision }
        let whole = WholeResponse(
            response, cache.control(response), Array(content.utf8), isDecoded: false, ownTag: ownTag.map { Array($0.utf8) }, recency(sent))
        return cache.store(whole, for: sent.request, at: time).result.decision
    }

    @discardableResult
    func fetch(
        _ target: String, _ request: Lines = [], _ response: Lines = [("Cache-Control", "max-age=60")], _ content: String = "{}"
    ) throws -> StorageDecision {
        complete(try send(target, request), response, content)
    }

    /// Receives a 304.
    func confirm(_ sent: Sent, _ lines: Lines) -> ConfirmationResult? {
        cache.confirm(by: Self.response(304, lines), for: sent.request, recency(sent), at: time)?.result
    }

    /// Receives a response to HEAD.
    func update(_ sent: Sent, _ lines: Lines) {
        cache.update(by: Self.response(200, lines), for: sent.request, recency(sent), now: time.wall)
    }

    /// Receives a complete 404 or 410.
    /// - Parameter client: number of the requesting client.
    func lose(_ sent: Sent, status: Status, _ lines: Lines = [], client: UInt64 = 0) -> Bool {
        let response = Self.response(status, lines)
        let isReplaced =
            sent.request.found.map { cache.noteSurprise(.notFound, insteadOf: $0, for: sent.request, by: client, at: time) } ?? false
        guard status != 404 || !isReplaced else { return false }
        guard cache.saysGone(response, .forbidden(.status), for: sent.request) else { return false }
        return cache.rememberGone(
            WholeResponse(response, cache.control(response), Array("{\"gone\":1}".utf8), isDecoded: false, recency(sent)),
            for: sent.request, at: time)
    }

    /// Receives a successful response to a write.
    func write(
        _ target: String, method: HTTPCore.Method = .put, from request: Lines = [], _ lines: Lines = [], status: Status = 200,
        withCollection: Bool = false
    ) {
        let head = Self.request(target, request, method: method)
        cache.invalidate(after: Self.response(status, lines), to: head, withCollection: withCollection, at: time.wall)
    }

    // MARK: Stored responses

    func found(_ target: String, _ lines: Lines = [], method: HTTPCore.Method = .get, content: String? = nil) throws -> FoundResponse? {
        try cache.find(Self.request(target, lines, method: method), content: content.map { Array($0.utf8) }).result.found
    }

    func text(_ target: String, _ lines: Lines = []) throws -> String? {
        try found(target, lines).map { String(decoding: $0.content, as: UTF8.self) }
    }

    var listed: [String] { cache.list(EntrySelection(), limit: 1_000).entries.map { String(decoding: $0.key.target, as: UTF8.self) } }

    // MARK: Importing

    func take(
        _ target: String, _ request: Lines = [], status: Status = 200, _ response: Lines = [], _ content: String = "{}",
        secondsAgo: Int64 = 0, fault: UpstreamFault? = nil, ownTag: String? = nil
    ) -> ImportResult {
        let moment = Timestamp(milliseconds: now - secondsAgo * 1000)
        let archived = ArchivedResponse(
            request: Self.request(target, request), response: Self.response(status, response), content: Array(content.utf8),
            isDecoded: false, requestTime: moment, responseTime: moment)
        return cache.importArchived(archived, good: GoodResponse(), flaw: fault?.notStored, ownTag: ownTag.map { Array($0.utf8) }, at: time)
    }
}
