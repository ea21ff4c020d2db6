// Entries that a former primary had and the present one lacks, such as one that returned with an older dump. Who has read them tells the others by a fence;
// who has not may have missed a purge whose sender has ended, and counts a gap.

extension LogFollower {
    struct Losses: Hashable, Sendable {
        private struct Change: Hashable {
            /// All ids of the former primary lie below.
            var end: LogPosition
            /// How far this node had read them.
            var read: LogPosition
        }

        /// The oldest first.
        private var changes: [Change]
        /// The primary that was met last after a change.
        private var primary: [UInt8]?
        /// The last entries that this node had read of former primaries, and whether the present log has them and no fence doubts them: until all is read.
        private var sought: [LogPosition: Bool] = [:]
        /// A process that was here before has obeyed the fences up to here.
        private let start: LogPosition
        /// The last entries of which others were told that they are lost, and those for which a gap was counted.
        private var told = LogPosition.beginning
        private var obeyed = LogPosition.beginning
        /// Of these the others have to be told.
        var owed: LogPosition?

        private static let limit = 16

        /// - Parameter kept: what an earlier process has read, of one or of several primaries.
        init(kept: LogPosition?) {
            start = kept ?? .beginning
            changes = kept.map { [Change(end: $0, read: .beginning)] } ?? []
        }

        mutating func meet(_ info: LogInfo, isOtherLog: Bool, isNewPrimary: Bool, read: LogPosition, hasGoneBack: Bool) {
            sought = sought.mapValues { _ in false }
            if isOtherLog {
                // What it lost before has concerned others; all that is stored here is in doubt anyway.
                (changes, sought, owed, primary) = ([Change(end: info.last, read: LogPosition(.max, .max))], [:], nil, nil)
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

        /// - Returns: what the log has lost of which this node has not read all; nil: nothing.
        mutating func take(_ fence: Fence) -> LogPosition? {
            if fence.doubtedAfter > .beginning {
                for end in sought.keys where fence.doubtedAfter < end && end < fence.position { sought[end] = false }
            }
            guard let lost = fence.lostUpTo else { return nil }
            told = max(told, lost)
            if let owed, owed <= told { self.owed = nil }
            let change = changes.first { $0.end > lost } ?? changes.last
            guard fence.position > start, lost > obeyed, change.map({ $0.read < lost }) ?? false else { return nil }
            obeyed = lost
            return lost
        }

        /// All is read.
        /// - Returns: of which loss the others have to be told.
        mutating func finish(floor: LogPosition) -> LogPosition? {
            let lost = sought.filter { !$0.value && $0.key > floor }.keys.max()
            if let lost { owed = max(owed ?? .beginning, lost) }
            sought = [:]
            if let owed, owed <= told { self.owed = nil }
            return owed
        }
    }

    mutating func takeLosses(of fence: Fence) -> [Action] {
        let missed = losses.take(fence)
        switch state {
        case .seeing, .mute, .missing: if losses.owed == nil, let met { reached?.primary = met.primary }
        case .away, .catchingUp, .verifying: break
        }
        // Marks of what was lost are in no table that was filled since.
        let floor = fence.lostUpTo.map { [Action.raiseFloor($0)] } ?? []
        return floor + (missed == nil ? [] : [.gap(.lostEntries)])
    }

    mutating func tellLosses(floor: LogPosition) -> [Action] {
        losses.finish(floor: floor).map { [.append(Fence(at: highest, doubtedAfter: highest, lostUpTo: $0))] } ?? []
    }
}
