// Tests the limit of log lines about changes of the upstream's state. Without sockets.

import Testing
import Upstream

@testable import ReverseProxy

@Suite("Rate limit of the log")
struct LogAllowanceTests {
    @Test("each kind of scope gets a limited number of lines a minute, and omitted lines are counted")
    func log() {
        var allowance = LogAllowance()
        var told = 0
        for _ in 0..<1_000 where allowance.take(.key, now: 0) != nil { told += 1 }
        #expect(told == LogAllowance.lines)
        let other = allowance.take(.route, now: 0)
        let early = allowance.take(.key, now: LogAllowance.period - 1)
        let late = allowance.take(.key, now: LogAllowance.period)
        #expect(other == 0 && early == nil && late == 991)
    }
}
