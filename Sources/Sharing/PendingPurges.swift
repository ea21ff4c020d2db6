// The purges that were answered as pending, in the order in which they were asked for.

import Fleet

struct PendingPurges {
    /// A purge may be several messages: a target is one for each scheme.
    typealias Purge = UInt64

    private var kept: [(token: LogWriter.Token, purge: Purge, message: LogMessage)] = []

    /// - Parameter purge: of which it is one message. Those of one purge lie together, though another may be kept in between.
    mutating func keep(_ message: LogMessage, of purge: Purge, _ token: LogWriter.Token) {
        let place = kept.lastIndex { $0.purge == purge }.map { $0 + 1 } ?? kept.endIndex
        kept.insert((token, purge, message), at: place)
    }

    mutating func drop(_ token: LogWriter.Token) { kept.removeAll { $0.token == token } }

    var messages: Set<LogMessage> { Set(kept.map(\.message)) }

    /// What each purge says.
    var purges: [[LogMessage]] {
        var purges: [[LogMessage]] = []
        for place in kept.indices {
            if isFirst(place) { purges.append([kept[place].message]) } else { purges[purges.count - 1].append(kept[place].message) }
        }
        return purges
    }

    var count: Int { kept.indices.count(where: isFirst) }

    private func isFirst(_ place: Int) -> Bool { place == 0 || kept[place].purge != kept[place - 1].purge }
}
