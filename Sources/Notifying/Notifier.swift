// Turns samples of the service's state into notifications for all targets. Continues over reloads of the settings.

import Dispatch
import Figures
import Glibc
import Logging
import Notifications
import Reactor

public final class Notifier: Sendable {
    private struct Recipient {
        let sender: NotificationSender
        var gate: NotificationGate
        /// Whether it has not been notified of the present conditions.
        var isNew = true
    }

    private struct State {
        var watch: ConditionWatch
        var recipients: [Recipient] = []
    }

    private struct Counted: Hashable {
        let target: String
        let event: NotificationEvent
        let outcome: NotificationOutcome
    }

    private let node: NotifyingNode
    /// Distinguishes the IDs of this process from those of others.
    private let instance = String(UInt32.random(in: .min ... .max), radix: 16)
    private let number = Mutex(0)
    private let logger: Logger
    /// Changed by reloads and on the pages' queue.
    private let state: Mutex<State>
    /// Counts since the start of the process, updated on the senders' queues.
    private let counts = Mutex<[Counted: UInt64]>([:])

    /// - Parameters:
    ///   - fleetNode: number of this process in its fleet; empty if there is none.
    ///   - isContinued: whether this process takes over from another one, which has reported the present conditions.
    public init(fleetNode: String, isContinued: Bool, _ logger: Logger) {
        node = NotifyingNode(name: Self.machine, fleetNode: fleetNode)
        self.logger = logger
        state = Mutex(State(watch: ConditionWatch(isContinued: isContinued)))
    }

    /// Name of this machine.
    public static var machine: String {
        var name = [CChar](repeating: 0, count: 256)
        guard gethostname(&name, name.count - 1) == 0 else { return "unknown" }
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    public var isOn: Bool { state.withLock { !$0.recipients.isEmpty } }

    /// Replaces the targets. Unchanged ones continue. Blocks for up to two seconds, in which removed targets deliver what waits.
    public func use(_ targets: [NotificationTarget]) {
        let removed = state.withLock { state -> [NotificationSender] in
            let former = state.recipients
            state.recipients = targets.map { target in
                former.first { $0.sender.target == target } ?? Recipient(sender: sender(target), gate: NotificationGate(target))
            }
            // Without targets, the conditions are not observed.
            if targets.isEmpty, !former.isEmpty { state.watch = ConditionWatch() }
            return former.map(\.sender).filter { one in !state.recipients.contains { $0.sender === one } }
        }
        Self.finish(removed)
    }

    private func sender(_ target: NotificationTarget) -> NotificationSender {
        NotificationSender(target, logger) { [weak self] event, outcome in
            self?.count(Counted(target: target.name, event: event, outcome: outcome))
        }
    }

    private func count(_ counted: Counted) { counts.withLock { $0[counted, default: 0] += 1 } }

    /// Notifies of what has changed since the last sample.
    public func note(_ sample: NotificationSample) {
        let (sent, omitted) = state.withLock { state -> ([(NotificationSender, Notification)], [Counted]) in
            guard !state.recipients.isEmpty else { return ([], []) }
            let written = { [self] (change: ConditionChange) in
                Notification(change, from: node, id: id(), wall: sample.wall, isDrill: sample.isDrill)
            }
            let present = state.watch.present.map(written)
            let notifications = state.watch.note(sample).map(written)
            var (sent, omitted): ([(NotificationSender, Notification)], [Counted]) = ([], [])
            for index in state.recipients.indices {
                let sender = state.recipients[index].sender
                let summary = state.recipients[index].gate.summary(now: sample.now, wall: sample.wall, from: node, id: id)
                if let summary { sent.append((sender, summary)) }
                defer { state.recipients[index].isNew = false }
                for notification in (state.recipients[index].isNew ? present : []) + notifications {
                    switch state.recipients[index].gate.pass(notification, now: sample.now) {
                    case .passes: sent.append((sender, notification))
                    case .omitted: omitted.append(Counted(target: sender.target.name, event: notification.event, outcome: .dropped))
                    case .unwanted: break
                    }
                }
            }
            return (sent, omitted)
        }
        for counted in omitted { count(counted) }
        for (sender, notification) in sent { sender.append(notification) }
    }

    private func id() -> String {
        let number = number.withLock { number in
            number += 1
            return number
        }
        return "\(instance)-\(number)"
    }

    /// Ends all targets. Blocks for up to two seconds, in which they deliver what waits.
    public func finish() { Self.finish(state.withLock { $0.recipients.map(\.sender) }) }

    private static let finishSeconds = 2

    private static func finish(_ senders: [NotificationSender]) {
        guard !senders.isEmpty else { return }
        let (deadline, group) = (DispatchTime.now() + .seconds(finishSeconds), DispatchGroup())
        for sender in senders { sender.finish(deadline: deadline, group) }
        guard group.wait(timeout: deadline + .milliseconds(200)) == .timedOut else { return }
        for sender in senders { sender.dropAll() }
    }

    // MARK: Figures

    /// Counts of the targets in use, and of former ones.
    public var figures: MetricsSnapshot.Notifications {
        let senders = state.withLock { $0.recipients.map(\.sender) }
        let counts = counts.withLock { $0 }
        var figures = MetricsSnapshot.Notifications()
        figures.waiting = senders.map { ($0.target.name, $0.waiting) }
        for outcome in NotificationOutcome.allCases {
            // Also those that were never counted, so that rates have a first value.
            let zeros = senders.flatMap { sender in
                (sender.target.events + [.summary]).map { (Counted(target: sender.target.name, event: $0, outcome: outcome), UInt64(0)) }
            }
            let all = counts.filter { $0.key.outcome == outcome }.merging(zeros) { known, _ in known }
            figures.counts[outcome.rawValue] = all.map { (target: $0.key.target, event: $0.key.event.rawValue, count: $0.value) }
                .sorted { ($0.target, $0.event) < ($1.target, $1.event) }
        }
        return figures
    }
}
