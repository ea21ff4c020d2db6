// Purges that are in the log of the primary, and on no replica as far as is known. Where there is no replica there are some thousand of them, for days: so
// what happens to one of them touches no other.

struct UnreplicatedPurges: Hashable, Sendable {
    /// The oldest first.
    private(set) var items: [LogWriter.Item] = []
    /// Of their arguments.
    private(set) var bytes = 0
    /// So many of the first have nothing to be told, nor to be kept.
    private var toldCount = 0

    var count: Int { items.count }
    var isEmpty: Bool { items.isEmpty }
    /// How many were not told, or not kept where they are now.
    var untoldCount: Int { items.count - toldCount }

    mutating func append(_ item: LogWriter.Item) {
        if untoldCount == 0, item.isAllTold { toldCount += 1 }
        bytes += item.message.argument.count
        items.append(item)
    }

    /// Tells those that were not told.
    mutating func tell(_ cause: LogWriter.Pending) -> [LogWriter.Action] {
        var actions: [LogWriter.Action] = []
        for index in toldCount..<items.count { actions += LogWriter.tell(&items[index], cause) }
        toldCount = items.count
        return actions
    }

    /// The oldest, as many as are more than so many or have more bytes.
    mutating func removeSurplus(over limit: Int, bytes byteLimit: Int) -> [LogWriter.Item] {
        var (surplus, left) = (0, bytes)
        while items.count - surplus > limit || left > byteLimit {
            left -= items[surplus].message.argument.count
            surplus += 1
        }
        guard surplus > 0 else { return [] }
        let removed = Array(items.prefix(surplus))
        items.removeFirst(surplus)
        (bytes, toldCount) = (left, max(0, toldCount - surplus))
        return removed
    }

    mutating func remove(where isOver: (LogWriter.Item) -> Bool) -> [LogWriter.Item] {
        let removed = items.filter(isOver)
        guard !removed.isEmpty else { return [] }
        let left = items.filter { !isOver($0) }
        self = UnreplicatedPurges()
        for item in left { append(item) }
        return removed
    }

    mutating func removeAll() -> [LogWriter.Item] {
        defer { self = UnreplicatedPurges() }
        return items
    }
}
