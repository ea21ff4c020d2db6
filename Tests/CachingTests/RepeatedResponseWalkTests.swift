// Random tests of responses that repeat the stored one (`Repetition`): clients receive what the upstream sends, and a rescue has the data
// and the time of the last response that may be stored.

import HTTPCore
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing

private struct Walk {
    private static let contents = ["{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", "{\"a\":1,\"b\":3}", "[1,2,3]"]
    /// Head fields; the last ones forbid storing.
    private static let heads = [
        [], ["X-Total: 1"], ["X-Total: 2"], ["Vary: Accept-Language"], ["Set-Cookie: a=1; Path=/"], ["Cache-Control: no-cache"],
        ["Cache-Control: no-store"], ["Cache-Control: private"],
    ]
    private static let storedHeads = 6

    private let play: ProxyPlay
    private var head: [String] = []
    private var content = Walk.contents[0]
    private var tag: String?
    private var number = 0
    /// The data and the time of the last response that may be stored.
    private var stored: (content: String, tag: String?, milliseconds: Int64)?
    private(set) var (repeated, rescued) = (0, 0)

    /// Whether two contents have equal data. The stored spelling is kept as long as the data does not change.
    private static func areEqual(_ one: String, _ other: String?) -> Bool { canonical(one) == other.flatMap(canonical) }

    private static func canonical(_ text: String) -> [UInt8]? {
        let bytes = Array(text.utf8)
        return CanonicalJSON.make(bytes.span)
    }

    /// - Parameter examinedAtOnceBytes: longer content is examined off the event loop.
    init(examinedAtOnceBytes: Int) throws {
        play = try ProxyPlay(ScriptedOrigin { _ in [] }) { $0.content.examinedAtOnceBytes = examinedAtOnceBytes }
    }

    mutating func step(_ random: inout SeededGenerator) throws {
        play.time.advance(by: .milliseconds(random.below(4_000)))
        switch random.below(10) {
        case 0: content = random.pick(Self.contents)
        case 1: head = random.pick(Self.heads)
        case 2: tag = random.pick([nil, "\"one\"", "\"two\""])
        default: try fetch(&random)
        }
    }

    private mutating func fetch(_ random: inout SeededGenerator) throws {
        number += 1
        let (content, tag) = (content, tag)
        let changing = ["X-Request-Id: \(number)", "RateLimit-Remaining: \(1000 - number)", "Server-Timing: app;dur=\(number)"]
        let fields = head + changing + (tag.map { ["ETag: \($0)"] } ?? [])
        play.origin.react { request in
            let isConfirmed = tag != nil && request["If-None-Match"] == tag
            return isConfirmed
                ? [.send("HTTP/1.1 304 Not Modified\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n")] : [.json(content, fields)]
        }
        let asked: [(String, String)] = random.below(4) == 0 ? [("Cache-Control", "max-age=0")] : []
        let response = try play.get("/x", asked)
        try demand(response.status == 200, "\(response)")
        // A 304 confirms the stored content: the upstream's tag names one content here only if the content did not change.
        let isConfirmed = response["Cache-Status"]?.contains("fwd-status=304") == true
        let received = isConfirmed ? stored?.content ?? "" : content
        try demand(
            isConfirmed ? Self.areEqual(response.text, received) : response.text == received,
            "received \(response.text) instead of \(received)")
        try demand(isConfirmed || response["X-Request-Id"] == "\(number)", "fields of another response: \(response)")
        if isConfirmed || response["Cache-Status"]?.contains("stored") == true { repeated += 1 }
        guard let kind = Self.heads.firstIndex(of: head), kind < Self.storedHeads else { return }
        stored = (received, tag ?? response["ETag"], play.time.wallMilliseconds)
    }

    /// Only at the end: after a failure, background checks would store responses of which the walk does not know.
    mutating func rescue() throws {
        guard let stored else { return }
        play.origin.react { _ in [.json("{}", status: "503 Unavailable")] }
        let response = try play.get("/x")
        try demand(response.status == 200 && Self.areEqual(response.text, stored.content), "\(response.text) instead of \(stored.content)")
        try demand(response["ETag"] == stored.tag, "\(response["ETag"] ?? "-") instead of \(stored.tag ?? "-")")
        let age = (play.time.wallMilliseconds - stored.milliseconds) / 1000
        let received = response["Age"].flatMap { Int64($0) } ?? -1
        try demand(abs(received - age) <= 1, "Age \(received) instead of \(age)")
        rescued += 1
    }
}

@Suite("Responses that repeat the stored one, at random", .play, .clientProtocols)
struct RepeatedResponseWalk {
    @Test("a rescue has the data, the tag and the time of the last response that may be stored")
    func walk() {
        let counts = Mutex((repeated: 0, rescued: 0))
        let isWhole = RandomSchedules.run(100, steps: 40) { random in
            try Walk(examinedAtOnceBytes: random.pick([64 << 10, 16, 0]))
        } step: { walk, random in
            try walk.step(&random)
        } end: { walk in
            try walk.rescue()
            counts.withLock { $0 = ($0.repeated + walk.repeated, $0.rescued + walk.rescued) }
        }
        if isWhole { #expect(counts.withLock { $0.repeated > 1000 && $0.rescued > 50 }) }
    }
}
