// Entries that a former primary had and the current one does not have. A node that has read them notifies the others by a fence. A node
// that has not read them counts a gap.

extension LogFollower {
    struct Losses: Hashable, Sendable {
        private struct Change: Hashable {
            /// Upper bound of the former primary's ids.
            var end: LogPosition
            /// Position up to which this node has read that primary's entries.
            var read: LogPosition
        }

        private var changes: [Change]
        /// The last primary of the log.
        private var primary: [UInt8]?
        /// The last entries read from former primaries, and whether the current log certainly contains them. Empty after the catch-up.
        private var sought: [LogPosition: Bool] = [:]
        /// Position up to which an earlier process has applied the fences.
        private let start: LogPosition
        /// The last lost entries that were announced, and those for which a gap was counted.
        private var announced = LogPosition.beginning
        private var countedLoss = LogPosition.beginning
        /// Loss that is not announced yet; nil if there is none.
        var unannounced: LogPosition?

        private static let limit = 16

        /// - Parameter kept: position of an earlier process.
        init(kept: LogPosition?) {
            start = kept ?? .beginning
            changes = kept.map { [Change(end: $0, read: .beginning)] } ?? []
        }

        mutating func noteConnection(_ info: LogInfo, isOtherLog: Bool, isNewPrimary: Bool, read: LogPosition, hasGoneBack: Bool) {
            sought = sought.mapValues { _ in false }
            if isOtherLog {
                // A new log makes all stored responses doubtful anyway.
                (changes, sought, unannounced, primary) = ([Change(end: info.last, read: LogPosition(.max, .max))], [:], nil, nil)
                return
            }
            guard isNewPrimary, primary != info.primary || hasGoneBack else { return }
            primary = info.primary
            if sought.count < Self.limit { sought[read] = false }
            changes.append(Change(end: read, read: read))
            guard changes.count > Self.limit else { return }
            changes[1].read = min(changes[0].read, changes[1].read)
            changes.removeFirst()
        }

        mutating func lift(to highest: LogPosition) {
            if primary != nil, !changes.isEmpty { changes[changes.count - 1].end = max(changes[changes.count - 1].end, highest) }
        }

        mutating func found(_ position: LogPosition) { if sought[position] != nil { sought[position] = true } }

        /// - Returns: the end of a loss that this node has not read completely; nil if there is none.
        mutating func take(_ fence: Fence) -> LogPosition? {
            if fence.doubtedAfter > .beginning {
                for end in sought.keys where fence.doubtedAfter < end && end < fence.position { sought[end] = false }
            }
            guard let lost = fence.lostUpTo else { return nil }
            announced = max(announced, lost)
            if let unannounced, unannounced <= announced { self.unannounced = nil }
            let change = changes.first { $0.end > lost } ?? changes.last
            guard fence.position > start, lost > countedLoss, change.map({ $0.read < lost }) ?? false else { return nil }
            countedLoss = lost
            return lost
        }

        /// - Returns: the loss to announce; nil if there is none.
        mutating func finish(floor: LogPosition) -> LogPosition? {
            let lost = sought.filter { !$0.value && $0.key > floor }.keys.max()
            if let lost { unannounced = max(unannounced ?? .beginning, lost) }
            sought = [:]
            if let unannounced, unannounced <= announced { self.unannounced = nil }
            return unannounced
        }
    }

    mutating func takeLosses(of fence: Fence) -> [Action] {
        let missed = losses.take(fence)
        switch state {
        case .upToDate, .writesFailing, .missing: if losses.unannounced == nil, let connectedLog { reached?.primary = connectedLog.primary }
        case .disconnected, .catchingUp, .verifying: break
        }
        // A mark table that was filled since then does not contain the lost marks.
        let floor = fence.lostUpTo.map { [Action.raiseFloor($0)] } ?? []
        return floor + (missed == nil ? [] : [.gap(.lostEntries)])
    }

    mutating func announceLosses(floor: LogPosition) -> [Action] {
        losses.finish(floor: floor).map { [.append(Fence(at: highest, doubtedAfter: highest, lostUpTo: $0))] } ?? []
    }
}
