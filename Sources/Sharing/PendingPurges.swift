// The purges that were answered as pending, in the order in which they were requested; and writes that a process could not append before it ended.

import Fleet

/// One message, as it is kept.
struct PendingMessage: Hashable {
    var message: LogMessage
    /// Nobody waits for a replica to have it.
    var isWrite = false
}

/// There may be some thousand, for days: to keep or drop one touches no other.
struct PendingPurges {
    private var kept: [LogWriter.Token: PendingMessage] = [:]
    private var writeCount = 0

    mutating func keep(_ message: PendingMessage, _ token: LogWriter.Token) {
        guard kept.updateValue(message, forKey: token) == nil, message.isWrite else { return }
        writeCount += 1
    }

    mutating func drop(_ tokens: Set<LogWriter.Token>) {
        for token in tokens where kept.removeValue(forKey: token)?.isWrite == true { writeCount -= 1 }
    }

    var messages: Set<LogMessage> { Set(kept.values.lazy.map(\.message)) }

    /// Tokens are given in the order of the purges.
    var all: [PendingMessage] { kept.sorted { $0.key < $1.key }.map(\.value) }

    /// How many purges are pending, by cause. Without writes.
    /// - Parameter unreached: those that are not in the log. All others wait for a replica.
    func counts(unreached: [LogWriter.Token: LogWriter.Pending]) -> [LogWriter.Pending: Int] {
        var counts: [LogWriter.Pending: Int] = [:]
        for (token, cause) in unreached where kept[token]?.isWrite == false { counts[cause, default: 0] += 1 }
        let others = kept.count - writeCount - counts.values.reduce(0, +)
        if others > 0 { counts[.notReplicated] = others }
        return counts
    }
}
