// Tests how long an upstream is requested over HTTP/1.1 after HTTP/2 failures.

import Testing

@testable import Upstream

@Suite("Whether HTTP/2 is offered")
struct ProtocolOfferTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Events with the second of their occurrence.
        let events: [(second: Int64, event: ProtocolOffer.Event)]
        /// Seconds of HTTP/1.1 after the last event.
        let pause: Int64

        init(_ name: String, _ events: [(Int64, ProtocolOffer.Event)], pause: Int64) {
            (testDescription, self.events, self.pause) = (name, events.map { (second: $0.0, event: $0.1) }, pause)
        }
    }

    private static let rows = [
        Row("no events", [], pause: 0),
        Row("one broken connection causes no pause", [(0, .broken)], pause: 0),
        Row("a second broken connection soon after causes a pause", [(0, .broken), (60, .broken)], pause: 15),
        Row("a second broken connection much later causes no pause", [(0, .broken), (600, .broken)], pause: 0),
        Row("a broken connection after the pause doubles the pause", [(0, .broken), (1, .broken), (17, .broken)], pause: 30),
        Row(
            "events of other connections during a pause have no effect", [(0, .broken), (1, .broken), (5, .broken), (6, .takesNoStreams)],
            pause: 10),
        Row("the pause is at most ten minutes", [0, 1, 17, 48, 109, 230, 471, 952, 1_553].map { ($0, .broken) }, pause: 600),
        Row("ten minutes of HTTP/2 without errors reset the pause", [(0, .broken), (1, .broken), (616, .broken)], pause: 0),
        Row("an upstream that accepts no streams causes a pause at once", [(0, .takesNoStreams)], pause: 15),
        Row("an upstream that still accepts no streams doubles the pause", [(0, .takesNoStreams), (15, .takesNoStreams)], pause: 30),
        Row("HTTP_1_1_REQUIRED causes the longest pause at once", [(0, .http1Asked)], pause: 600),
        Row("INADEQUATE_SECURITY, too, but does not show that HTTP/1.1 is supported", [(0, .inadequateSecurity)], pause: 600),
        Row("HTTP_1_1_REQUIRED during a pause extends it", [(0, .takesNoStreams), (5, .http1Asked)], pause: 600),
        Row("a broken connection after HTTP_1_1_REQUIRED is not the first failure", [(0, .http1Asked), (700, .broken)], pause: 30),
    ]

    @Test("HTTP/1.1 is used for the expected time after each event", arguments: rows)
    func pause(row: Row) {
        var offer = ProtocolOffer()
        offer.isHTTP1Known = true
        for (second, event) in row.events { _ = offer.handle(event, at: second * 1_000) }
        let last = (row.events.last?.second ?? 0) * 1_000
        // An earlier event may have started the current pause.
        #expect(offer.offersHTTP2(at: last) == (row.pause == 0))
        if row.pause > 0 {
            #expect(!offer.offersHTTP2(at: last + row.pause * 1_000 - 1))
            #expect(offer.offersHTTP2(at: last + row.pause * 1_000))
        }
    }

    @Test("only the start of a pause is reported")
    func startReported() {
        var offer = ProtocolOffer()
        offer.isHTTP1Known = true
        let told = [ProtocolOffer.Event.broken, .broken, .broken, .http1Asked].map { offer.handle($0, at: 0) }
        #expect(told == [false, true, false, true])
    }

    @Test("HTTP/1.1 without earlier success is used only if the upstream demands it, and not after it failed")
    func unknown() {
        var offer = ProtocolOffer()
        for second in Int64(0)..<10 {
            let pauses = offer.handle(.broken, at: second * 1_000)
            #expect(!pauses && offer.offersHTTP2(at: second * 1_000))
        }
        let pausesForStreams = offer.handle(.takesNoStreams, at: 20_000)
        #expect(pausesForStreams && !offer.offersHTTP2(at: 20_000))
        offer.resume(at: 20_001)
        #expect(offer.offersHTTP2(at: 20_001))
        #expect(!offer.isHTTP1Known)
        let pausesAsAsked = offer.handle(.http1Asked, at: 20_002)
        #expect(pausesAsAsked && !offer.offersHTTP2(at: 20_002) && offer.isHTTP1Known)
    }
}
