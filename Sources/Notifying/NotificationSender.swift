// Delivers the notifications of one target, one after another, on its own queue. Nothing waits for it.

import Dispatch
import Logging
import Notifications
import Reactor

/// `@unchecked Sendable` because mutable state is behind a mutex, or used on `serial` only.
final class NotificationSender: @unchecked Sendable {
    let target: NotificationTarget
    private let logger: Logger
    private let onOutcome: @Sendable (NotificationEvent, NotificationOutcome) -> Void
    private let serial: DispatchQueue

    private struct State {
        var queue: DeliveryQueue
        /// Deadline for the last attempts; nil before `finish`.
        var deadline: DispatchTime?
        var lines = LossLines()
    }

    /// The notifier appends; `serial` removes.
    private let state: Mutex<State>

    // Used on `serial` only.
    private var isFailing = false
    private var isTimerSet = false

    /// - Parameter onOutcome: called once for each notification, from any thread.
    init(
        _ target: NotificationTarget, _ logger: Logger, onOutcome: @escaping @Sendable (NotificationEvent, NotificationOutcome) -> Void
    ) {
        (self.target, self.logger, self.onOutcome) = (target, logger, onOutcome)
        serial = DispatchQueue(label: "cistern.notify.\(target.name)", qos: .utility)
        state = Mutex(State(queue: DeliveryQueue(pause: target.pauseMilliseconds)))
    }

    var waiting: Int { state.withLock { $0.queue.count } }

    func append(_ notification: Notification) {
        let (lost, hasEnded) = state.withLock { state -> (Notification?, Bool) in
            state.deadline == nil ? (state.queue.append(notification, now: Self.now), false) : (notification, true)
        }
        if let lost { lose(lost, .dropped, hasEnded ? "the process stops, or has other settings" : "\(DeliveryQueue.limit) others wait") }
        serial.async { self.run() }
    }

    /// Makes one attempt for each waiting notification, until the deadline.
    /// - Parameter group: left when all is done.
    func finish(deadline: DispatchTime, _ group: DispatchGroup) {
        state.withLock { state in
            state.deadline = deadline
            state.queue.hurry()
        }
        group.enter()
        serial.async {
            self.run()
            self.dropAll()
            group.leave()
        }
    }

    /// Drops what is left after the deadline.
    func dropAll() {
        let rest = state.withLock { $0.queue.removeAll() }
        for notification in rest { lose(notification, .dropped, "the process stops, or has other settings") }
    }

    private static var now: Int64 { SystemTime.shared.monotonicMilliseconds }

    /// Remaining milliseconds until the deadline; nil before `finish`.
    private var patience: Int? {
        state.withLock { $0.deadline }.map { deadline in
            let now = DispatchTime.now()
            return deadline > now ? Int((deadline.uptimeNanoseconds - now.uptimeNanoseconds) / 1_000_000) : 0
        }
    }

    // MARK: On the queue

    private func run() {
        while patience != 0 {
            switch state.withLock({ $0.queue.next(now: Self.now) }) {
            case .idle: return
            case .wait(let milliseconds): return patience == nil ? wake(after: milliseconds) : ()
            case .send(let notification):
                let attempt = NotificationChannel.deliver(notification, to: target) { patience }
                note(attempt.trouble)
                if let outcome = state.withLock({ $0.queue.finish(attempt, now: Self.now) }) { end(notification, outcome, attempt) }
            }
        }
    }

    private func wake(after milliseconds: Int64) {
        guard !isTimerSet else { return }
        isTimerSet = true
        serial.asyncAfter(deadline: .now() + .milliseconds(Int(milliseconds))) { [weak self] in
            self?.isTimerSet = false
            self?.run()
        }
    }

    private func end(_ notification: Notification, _ outcome: NotificationOutcome, _ attempt: DeliveryAttempt) {
        guard outcome != .sent else { return onOutcome(notification.event, .sent) }
        lose(notification, outcome, attempt.trouble ?? "unknown cause")
    }

    /// Logs that attempts fail, or succeed again, once per change.
    private func note(_ trouble: String?) {
        guard isFailing != (trouble != nil) else { return }
        isFailing = trouble != nil
        if let trouble {
            logger.warning("notifications to \(target.name) cannot be delivered: \(trouble)")
        } else {
            logger.notice("notifications to \(target.name) are delivered again")
        }
    }

    private func lose(_ notification: Notification, _ outcome: NotificationOutcome, _ reason: String) {
        onOutcome(notification.event, outcome)
        guard let omitted = state.withLock({ $0.lines.take(now: Self.now) }) else { return }
        let more = omitted == 0 ? "" : " (\(omitted) similar lines omitted)"
        logger.error("the notification \(notification.event.rawValue) to \(target.name) was not delivered: \(reason)\(more)")
    }
}

/// Limits the log lines about lost notifications to one a minute.
private struct LossLines {
    private static let period: Int64 = 60_000

    private var lastAt: Int64?
    private var omitted = 0

    /// Returns the number of lines omitted before this one; nil if this line must be omitted.
    mutating func take(now: Int64) -> Int? {
        if let lastAt, now - lastAt < Self.period {
            omitted += 1
            return nil
        }
        defer { (lastAt, omitted) = (now, 0) }
        return omitted
    }
}
