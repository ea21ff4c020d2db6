// Decides whether new connections offer HTTP/2 to an upstream that may choose the version. A pure state machine; the time is an argument.
//
//     offered ──(broken)──► offered, warned ──(broken)──► HTTP/1.1 for 15 s ──► offered, warned ──(broken)──► HTTP/1.1 for 30 s …
//        └──────────────────────(no streams)─────────────────────▲
//     any ──(HTTP/1.1 required)──► HTTP/1.1 for ten minutes
//
// HTTP/2 is always offered to an upstream that is not known to support HTTP/1.1, however often it breaks the HTTP/2 rules.

struct ProtocolOffer {
    enum Event: Equatable {
        /// A connection ended because the upstream broke the HTTP/2 rules. The cause may be only one of several servers, or one response.
        case broken
        /// The upstream allows no streams (SETTINGS_MAX_CONCURRENT_STREAMS is 0).
        case takesNoStreams
        /// The upstream requires HTTP/1.1 (RFC 9113 §7: HTTP_1_1_REQUIRED). A request with content that was already sent cannot be repeated,
        /// so it would fail each time.
        case http1Asked
        /// The upstream rejects HTTP/2 over this TLS (RFC 9113 §7: INADEQUATE_SECURITY). It need not support HTTP/1.1.
        case inadequateSecurity
    }

    /// Whether a good response over HTTP/1.1 was received, or the upstream has required HTTP/1.1. Error responses over HTTP/1.1 are then
    /// responses to the requests, not to the version.
    var isHTTP1Known = false
    /// End of the period in which only HTTP/1.1 is offered, in milliseconds of the loop's clock; nil if there was none.
    private var http1Until: Int64?
    /// When the last event occurred, or when HTTP/2 was offered again after it; nil before that.
    private var lastAt: Int64?
    /// Number of consecutive events, each within `memory` of the previous one.
    private var count = 0

    private static let firstPause: Int64 = 15_000
    private static let longestPause: Int64 = 10 * 60_000
    /// Time in milliseconds after which earlier events no longer count.
    private static let memory: Int64 = 10 * 60_000
    /// Maximum of `count`, at which the pause has its maximum length. Each event from the second one doubles the pause.
    private static let highestCount = 8

    func offersHTTP2(at now: Int64) -> Bool { http1Until.map { now >= $0 } ?? true }

    /// Handles an event.
    /// - Returns: whether HTTP/1.1 must be used from now on, also instead of existing connections.
    mutating func handle(_ event: Event, at now: Int64) -> Bool {
        // Events of older connections have no effect, unless the upstream itself requires HTTP/1.1.
        guard offersHTTP2(at: now) || event == .http1Asked || event == .inadequateSecurity else { return false }
        if let lastAt, now - lastAt >= Self.memory { count = 0 }
        count = min(Self.highestCount, count + 1)
        lastAt = now
        switch event {
        case .broken where count == 1 || !isHTTP1Known: return false
        case .broken, .takesNoStreams: pause(for: min(Self.longestPause, Self.firstPause << max(0, count - 2)), from: now)
        case .http1Asked:
            isHTTP1Known = true
            pause(for: Self.longestPause, from: now)
        case .inadequateSecurity: pause(for: Self.longestPause, from: now)
        }
        return true
    }

    /// Offers HTTP/2 again at once, because HTTP/1.1 turned out not to be supported.
    mutating func resume(at now: Int64) {
        http1Until = now
        lastAt = now
    }

    private mutating func pause(for milliseconds: Int64, from now: Int64) {
        // The next event counts at least as the second one, so that it starts a pause.
        count = max(count, 2)
        http1Until = now + milliseconds
        lastAt = http1Until
    }
}
