// Whether appended entries come through. If the log is quiet for long, one node appends a greeting. Each node has to read its own entries.

extension LogFollower {
    struct Echo: Hashable, Sendable {
        var last: Int64
        var hasGreeted = false
        /// An own entry that is in the log and was not read, and until when it may be missing.
        var awaited: LogPosition?
        var awaitedUntil: Int64 = 0
        /// Why entries may not come through; nil: they do.
        var failure: BlindCause?

        init(last: Int64) { self.last = last }

        mutating func read(_ now: Int64) { (last, hasGreeted) = (now, false) }

        /// Nodes that connect together do not greet together.
        mutating func meet(_ now: Int64, _ quiet: Int64) { (last, hasGreeted) = (max(last, now - quiet / 2), false) }
    }

    /// Milliseconds of quiet until this node greets: between half of `quiet` and all of it, by node.
    var greetsAfter: Int64 {
        let half = max(1, limits.quiet / 2)
        return half + Int64(node % UInt64(half))
    }

    mutating func greetInTime(_ now: Int64) -> [Action] {
        guard state == .seeing || state == .mute, !echo.hasGreeted, now - echo.last >= greetsAfter else { return [] }
        echo.hasGreeted = true
        return [.greet]
    }

    mutating func finishReading() -> [Action] {
        guard let failure = echo.failure else {
            state = .seeing
            return [.seeing]
        }
        state = .mute
        // The writer repeats refused entries automatically; after an unread entry this node greets again.
        return [.blind(since: echo.last, failure)] + (failure == .unheard ? [.greet] : [])
    }

    mutating func noteAppended(_ position: LogPosition, _ now: Int64) -> [Action] {
        guard state != .away else { return [] }
        if echo.awaited == nil { (echo.awaited, echo.awaitedUntil) = (position, now + limits.silence) }
        return hear()
    }

    mutating func noteRefused() -> [Action] {
        echo.failure = .refused
        guard state == .seeing else { return [] }
        state = .mute
        return [.blind(since: echo.last, .refused)]
    }

    mutating func hear() -> [Action] {
        guard let awaited = echo.awaited, awaited <= next else { return [] }
        (echo.awaited, echo.failure) = (nil, nil)
        guard state == .mute else { return [] }
        return finishReading()
    }

    /// - Returns: nil: not overdue.
    mutating func listenForEcho(_ now: Int64) -> [Action]? {
        guard state == .seeing || state == .mute, !owesReading else {
            echo.awaitedUntil = now + limits.silence
            return nil
        }
        guard echo.awaited != nil, now > echo.awaitedUntil else { return nil }
        echo.failure = .unheard
        return leave(.unheard) + [.reconnect]
    }
}
