// The purges that were answered as pending, in the order in which they were asked for; and writes that a process could not say before it ended.

import Fleet

/// One message, as it is kept.
struct PendingMessage: Hashable {
    var message: LogMessage
    /// Where it lies in the log; nil: nowhere, as far as is known.
    var place: LogPlace?
    /// Nobody has asked for it, and nobody waits for a replica.
    var isWrite = false
}

/// There may be some thousand, for days: to keep or drop one touches no other.
struct PendingPurges {
    /// A purge may be several messages: a target is one for each scheme.
    typealias Purge = UInt64

    private struct Kept {
        /// Who has the lower one came first.
        let number: UInt64
        var messages: [(token: LogWriter.Token, message: PendingMessage)] = []

        /// That is one by itself.
        var isWrite: Bool { messages.first?.message.isWrite ?? false }
    }

    private var kept: [Purge: Kept] = [:]
    private var purgeOf: [LogWriter.Token: Purge] = [:]
    private var lastNumber: UInt64 = 0
    private var writeCount = 0

    /// What was kept for the token before has only another place.
    /// - Parameter purge: of which it is one message. Those of one purge lie together, though another may be kept in between.
    mutating func keep(_ message: PendingMessage, of purge: Purge, _ token: LogWriter.Token) {
        if let known = purgeOf[token] {
            guard let index = kept[known]?.messages.firstIndex(where: { $0.token == token }) else { return }
            kept[known]?.messages[index].message.place = message.place
            return
        }
        purgeOf[token] = purge
        if kept[purge] == nil {
            lastNumber += 1
            kept[purge] = Kept(number: lastNumber)
            if message.isWrite { writeCount += 1 }
        }
        kept[purge]?.messages.append((token, message))
    }

    mutating func drop(_ tokens: Set<LogWriter.Token>) {
        for token in tokens {
            guard let purge = purgeOf.removeValue(forKey: token), let isWrite = kept[purge]?.isWrite else { continue }
            kept[purge]?.messages.removeAll { $0.token == token }
            guard kept[purge]?.messages.isEmpty == true else { continue }
            kept[purge] = nil
            if isWrite { writeCount -= 1 }
        }
    }

    var messages: Set<LogMessage> { Set(kept.values.lazy.flatMap(\.messages).map(\.message.message)) }

    /// What each purge says; a write is one by itself.
    var purges: [[PendingMessage]] { kept.values.sorted { $0.number < $1.number }.map { $0.messages.map(\.message) } }

    /// How many purges are pending, by why: of a purge's messages the worst counts. Without writes.
    /// - Parameters:
    ///   - unreached: of the messages that are not in the log, as the writer knows them.
    ///   - reached: of all others. It is better than any of those.
    func counts(unreached: [LogWriter.Token: LogWriter.Pending], reached: LogWriter.Pending) -> [LogWriter.Pending: Int] {
        var worst: [Purge: LogWriter.Pending] = [:]
        for (token, cause) in unreached {
            guard let purge = purgeOf[token], kept[purge]?.isWrite == false else { continue }
            worst[purge] = LogWriter.Pending.allCases.first { $0 == cause || $0 == worst[purge] }
        }
        var counts: [LogWriter.Pending: Int] = [:]
        for cause in worst.values { counts[cause, default: 0] += 1 }
        let others = kept.count - writeCount - worst.count
        if others > 0 { counts[reached, default: 0] += others }
        return counts
    }
}
