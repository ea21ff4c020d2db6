// Entries that a former primary had and the present one lacks. A node that has read them notifies the others with a fence. A node that has
// not counts a gap.

extension LogFollower {
    struct Losses: Hashable, Sendable {
        private struct Change: Hashable {
            /// Upper bound of the former primary's ids.
            var end: LogPosition
            /// Position of this node in them.
            var read: LogPosition
        }

        private var changes: [Change]
        /// The last primary after a change.
        private var primary: [UInt8]?
        /// The last entries read of former primaries, and whether the present log has them without doubt. Empty after the catch-up.
        private var sought: [LogPosition: Bool] = [:]
        /// An earlier process has applied the fences up to here.
        private let start: LogPosition
        /// The last lost entries that were announced, and for which a gap was counted.
        private var announced = LogPosition.beginning
        private var countedLoss = LogPosition.beginning
        /// To be announced.
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
                // A new log puts all stored responses in doubt anyway.
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

        /// - Returns: the end of a loss of which this node has not read all; nil: none.
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

        /// - Returns: the loss to be announced.
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
        // A table filled since then lacks the lost marks.
        let floor = fence.lostUpTo.map { [Action.raiseFloor($0)] } ?? []
        return floor + (missed == nil ? [] : [.gap(.lostEntries)])
    }

    mutating func announceLosses(floor: LogPosition) -> [Action] {
        losses.finish(floor: floor).map { [.append(Fence(at: highest, doubtedAfter: highest, lostUpTo: $0))] } ?? []
    }
}
