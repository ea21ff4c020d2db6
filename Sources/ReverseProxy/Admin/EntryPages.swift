// Listing what is stored, page by page, and showing one answer.

import CachePolicy
import CacheStore
import HTTPCore
import JSON

enum EntryPages {
    private static let pageLimit = 1_000

    /// Sorted by target. A page begins behind the entry that `after` names, whether it is still stored or not.
    @Sendable static func list(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["target", "prefix", "tag", "limit", "after"])
        let store = try task.store
        let limit = try task.request.count("limit", default: 100, in: 1...pageLimit)
        let after = try task.request["after"].map { (text) throws(AdminProblem) in
            guard let place = Place(text) else { throw .badRequest("after must be the \"next\" of the page before.") }
            return place
        }
        let routes = task.interface.server.routes
        let selection = EntrySelection(
            prefix: task.request["prefix"].map { EntrySelection.Prefix($0) }, tag: task.request["tag"],
            target: task.request["target"].map { EntrySelection.Target($0, routes: routes) })
        var page = SortedPage(limit: limit + 1)
        store.visitAll { listed in
            guard let key = StoredKey(Array(listed.key)), selection.mayContain(key) else { return }
            let place = Place(target: key.readableTarget, id: listed.id)
            guard after.map({ $0 < place }) ?? true, page.takes(place), let entry = StoredEntry(listed, in: store),
                selection.contains(entry)
            else { return }
            page.insert(place)
        }
        let now = task.interface.now
        let shown = page.places.prefix(limit)
        // Read again one by one: the page may be older than what has been stored since.
        let entries = shown.compactMap { store.item($0.id).flatMap { StoredEntry($0, in: store) }?.summary(now: now) }
        let next: JSONValue? = page.places.count > limit ? shown.last.map { .string($0.text) } : nil
        task.reply(AdminAnswer(["entries": .array(entries), "next": next]))
    }

    @Sendable static func show(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["secrets"])
        let entry = try entry(task)
        let showsSecrets = try task.request.flag("secrets")
        task.reply(AdminAnswer(entry.details(now: task.interface.now, showsSecrets: showsSecrets)))
    }

    @Sendable static func content(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        let entry = try entry(task)
        let content = withExtendedLifetime(entry.item.owner) { Array(entry.item.body) }
        // What an upstream called its content is never run by a browser here.
        var answer = AdminAnswer(content: content, contentType: "application/octet-stream")
        answer.fieldLines = "X-Content-Type-Options: nosniff\r\n"
        task.reply(answer)
    }

    private static func entry(_ task: AdminInterface.Task) throws(AdminProblem) -> StoredEntry {
        let store = try task.store
        guard let id = StoredItemID(task.item) else { throw .badRequest("An entry's id has 32 hexadecimal digits.") }
        guard let listed = store.item(id), let entry = StoredEntry(listed, in: store) else {
            throw .notFound("Nothing is stored under this id.")
        }
        return entry
    }
}

/// Where an entry stands in the order of all.
struct Place: Comparable {
    let target: String
    let id: StoredItemID

    init(target: String, id: StoredItemID) {
        self.target = target
        self.id = id
    }

    init?(_ text: String) {
        guard let id = StoredItemID(text.prefix(32)), text.dropFirst(32).first == "~" else { return nil }
        self.id = id
        target = String(text.dropFirst(33))
    }

    var text: String { "\(id)~\(target)" }

    static func < (left: Place, right: Place) -> Bool { (left.target, left.id) < (right.target, right.id) }
}

/// The first few places, in order.
private struct SortedPage {
    let limit: Int
    private(set) var places: [Place] = []

    init(limit: Int) { self.limit = limit }

    func takes(_ place: Place) -> Bool { places.count < limit || place < places[limit - 1] }

    mutating func insert(_ place: Place) {
        var (low, high) = (0, places.count)
        while low < high {
            let middle = (low + high) / 2
            if places[middle] < place { low = middle + 1 } else { high = middle }
        }
        places.insert(place, at: low)
        if places.count > limit { places.removeLast() }
    }
}
