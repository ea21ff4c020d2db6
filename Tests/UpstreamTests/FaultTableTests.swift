// Tests which requests an injected fault applies to, and its effect on a response. Without sockets or clocks.

import HTTPCore
import Testing
import Upstream

@Suite("Selection of injected faults")
struct FaultTableTests {
    private func choose(_ table: FaultTable, _ target: String, now: Int64 = 0, chance: Int = 0) -> InjectedFault? {
        table.fault(for: Array(target.utf8)[...], now: now) { chance }
    }

    @Test("the first rule whose path and probability match applies until its end")
    func chosen() {
        var table = FaultTable()
        let slow = InjectedFault(.slow(bytesPerSecond: 10))
        let refused = InjectedFault(.refuse)
        #expect(table.add(path: "/orders/**", slow, percent: 20, end: 10) == 1)
        #expect(table.add(path: "/**", refused, percent: 100, end: 20) == 2)
        #expect(choose(table, "/orders/1?a=b", chance: 19) == slow)
        #expect(choose(table, "/orders/1?a=b", chance: 20) == refused)
        #expect(choose(table, "/users") == refused)
        #expect(choose(table, "/orders/1", now: 10) == refused)
        #expect(choose(table, "/orders/1", now: 20) == nil)
        #expect(table.removeEnded(now: 10).map(\.number) == [1])
        #expect(table.remove(3).isEmpty && table.remove(2).map(\.number) == [2] && table.rules.isEmpty)
    }

    @Test("the number of rules is limited, and rule numbers are never reused")
    func limited() {
        var table = FaultTable()
        for number in 1...FaultTable.ruleLimit { #expect(table.add(path: "/a", InjectedFault(.reset), percent: 1, end: 1) == number) }
        #expect(table.add(path: "/a", InjectedFault(.reset), percent: 1, end: 1) == nil)
        #expect(table.remove(nil).count == FaultTable.ruleLimit)
        #expect(table.add(path: "/a", InjectedFault(.reset), percent: 1, end: 1) == FaultTable.ruleLimit + 1)
    }

    @Test(
        "each fault has a description and a kind",
        arguments: [
            (InjectedFault(delay: 5...5, .none), "delay 5 ms", "delay"), (InjectedFault(delay: 5...9, .none), "delay 5–9 ms", "delay"),
            (InjectedFault(.refuse), "refuse", "refuse"), (InjectedFault(.reset), "reset", "reset"),
            (InjectedFault(delay: 1...1, .status(503)), "delay 1 ms, status 503", "status"),
            (InjectedFault(.badJSON), "bad JSON", "bad_json"), (InjectedFault(.cut), "cut content", "cut"),
            (InjectedFault(.slow(bytesPerSecond: 7)), "slow, 7 bytes a second", "slow"),
        ])
    func words(_ fault: InjectedFault, _ text: String, _ kind: String) {
        #expect(fault.text == text && InjectedFault.kinds[fault.kind] == kind)
    }
}

@Suite("A response with an injected fault")
struct FaultyResponseTests {
    typealias Row = (event: FaultyResponse.Event, action: FaultyResponse.Action)

    private func play(_ effect: InjectedFault.Effect, isDelayed: Bool = false, _ rows: [Row]) {
        var response = FaultyResponse(effect, isDelayed: isDelayed)
        for row in rows { #expect(response.handle(row.event) == row.action, "\(row.event)") }
    }

    @Test("a delayed response is held back until the delay has passed")
    func delayed() {
        play(
            .none, isDelayed: true,
            [
                (.headCame(contentLength: 10), .hold), (.contentCame(bytes: 10), .hold), (.ended, .hold), (.waitOver, .release),
                (.headCame(contentLength: 10), .passOn), (.contentCame(bytes: 10), .passOn), (.ended, .passOn),
            ])
    }

    @Test("a cut response ends in the middle of its content, however the content arrives")
    func cut() {
        play(.cut, [(.headCame(contentLength: 10), .passOn), (.contentCame(bytes: 10), .breakAfter(bytes: 5)), (.ended, .hold)])
        play(
            .cut,
            [
                (.headCame(contentLength: 10), .passOn), (.contentCame(bytes: 4), .passOn), (.contentCame(bytes: 1), .breakAfter(bytes: 1)),
            ])
        play(.cut, [(.headCame(contentLength: nil), .passOn), (.contentCame(bytes: 100), .breakAfter(bytes: 64))])
        play(.cut, [(.headCame(contentLength: nil), .passOn), (.contentCame(bytes: 9), .passOn), (.ended, .breakAfter(bytes: 0))])
        play(.cut, [(.headCame(contentLength: 0), .passOn), (.ended, .breakAfter(bytes: 0))])
    }

    @Test("a slow response is delivered at no more than the configured rate")
    func slow() {
        play(
            .slow(bytesPerSecond: 100),
            [
                (.headCame(contentLength: 60), .passOn), (.contentCame(bytes: 50), .holdFor(milliseconds: 500)),
                (.contentCame(bytes: 5), .hold), (.waitOver, .passOnHeld), (.contentCame(bytes: 5), .holdFor(milliseconds: 50)),
                (.ended, .hold), (.waitOver, .passOnHeld), (.ended, .passOn),
            ])
    }
}
