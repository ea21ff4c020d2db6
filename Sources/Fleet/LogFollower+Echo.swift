// Checks whether appended entries arrive. After a long time without entries, one node appends a greeting. Each node must read its own
// entries.

extension LogFollower {
    struct Echo: Hashable, Sendable {
        var last: Int64
        var isHelloSent = false
        /// An own entry that was appended and not read yet, and the time until which it may be missing.
        var awaited: LogPosition?
        var awaitedUntil: Int64 = 0
        /// Why entries may not arrive; nil if they do.
        var failure: DisconnectCause?

        mutating func read(_ now: Int64) { (last, isHelloSent) = (now, false) }

        /// Starts a new period at a time that differs by node, so that nodes that connect at once do not all send a greeting.
        mutating func noteConnection(_ now: Int64, _ quiet: Int64) { (last, isHelloSent) = (max(last, now - quiet / 2), false) }
    }

    /// Milliseconds without entries after which this node sends a greeting: between half of `quiet` and all of it, depending on the node.
    var helloAfter: Int64 {
        let half = max(1, limits.quiet / 2)
        return half + Int64(node % UInt64(half))
    }

    mutating func sendHelloIfQuiet(_ now: Int64) -> [Action] {
        guard state == .upToDate || state == .writesFailing, !echo.isHelloSent, now - echo.last >= helloAfter else { return [] }
        echo.isHelloSent = true
        return [.sendHello]
    }

    mutating func finishReading() -> [Action] {
        guard let failure = echo.failure else {
            state = .upToDate
            return [.upToDate]
        }
        state = .writesFailing
        // The writer repeats refused entries itself; after an unread entry this node sends another greeting.
        return [.disconnected(since: echo.last, failure)] + (failure == .unheard ? [.sendHello] : [])
    }

    mutating func noteAppended(_ position: LogPosition, _ now: Int64) -> [Action] {
        guard state != .disconnected else { return [] }
        if echo.awaited == nil { (echo.awaited, echo.awaitedUntil) = (position, now + limits.silence) }
        return checkEcho()
    }

    mutating func noteRefused() -> [Action] {
        echo.failure = .refused
        guard state == .upToDate else { return [] }
        state = .writesFailing
        return [.disconnected(since: echo.last, .refused)]
    }

    mutating func checkEcho() -> [Action] {
        guard let awaited = echo.awaited, awaited <= next else { return [] }
        (echo.awaited, echo.failure) = (nil, nil)
        guard state == .writesFailing else { return [] }
        return finishReading()
    }

    /// - Returns: nil if no entry is overdue.
    mutating func checkEchoTimeout(_ now: Int64) -> [Action]? {
        guard state == .upToDate || state == .writesFailing, !isReadPaused else {
            echo.awaitedUntil = now + limits.silence
            return nil
        }
        guard echo.awaited != nil, now > echo.awaitedUntil else { return nil }
        echo.failure = .unheard
        return disconnect(.unheard) + [.reconnect]
    }
}
