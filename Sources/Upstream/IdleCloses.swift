// Learns how soon the upstream closes idle connections, so that an unsafe request does not use a connection that is about to be closed.
// A pure state machine; times are in milliseconds, and the time is an argument.

struct IdleCloses {
    /// Maximum idle time of a connection for an unsafe request if nothing was learned.
    private let standard: Int64
    /// Shortest idle time after which the upstream closed a connection, as of `since`; nil if none is known.
    private var shortest: Int64?
    private var since: Int64 = 0
    /// Number of connections, since the last relevant close, that outlasted `shortest`.
    private var outlasted = 0

    private static let doublingTime: Int64 = 60_000
    /// Number of connections that must stay open longer than the shortest time. Then it doubles before its minute is over. This limits the
    /// effect of a restart of the upstream, and of one client whose requests break connections.
    private static let outlastedBeforeDoubling = 16

    init(standard: Int64) { self.standard = standard }

    /// Whether an unsafe request may use a connection that has been idle for this time.
    func allowsWrite(after idle: Int64, at now: Int64) -> Bool {
        guard let current = current(at: now) else { return idle <= standard }
        return idle < current / 2
    }

    /// Handles the close of an idle connection by the upstream. A close after more than twice the shortest time is compatible with a
    /// doubled one, so it does not keep it from doubling.
    mutating func noteClose(after idle: Int64, at now: Int64) {
        let current = current(at: now) ?? 2 * standard
        guard idle < 2 * current, idle < 2 * standard else { return }
        (shortest, since, outlasted) = (min(current, max(1, idle)), now, 0)
    }

    /// Handles a connection that is still open after this idle time.
    /// - Returns: whether the connection has outlasted the shortest time. It counts once; the caller remembers that.
    mutating func noteOpen(after idle: Int64, at now: Int64) -> Bool {
        guard let current = current(at: now), idle >= current else { return false }
        outlasted += 1
        if outlasted == Self.outlastedBeforeDoubling { (shortest, since, outlasted) = (2 * current, now, 0) }
        return true
    }

    /// The shortest time, doubled for each minute; nil if it no longer has an effect.
    private func current(at now: Int64) -> Int64? {
        guard let shortest else { return nil }
        let current = shortest << min(30, (now - since) / Self.doublingTime)
        return current < 2 * standard ? current : nil
    }
}
