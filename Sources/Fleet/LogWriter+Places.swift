// Purges that an earlier process has put into the log: where the log is the same, they are not said again.

extension LogWriter {
    /// What lies in the log that was met is asked of its replicas only; what lay in another one is said again.
    mutating func findPlaces(isNewPrimary: Bool) -> [Action] {
        var (actions, left): ([Action], [Item]) = ([], [])
        for var item in queue {
            guard let place = item.place else {
                left.append(item)
                continue
            }
            guard let log, !isNewPrimary, place.isGiven(by: log) else {
                (item.place, item.isPlaceKept) = (nil, false)
                left.append(item)
                continue
            }
            actions.append(.settle(item.message, at: place.position))
            (item.isSettled, item.isHeld) = (true, false)
            unreached.remove(item)
            unreplicated.append(item)
        }
        queue = left
        return actions + (log.map { dropTrimmed($0) } ?? [])
    }

    /// With no replica nothing is ever durable. What was trimmed was read by all that follow the log, and is a gap for the others: it is over.
    mutating func dropTrimmed(_ seen: LogInfo) -> [Action] {
        guard phase != .away, replicas == 0, let log, log.epoch == seen.epoch, log.primary == seen.primary, seen.last >= log.last else {
            return []
        }
        self.log = seen
        let floor = seen.floor
        guard floor > .beginning else { return [] }
        let isOver = { (item: Item) in item.isTold && item.place.map { $0.position <= floor && $0.isGiven(by: seen) } ?? false }
        return unreplicated.remove(where: isOver).flatMap(\.tokens).map { .dropPending($0) }
    }
}
