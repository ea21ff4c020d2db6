// Tests the limits of an hour, and the queue of a target with its retries.

import Testing

@testable import Notifications

@Suite("Limits and retries of notifications")
struct DeliveryTests {
    private static let node = NotifyingNode(name: "n")

    private static func made(_ event: NotificationEvent, api: String = "", id: String = "1") -> Notification {
        let change = ConditionChange(event: event, api: api, subject: "", since: 0, cause: "", parts: [], unreported: 0)
        return Notification(change, from: node, id: id, wall: 0, isDrill: false)
    }

    // MARK: The gate

    @Test("a target gets the selected events of the selected APIs, and those of the process")
    func selected() {
        var target = NotificationTarget("t", .command(["/bin/true"]))
        (target.events, target.apis) = ([.upstreamDown, .storeWritable], ["a"])
        var gate = NotificationGate(target)
        for (event, api, passage) in [
            (.upstreamDown, "a", .passes), (.upstreamDown, "b", .unwanted), (.upstreamUp, "a", .unwanted), (.storeWritable, "", .passes),
        ] as [(NotificationEvent, String, NotificationGate.Passage)] {
            #expect(gate.pass(Self.made(event, api: api), now: 0) == passage, "\(event) \(api)")
        }
    }

    @Test("events beyond the limit of an hour are counted for one summary, and do not hide other conditions")
    func summary() {
        var target = NotificationTarget("t", .command(["/bin/true"]))
        target.perHour = 3
        var gate = NotificationGate(target)
        let passages = (0..<10).map { gate.pass(Self.made(.pathFailing), now: Int64($0) * 1_000) }
        #expect(passages.count { $0 == .passes } == 3 && passages.count { $0 == .omitted } == 7)
        #expect(gate.pass(Self.made(.upstreamDown), now: 11_000) == .passes)
        #expect(gate.summary(now: 3_599_999, wall: 0, from: Self.node) { "s" } == nil)
        let summary = gate.summary(now: 3_600_000, wall: 0, from: Self.node) { "s" }
        #expect(summary?.event == .summary && summary?.omitted.map(\.count) == [7])
        #expect(gate.summary(now: 9_000_000, wall: 0, from: Self.node) { "s" } == nil)
        #expect(gate.pass(Self.made(.pathFailing), now: 9_000_000) == .passes)
    }

    // MARK: Attempts

    @Test(
        "a status is a success, a reason for another attempt, or a rejection",
        arguments: [
            (200, "sent"), (204, "sent"), (302, "rejected"), (307, "rejected"), (400, "rejected"), (401, "rejected"), (404, "rejected"),
            (408, "failed"), (410, "rejected"), (429, "failed"), (500, "failed"), (503, "failed"),
        ])
    func statuses(_ status: Int, _ expected: String) { #expect(Self.word(DeliveryAttempt(status: status, retryAfter: nil)) == expected) }

    @Test(
        "a command asks for another attempt with exit code 75 only",
        arguments: [(0, "sent"), (1, "rejected"), (75, "failed"), (137, "rejected")] as [(Int32, String)])
    func exitCodes(_ code: Int32, _ expected: String) { #expect(Self.word(DeliveryAttempt(exitCode: code)) == expected) }

    private static func word(_ attempt: DeliveryAttempt) -> String {
        switch attempt {
        case .sent: "sent"
        case .failed: "failed"
        case .rejected: "rejected"
        }
    }

    // MARK: The queue

    @Test("pauses double up to five minutes, and an hour after its arrival a notification is given up")
    func retries() {
        var queue = DeliveryQueue(pause: 2_000)
        #expect(queue.append(Self.made(.upstreamDown), now: 0) == nil)
        var (now, pauses): (Int64, [Int64]) = (0, [])
        while true {
            #expect(queue.next(now: now) == .send(Self.made(.upstreamDown)))
            let outcome = queue.finish(.failed("no"), now: now)
            guard outcome == nil else {
                #expect(outcome == .failed)
                break
            }
            guard case .wait(let pause) = queue.next(now: now) else { return #expect(Bool(false)) }
            pauses.append(pause)
            now += pause
        }
        #expect(pauses.prefix(9) == [2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000])
        #expect(now < DeliveryQueue.patience && now >= DeliveryQueue.patience - DeliveryQueue.longestPause)
        #expect(queue.next(now: now) == .idle)
    }

    @Test(
        "Retry-After lengthens the pause, within its limit",
        arguments: [(7, 7_000), (0, 2_000), (-5, 2_000), (1_000_000, 300_000), (Int.max, 300_000)] as [(Int, Int64)])
    func retryAfter(_ seconds: Int, _ pause: Int64) {
        var queue = DeliveryQueue(pause: 2_000)
        _ = queue.append(Self.made(.upstreamDown), now: 0)
        _ = queue.next(now: 0)
        #expect(queue.finish(.failed("busy", after: seconds), now: 0) == nil)
        #expect(queue.next(now: 0) == .wait(milliseconds: pause))
    }

    @Test("a full queue drops the oldest notification that is not being delivered")
    func full() {
        var queue = DeliveryQueue(pause: 1)
        for number in 0..<DeliveryQueue.limit { #expect(queue.append(Self.made(.upstreamDown, id: "\(number)"), now: 0) == nil) }
        #expect(queue.append(Self.made(.upstreamUp, id: "a"), now: 0)?.id == "0")
        #expect(queue.next(now: 0) == .send(Self.made(.upstreamDown, id: "1")))
        #expect(queue.append(Self.made(.upstreamUp, id: "b"), now: 0)?.id == "2")
        #expect(queue.finish(.sent, now: 0) == .sent && queue.count == DeliveryQueue.limit - 1)
        #expect(queue.next(now: 0) == .send(Self.made(.upstreamDown, id: "3")))
        #expect(queue.removeAll().count == DeliveryQueue.limit - 2 && queue.count == 1)
        #expect(queue.finish(.rejected("no"), now: 0) == .failed && queue.next(now: 0) == .idle)
    }
}
