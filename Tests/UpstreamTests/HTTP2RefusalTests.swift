// Requests with content that the upstream reports as not processed (RFC 9113 §8.7).

import Figures
import HTTP2
import HTTPCore
import TestSupport
import Testing

@testable import Upstream

@Suite("Content of unprocessed HTTP/2 requests", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct HTTP2RefusalTests {
    @Test(
        "a request whose content is buffered is sent again after REFUSED_STREAM and GOAWAY, also a write",
        arguments: ["PUT", "QUERY"], [[OriginStep.resetStream(7)], [.goAway(accepts: false, code: 0)]])
    func refusedContent(method: String, refusal: [OriginStep]) {
        let content = [UInt8](repeating: 0x61, count: 40_000)
        let count = Counter()
        let origin = Way.http2.origin { request in
            let number = count.next()
            return number == 2 || request.target == "/always" ? refusal : [.json("1")]
        }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        #expect(asking.ask("GET", "/first").end() == .success(true))
        for target in ["/once", "/always"] {
            let recorder = asking.ask(method, target, content: .length(content.count)) { $0?.write(whole: content) }
            let isOnce = target == "/once"
            #expect(recorder.end() == (isOnce ? .success(true) : .failure(.connectionTerminated)))
            let sent = origin.requests.filter { $0.target == target }
            #expect(sent.count == 2 && sent.allSatisfy { $0.content == content })
            guard !isOnce, case .goAway = refusal[0] else { continue }
            #expect(recorder.now.error?.cause == .goAway(.noError))
        }
    }
}
