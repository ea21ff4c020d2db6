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

struct PendingPurges {
    /// A purge may be several messages: a target is one for each scheme.
    typealias Purge = UInt64

    private var kept: [(token: LogWriter.Token, purge: Purge, message: PendingMessage)] = []
    /// Where each of them lies in the log, if it does.
    private var places: [LogWriter.Token: LogPlace?] = [:]

    /// What was kept for the token before has only another place.
    /// - Parameter purge: of which it is one message. Those of one purge lie together, though another may be kept in between.
    mutating func keep(_ message: PendingMessage, of purge: Purge, _ token: LogWriter.Token) {
        guard places.updateValue(message.place, forKey: token) == nil else { return }
        let place = kept.lastIndex { $0.purge == purge }.map { $0 + 1 } ?? kept.endIndex
        kept.insert((token, purge, message), at: place)
    }

    mutating func drop(_ tokens: Set<LogWriter.Token>) {
        for token in tokens { places[token] = nil }
        kept.removeAll { tokens.contains($0.token) }
    }

    var messages: Set<LogMessage> { Set(kept.map(\.message.message)) }

    /// What each purge says; a write is one by itself.
    var purges: [[PendingMessage]] {
        var purges: [[PendingMessage]] = []
        for index in kept.indices {
            var message = kept[index].message
            message.place = places[kept[index].token] ?? nil
            if isFirst(index) { purges.append([message]) } else { purges[purges.count - 1].append(message) }
        }
        return purges
    }

    /// How many purges are pending, by why: of a purge's messages the worst counts. Without writes.
    /// - Parameter causes: of the messages, as the writer knows them.
    func counts(_ causes: [LogWriter.Token: LogWriter.Pending]) -> [LogWriter.Pending: Int] {
        var counts: [LogWriter.Pending: Int] = [:]
        var worst: LogWriter.Pending?
        for index in kept.indices.reversed() where !kept[index].message.isWrite {
            let cause = causes[kept[index].token] ?? .notReached
            worst = LogWriter.Pending.allCases.first { $0 == cause || $0 == worst }
            guard isFirst(index), let cause = worst else { continue }
            counts[cause, default: 0] += 1
            worst = nil
        }
        return counts
    }

    private func isFirst(_ place: Int) -> Bool { place == 0 || kept[place].purge != kept[place - 1].purge }
}
