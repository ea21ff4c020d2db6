// Whether what nodes append comes through. An engine that can be read and takes no writes looks like a fleet in which nobody purges, so a log that is quiet
// for long gets a greeting, by one node for all; and what this node has appended it has to read.

extension LogFollower {
    struct Echo: Hashable, Sendable {
        /// When a new entry was read last.
        var last: Int64
        /// Whether a greeting was asked for since.
        var hasGreeted = false
        /// An entry of this node that is in the log and was not read, and until when it is waited for.
        var awaited: LogPosition?
        var awaitedUntil: Int64 = 0
        /// Why what others say may not come through; nil: it does.
        var failure: BlindCause?

        init(last: Int64) { self.last = last }

        mutating func read(_ now: Int64) { (last, hasGreeted) = (now, false) }

        /// Nodes that meet the log together do not greet together.
        mutating func meet(_ now: Int64, _ quiet: Int64) { (last, hasGreeted) = (max(last, now - quiet / 2), false) }
    }

    /// Milliseconds of quiet until this node greets: each node has another time between half of `quiet` and all of it, and who hears the first does not.
    var greetsAfter: Int64 {
        let half = max(1, limits.quiet / 2)
        return half + Int64(node % UInt64(half))
    }

    mutating func greetInTime(_ now: Int64) -> [Action] {
        guard state == .seeing || state == .mute, !echo.hasGreeted, now - echo.last >= greetsAfter else { return [] }
        echo.hasGreeted = true
        return [.greet]
    }

    /// All is read.
    mutating func finishReading() -> [Action] {
        guard let failure = echo.failure else {
            state = .seeing
            return [.seeing]
        }
        state = .mute
        // What was refused is sent again by itself.
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

    /// What was appended and read has come through.
    mutating func hear() -> [Action] {
        guard let awaited = echo.awaited, awaited <= next else { return [] }
        (echo.awaited, echo.failure) = (nil, nil)
        guard state == .mute else { return [] }
        return finishReading()
    }

    /// - Returns: nil where nothing is overdue.
    mutating func listenForEcho(_ now: Int64) -> [Action]? {
        guard state == .seeing || state == .mute, !owesReading else {
            // Who does not read as yet cannot hear it.
            echo.awaitedUntil = now + limits.silence
            return nil
        }
        guard echo.awaited != nil, now > echo.awaitedUntil else { return nil }
        echo.failure = .unheard
        return leave(.unheard) + [.reconnect]
    }
}
