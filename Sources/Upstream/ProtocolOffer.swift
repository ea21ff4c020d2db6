// Whether new connections offer HTTP/2 to an upstream that may choose what is spoken. An event in, nothing done; the time is passed in.
//
//     offered ──(broken)──► offered, warned ──(broken)──► HTTP/1.1 for 15 s ──► offered, warned ──(broken)──► HTTP/1.1 for 30 s …
//        └──────────────────────(no streams)─────────────────────▲
//     any ──(HTTP/1.1 asked for)──► HTTP/1.1 for ten minutes
//
// An upstream that was not seen to speak HTTP/1.1 is asked in HTTP/2 however often its rules were broken.

struct ProtocolOffer {
    enum Event: Equatable {
        /// A connection ended since the upstream broke HTTP/2's rules on it. One of several servers may be at fault, or one response.
        case broken
        /// The upstream takes no streams (SETTINGS_MAX_CONCURRENT_STREAMS is 0).
        case takesNoStreams
        /// The upstream has asked for HTTP/1.1 (RFC 9113 §7: HTTP_1_1_REQUIRED, INADEQUATE_SECURITY). A request whose content has gone out cannot be
        /// sent again, so it would fail each time.
        case http1Asked
    }

    /// A good response has come over HTTP/1.1.
    var isHTTP1Known = false
    /// Milliseconds of the loop's clock. HTTP/1.1 alone is offered before.
    private var http1Until: Int64?
    /// When the last event came, or when HTTP/2 was offered again after it.
    private var lastAt: Int64?
    /// Events that came one after the other, each within `memory` of the one before.
    private var count = 0

    private static let firstPause: Int64 = 15_000
    private static let longestPause: Int64 = 10 * 60_000
    /// What lies so far back is forgotten.
    private static let memory: Int64 = 10 * 60_000
    /// From the second event on, each doubles the pause: so many reach the longest.
    private static let highestCount = 8

    func offersHTTP2(at now: Int64) -> Bool { http1Until.map { now >= $0 } ?? true }

    /// - Returns: whether HTTP/1.1 is to be spoken from now on, also in the place of connections that are there.
    mutating func handle(_ event: Event, at now: Int64) -> Bool {
        // What is told by connections of before changes nothing, unless the upstream says it itself.
        guard offersHTTP2(at: now) || event == .http1Asked else { return false }
        if let lastAt, now - lastAt >= Self.memory { count = 0 }
        count = min(Self.highestCount, count + 1)
        lastAt = now
        switch event {
        case .broken where count == 1 || !isHTTP1Known: return false
        case .broken, .takesNoStreams: pause(for: min(Self.longestPause, Self.firstPause << max(0, count - 2)), from: now)
        case .http1Asked: pause(for: Self.longestPause, from: now)
        }
        return true
    }

    /// HTTP/1.1 turned out not to be spoken: HTTP/2 is offered at once.
    mutating func resume(at now: Int64) {
        http1Until = now
        lastAt = now
    }

    private mutating func pause(for milliseconds: Int64, from now: Int64) {
        // The next event is judged as the second one at least.
        count = max(count, 2)
        http1Until = now + milliseconds
        lastAt = http1Until
    }
}
