// Tables of the decisions about an upstream response, by its head and by its content. Without sockets.

import CachePolicy
import Decisions
import HTTPCore
import Testing

private func fields(_ lines: [String]) -> Fields {
    var fields = Fields()
    for line in lines {
        let parts = line.split(separator: ":", maxSplits: 1)
        fields.append(name: String(parts[0]), value: String(parts[1].drop { $0 == " " }))
    }
    return fields
}

struct HeadRow: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let status: Status
    let lines: [String]
    let expected: ResponseDecision?
    var method = Method.get
    var sent: [String] = []
    var hasCopy = true
    var usesStore = true
    var hasOtherRescue = false
    var mayRescue = true
    var strictness = Strictness.rescue
    var isStream = false
    /// Unexpected responses of other targets.
    var seen: [UnexpectedResponse] = []

    init(
        _ name: String, _ status: Status, _ lines: [String], _ expected: ResponseDecision?, _ change: (inout HeadRow) -> Void = { _ in }
    ) {
        (testDescription, self.status, self.lines, self.expected) = (name, status, lines, expected)
        change(&self)
    }

    /// A stored response with the validator `"1"`.
    static let copy = StoredHead.make(
        ReceivedResponse(
            ResponseHead(status: 200, reason: [], fields: fields(["ETag: \"1\"", "Content-Type: application/json"])),
            control: ResponseCacheControl(), contentBytes: 2, requestTime: noon, responseTime: noon),
        settings: CachePolicySettings())

    func decide<Result>(_ body: (borrowing ResponseFacts, ResponseHead) -> Result) -> Result {
        let request = RequestHead(method: method, target: Array("/a".utf8)[...], version: .http11, fields: fields(sent))
        let response = ResponseHead(status: status, reason: [], fields: fields(lines))
        var facts = ResponseFacts(
            request, sent: fields(sent).known, status, copy: hasCopy ? Self.copy.metadata : nil, strictness: strictness)
        facts.mayRescue = hasCopy && mayRescue
        facts.isLookedUp = method != .post && usesStore
        facts.isStream = isStream
        return body(facts, response)
    }
}

@Suite("Decisions on an upstream response")
struct ResponseDecisionTests {
    private static let json = "Content-Type: application/json"
    private static let asked = "If-None-Match: \"1\""

    private static let heads: [HeadRow] = [
        HeadRow("a good response can be used", 200, [json], nil),
        HeadRow("a 304 with the validator of the stored response", 304, ["ETag: \"1\""], .confirm) { $0.sent = [asked] },
        HeadRow("a 304 with another validator", 304, ["ETag: \"2\""], .fetchUnconditionally) { $0.sent = [asked] },
        HeadRow("a 304 to a request without conditions", 304, [], .fail(.unexpectedStatus)),
        HeadRow("a 304 to QUERY from the store without conditions", 304, [], .fail(.unexpectedStatus)) { $0.method = .query },
        HeadRow("a 304 to a write without conditions is passed on", 304, [], nil) { ($0.method, $0.hasCopy) = (.post, false) },
        HeadRow("a 206 to a write without Range is passed on", 206, [json], nil) { ($0.method, $0.hasCopy) = (.post, false) },
        HeadRow("a 304 to the client's condition", 304, [], nil) { ($0.sent, $0.hasCopy) = ([asked], false) },
        HeadRow("a 304 to a request that does not use the store", 304, [], nil) { ($0.usesStore, $0.hasCopy) = (false, false) },
        HeadRow("a 206 to a request without Range", 206, ["Content-Range: bytes 0-1/9"], .fail(.unexpectedStatus)),
        HeadRow("a 206 to a request without Range, for long", 206, [], nil) { $0.seen = [.lasting] },
        HeadRow("a 206 to a request without Range, nothing is stored", 206, [json], nil) { $0.hasCopy = false },
        HeadRow("a part in bytes to a request without Range", 206, ["Content-Range: bytes 0-1/9"], .fail(.unexpectedStatus)) {
            $0.hasCopy = false
        },
        HeadRow("parts in bytes to a request without Range", 206, ["Content-Type: multipart/byteranges"], .fail(.unexpectedStatus)) {
            $0.hasCopy = false
        },
        HeadRow("a part in bytes to a request that does not use the store", 206, ["Content-Range: bytes 0-1/9"], nil) {
            ($0.usesStore, $0.hasCopy) = (false, false)
        },
        HeadRow("a 206 in a unit of the API to a request without Range", 206, [json, "Content-Range: 0-4/20"], nil),
        HeadRow("a 206 in items to a request without Range", 206, [json, "Content-Range: items 0-4/20"], nil),
        HeadRow("a 412 to the cache's own condition", 412, [], .fetchUnconditionally) { ($0.method, $0.sent) = (.query, [asked]) },
        HeadRow("a 412 of the application", 412, [json], nil) { $0.method = .query },
        HeadRow("a 503, a response is stored", 503, [json], .fail(.serverError)),
        HeadRow("a 503, nothing is stored", 503, [json], nil) { $0.hasCopy = false },
        HeadRow("a 503, a public response may rescue", 503, [json], .fail(.serverError)) {
            ($0.hasCopy, $0.hasOtherRescue) = (false, true)
        },
        HeadRow("a 429 to this user, a public response may rescue", 429, [json], nil) { ($0.hasCopy, $0.hasOtherRescue) = (false, true) },
        HeadRow("a 403 to this user, a public response may rescue", 403, [json], nil) { ($0.hasCopy, $0.hasOtherRescue) = (false, true) },
        HeadRow("a 503, the stored response may not rescue", 503, [json], nil) { $0.mayRescue = false },
        HeadRow("HTML instead of JSON", 200, ["Content-Type: text/html"], .fail(.unexpectedType)),
        HeadRow("HTML instead of JSON in strict mode", 200, ["Content-Type: text/html"], nil) { $0.strictness = .strict },
        HeadRow("HTML instead of JSON, requested with Accept", 200, ["Content-Type: text/html"], .fail(.unexpectedType)) {
            $0.sent = ["Accept: text/html"]
        },
        HeadRow("another type than stored, requested with Accept", 200, ["Content-Type: text/csv"], nil) { $0.sent = ["Accept: text/csv"] },
        HeadRow("HTML instead of JSON for long", 200, ["Content-Type: text/html"], nil) { $0.seen = [.lasting] },
        HeadRow("a redirect to another resource", 303, ["Location: /results/1"], nil),
        HeadRow("a 204 where content is stored is forwarded, also while many targets return 404", 204, [], nil) {
            $0.seen = [.surprise(.notFound)]
        },
        HeadRow("a 404", 404, [json], nil), HeadRow("a 403 in HTML", 403, ["Content-Type: text/html"], nil),
        HeadRow("a 404 that many targets return", 404, [json], .fail(.crowd)) { $0.seen = [.surprise(.notFound)] },
        HeadRow("a 403 in HTML that many targets return", 403, ["Content-Type: text/html"], .fail(.crowd)) {
            $0.seen = [.surprise(.forbidden)]
        },
        HeadRow("a 403 in JSON that many targets return", 403, [json], nil) { $0.seen = [.surprise(.forbidden)] },
        HeadRow("a 404 that many targets return, in strict mode", 404, [json], nil) {
            ($0.seen, $0.strictness) = ([.surprise(.notFound)], .strict)
        },
        HeadRow("a 404 that many targets return, the stored response may not rescue", 404, [json], nil) {
            ($0.seen, $0.mayRescue) = ([.surprise(.notFound)], false)
        },
        HeadRow("a 404 that many targets return, after the client's own write", 404, [json], nil) {
            $0.seen = [.surprise(.notFound), .afterOwnWrite]
        },
        HeadRow("a 503 after the client's own write", 503, [json], .fail(.serverError)) { $0.seen = [.afterOwnWrite] },
        HeadRow("HTML that other clients do not receive", 200, ["Content-Type: text/html"], nil) { $0.seen = [.otherForm] },
        HeadRow("an unrequested 206 after the client's own write", 206, [], .fail(.unexpectedStatus)) {
            $0.seen = [.otherForm, .afterOwnWrite]
        },
        HeadRow("a 503 to a range request, a response is stored", 503, [], .fail(.serverError)) { $0.sent = ["Range: bytes=0-1"] },
        HeadRow("a stream where JSON is stored", 200, ["Content-Type: text/event-stream"], .stream(.stream)) {
            $0.isStream = true
        },
        HeadRow("a part of another type", 206, ["Content-Type: text/html"], nil) { $0.sent = ["Range: bytes=0-1"] },
    ]

    @Test("the head of a response gives the expected decision", arguments: heads)
    func head(_ row: HeadRow) {
        let decision = row.decide { facts, response in
            facts.judge(response, beside: HeadRow.copy.bytes.span, hasOtherRescue: { row.hasOtherRescue }, row.seen.contains)
        }
        #expect(decision == row.expected)
    }

    private static func room(_ length: Int?, isFull: Bool = false) -> ResponseFacts.Capacity {
        ResponseFacts.Capacity(length: length, limitBytes: 1_000, examinedAtOnceBytes: 100, isExaminerFull: isFull)
    }

    private static func use(
        _ storage: StorageDecision, saysGone: Bool = false, room: ResponseFacts.Capacity = room(10),
        _ change: (inout HeadRow) -> Void = { _ in }
    ) -> ResponseDecision {
        HeadRow("", 200, [json], nil, change).decide { facts, _ in facts.use(storage, saysGone: saysGone, room) }
    }

    @Test("streams are recognized by content type, status, method and route")
    func streams() {
        func isStream(_ type: String, _ status: Status = 200, to method: HTTPCore.Method = .get, route: Bool = false) -> Bool {
            let response = ResponseHead(status: status, reason: [], fields: fields(["Content-Type: \(type)"]))
            return StreamedResponse.isStream(response, to: method, onStreamRoute: route)
        }
        let types = ["text/event-stream", "Text/Event-Stream; charset=utf-8", "application/x-ndjson", "application/jsonl"]
        let others = ["application/json-seq", "application/geo+JSON-seq; charset=utf-8", "application/stream+json"]
        for type in types + others + ["application/json; stream=1", "application/connect+json"] {
            #expect(isStream(type) && isStream(type, to: .post))
            #expect(!isStream(type, to: .head) && !isStream(type, 204) && !isStream(type, 500))
        }
        for type in [
            "application/json", "text/plain", "application/json-seq-x", "application/a+json-seq-x", "application/json; charset=utf-8",
            "application/json;streams=1", "text/plain;stream=1", "application/stream+jsonx", "",
        ] {
            #expect(!isStream(type) && isStream(type, route: true) && !isStream(type, 404, route: true))
        }
        func isWanted(_ accept: String...) -> Bool { StreamedResponse.isWanted(by: fields(accept.map { "Accept: \($0)" })) }
        #expect(isWanted("text/event-stream") && isWanted("application/x-ndjson, application/jsonl;q=0.5"))
        #expect(!isWanted() && !isWanted("") && !isWanted("*/*") && !isWanted("application/json, text/event-stream"))
        #expect(!isWanted("text/event-stream", "*/*"))
    }

    @Test("a storable response is collected if it fits the limits")
    func stored() {
        #expect(Self.use(.allowed) == .collect(.store))
        #expect(Self.use(.allowed, room: Self.room(nil)) == .collect(.store))
        #expect(Self.use(.allowed, room: Self.room(1_000)) == .collect(.store))
        #expect(Self.use(.allowed, room: Self.room(1_001)) == .stream(.tooLarge))
        // A long response is streamed while the worker is busy; a short one is not.
        #expect(Self.use(.allowed, room: Self.room(101, isFull: true)) == .stream(.storeRefused))
        #expect(Self.use(.allowed, room: Self.room(nil, isFull: true)) == .stream(.storeRefused))
        #expect(Self.use(.allowed, room: Self.room(100, isFull: true)) == .collect(.store))
    }

    @Test("a response that is not stored is collected only if a stored response could replace it")
    func checked() {
        #expect(Self.use(.forbidden(.noStore)) == .collect(.check(.noStore)))
        #expect(Self.use(.forbidden(.noStore), room: Self.room(1_001)) == .stream(.noStore))
        #expect(Self.use(.forbidden(.noStore)) { $0.hasCopy = false } == .stream(.noStore))
        #expect(Self.use(.forbidden(.noStore)) { $0.mayRescue = false } == .stream(.noStore))
        #expect(Self.use(.forbidden(.methodNotCacheable)) { $0.method = .head } == .stream(.methodNotCacheable))
        // A response to this method is never stored.
        #expect(Self.use(.forbidden(.methodNotCacheable)) { $0.method = .post } == .stream(.methodNotCacheable))
    }

    @Test("a response that reports the resource gone is remembered beside the stored response")
    func gone() {
        #expect(Self.use(.forbidden(.status), saysGone: true) == .collect(.gone(.status)))
        #expect(Self.use(.allowed, saysGone: true) == .collect(.store))
        #expect(CollectedFor.gone(.status).decide(nil, mayFail: true, .rescue) == .rememberGone(.status))
        #expect(CollectedFor.gone(.status).decide(.invalidJSON, mayFail: true, .rescue) == .rememberGone(.status))
    }

    @Test("invalid content never replaces a stored response, and is passed on if there is none")
    func whole() {
        #expect(CollectedFor.store.decide(nil, mayFail: true, .rescue) == .store)
        #expect(CollectedFor.store.decide(.invalidJSON, mayFail: true, .rescue) == .fail(.invalidJSON))
        #expect(CollectedFor.store.decide(.invalidJSON, mayFail: true, .strict) == .passOn(.invalidJSON, fault: .invalidJSON))
        #expect(CollectedFor.store.decide(.shrunk, mayFail: false, .rescue) == .passOn(.notGood, fault: .shrunk))
        #expect(CollectedFor.check(.noStore).decide(nil, mayFail: true, .rescue) == .passOn(.noStore, fault: nil))
        // Content that could not be examined is not a failure.
        #expect(CollectedFor.store.decide(nil, obstacle: .tooLarge, mayFail: true, .rescue) == .passOn(.tooLarge, fault: nil))
        #expect(CollectedFor.store.decide(nil, obstacle: .tooDeep, mayFail: false, .strict) == .passOn(.tooDeep, fault: nil))
        #expect(CollectedFor.check(.noStore).decide(nil, obstacle: .tooDeep, mayFail: true, .rescue) == .passOn(.noStore, fault: nil))
        #expect(CollectedFor.check(.noStore).decide(.emptyContent, mayFail: true, .rescue) == .fail(.emptyContent))
    }
}
