// The log of first failures: which failures are logged, how often, and when they end. Without sockets.

import HTTPCore
import Logging
import TestSupport
import Testing

@testable import ReverseProxy
@testable import Upstream

@Suite("Log of first failures")
struct FirstFailureTests {
    private let said = CapturedLines()
    private let health: UpstreamHealth

    init() {
        let logger = Logger(label: "health") { [said] _ in LineHandler(said: said) }
        health = UpstreamHealth(routes: [""], settings: FailureSettings(), logger: logger)
    }

    private func scopes(_ path: String) -> RequestScopes {
        RequestScopes(pathAndQuery: Array(path.utf8)[...], route: nil, user: 0, client: 1)
    }

    private func fail(_ path: String, _ cause: FailureCause = .status(503), at now: Int64) {
        health.fail(scopes(path), cause, began: now, now: now)
    }

    private func succeed(_ path: String, at now: Int64) {
        health.succeed(scopes(path), took: 1, limit: 0, provesUser: true, now: now)
    }

    private static let expired = UpstreamError(.tlsCertificateError, .certificate(10))

    @Test("the first connection failure is logged at once with its cause and setting, and repetitions are not")
    func unreachable() {
        for now in 0..<4 { health.failToReach(Self.expired, certificate: "for DNS:a", began: Int64(now), now: Int64(now)) }
        #expect(
            said.all.map {
                $0.hasPrefix(
                    "the upstream could not be reached (tls_certificate_error: certificate has expired; the certificate is for DNS:a); upstream.verify "
                )
            } == [true])
        health.reach(now: 2_000)
        #expect(said.all.last == "the upstream can be reached again, after 4 failures in 2 s" && said.all.count == 2)
        #expect(health.first.last?.isOver == true)
    }

    @Test("the end of an outage is logged once")
    func scope() {
        for now in 0..<5 { health.failToReach(.connectionRefused, began: Int64(now), now: Int64(now)) }
        #expect(said.count(of: "could not be reached") == 1 && said.count(of: "is down") == 1)
        health.reach(now: 9_000)
        succeed("/a", at: 9_500)
        #expect(said.count(of: "is up again") == 1 && said.all.count == 3, "\(said.all)")
    }

    @Test("the line about an outage names the last cause with its certificate and setting")
    func lastCause() throws {
        health.failToReach(.connectionRefused, began: 0, now: 0)
        for now in 1..<5 { health.failToReach(Self.expired, certificate: "for DNS:a", began: Int64(now), now: Int64(now)) }
        let line = try #require(said.all.last)
        #expect(said.all.count == 2 && said.all[0].hasPrefix("the upstream could not be reached (connection_refused); "))
        let cause = "(tls_certificate_error: certificate has expired; the certificate is for DNS:a)"
        #expect(line.hasPrefix("the upstream is down \(cause): nothing has succeeded for 0 s. "))
        #expect(line.contains("; upstream.verify can stay true"))
    }

    @Test("another cause of an outage is named once, and again only in the next outage")
    func otherCause() throws {
        func alternate(_ times: Range<Int64>) {
            for now in times { health.failToReach(now % 2 == 0 ? .connectionRefused : Self.expired, began: now, now: now) }
        }
        for now in 0..<5 { health.failToReach(.connectionRefused, began: Int64(now), now: Int64(now)) }
        alternate(5..<50)
        #expect(said.count(of: "the upstream is down (connection_refused): ") == 1)
        let other = "the upstream is still down, for another reason (tls_certificate_error: certificate has expired); upstream.verify"
        #expect(said.count(of: other) == 1)
        #expect(said.all.count == 3, "\(said.all)")
        health.reach(now: 100_000)
        succeed("/a", at: 100_000)
        alternate(100_001..<100_050)
        #expect(said.count(of: "is up again") == 1 && said.count(of: "is down (") == 2 && said.count(of: "is still down") == 2)
    }

    @Test("each cause of an unreachable address is named once with its setting")
    func addresses() {
        let addresses = ["https://a", "https://b"]
        for error in [UpstreamError.connectionRefused, Self.expired, .connectionRefused, Self.expired] {
            health.noteAddress(addresses, 0, error, now: 0)
        }
        #expect(said.all.count == 2, "\(said.all)")
        #expect(said.all.first?.hasPrefix("https://a cannot be reached (connection_refused): https://b is used; upstream.url") == true)
        let other = "still cannot be reached, for another reason (tls_certificate_error: certificate has expired): https://b is used; "
        #expect(said.all.last?.hasPrefix("https://a \(other)upstream.verify") == true)
        health.noteAddress(addresses, 0, nil, now: 1)
        health.noteAddress(addresses, 0, nil, now: 1)
        #expect(said.count(of: "https://a can be reached again") == 1 && said.all.count == 3)
        health.noteAddress(addresses, 0, Self.expired, now: 2)
        #expect(said.all.last?.hasPrefix("https://a cannot be reached (tls_certificate_error") == true)
    }

    @Test("an upstream with many causes gets a limited number of lines for one outage")
    func manyCauses() {
        for now in 0..<5 { health.failToReach(.connectionRefused, began: Int64(now), now: Int64(now)) }
        for number in 0..<400 { fail("/a", .status(Status(rawValue: UInt16(500 + number % 100))), at: Int64(number) * 1_000) }
        #expect(said.count(of: "the upstream is still down") == NamedCauses.limit - 1, "\(said.all)")
    }

    @Test("an unreachable address is logged even after many failing paths")
    func addressAfterFailingPaths() {
        for number in 0..<2_000 { fail("/\(number)", at: 0) }
        health.failToReach(.connectionRefused, began: 1, now: 1)
        #expect(said.count(of: "could not be reached") == 1)
    }

    @Test("the end of each path's failure is logged if the upstream as a whole is up")
    func ends() {
        for number in 0..<200 { succeed("/good/\(number)", at: Int64(number)) }
        for number in 0..<5 { fail("/\(number)", at: 11_000) }
        for number in 0..<5 { succeed("/\(number)", at: 12_000) }
        #expect(said.count(of: "failed on /") == 5 && said.count(of: "again, after 1 failure in 1 s") == 5, "\(said.all)")
        #expect(said.count(of: "is down") == 0)
    }

    @Test("a path's first failure and its end are logged at once")
    func path() {
        fail("/a?key=secret", .transfer(UpstreamError(.protocolError, .response(.noColon))), at: 0)
        #expect(said.all == ["the upstream failed on /a (http_protocol_error: a field line has no colon)"])
        succeed("/b", at: 500)
        #expect(said.all.count == 1 && health.first.last?.isOver == false)
        succeed("/a", at: 1_500)
        #expect(said.all.last == "the upstream responds on /a again, after 1 failure in 2 s")
        #expect(health.first.last?.isOver == true)
    }

    @Test("a path that alternates between failure and success gets one failure and one recovery line a minute")
    func flapping() {
        for second in 0..<180 {
            fail("/a", at: Int64(second) * 1_000)
            succeed("/a", at: Int64(second) * 1_000 + 500)
        }
        #expect(said.count(of: "failed on /a") == 3 && said.count(of: "responds on /a again") == 3 && said.count(of: "/a") == 6)
    }

    @Test("many paths have a limited number of lines a minute; omitted lines are counted, and the table is bounded")
    func many() {
        for number in 0..<2_000 { fail("/\(number)", at: 0) }
        let first = said.count(of: "failed on /")
        #expect(first == LogAllowance.lines)
        fail("/late", at: LogAllowance.period)
        #expect(said.count(of: "similar lines omitted") == 1)
        #expect(said.count(of: "failed on /") == LogAllowance.lines + 1)
    }

    @Test("a continuing failure is logged later if the log had no allowance for it before")
    func later() {
        for number in 0..<20 { fail("/\(number)", at: 0) }
        #expect(said.count(of: "failed on /19 ") == 0)
        fail("/19", at: LogAllowance.period)
        #expect(said.count(of: "failed on /19 ") == 1)
    }

    @Test("control characters in a path do not break a log line")
    func cleaned() {
        fail("/a\r\nb\u{1b}[31m", at: 0)
        #expect(said.all == ["the upstream failed on /a??b?[31m (status_503)"])
    }
}
