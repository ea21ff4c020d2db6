// Pages of the admin interface that list stored responses and show a single one.

import JSON
import ResponseCache

enum EntryPages {
    private static let pageLimit = 1_000

    /// Lists entries by target. A page begins after the entry of `after`, which need not exist any more.
    @Sendable static func list(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["target", "prefix", "tag", "limit", "after", "api"])
        let (group, caches) = try task.group()
        let limit = try task.request.count("limit", default: 100, in: 1...pageLimit)
        let after = try task.request["after"].map { (text) throws(AdminProblem) in
            guard let position = EntryCursor(text) else { throw .badRequest("after must be the \"next\" of the previous page.") }
            return position
        }
        for name in ["target", "prefix"] where task.request[name]?.hasPrefix("/") == false {
            throw .badRequest("\(name) must begin with a slash.")
        }
        let page = group.list(
            caches.map { cache in
                EntrySelection(
                    prefix: task.request["prefix"].map { EntrySelection.Prefix($0) }, tag: task.request["tag"],
                    target: task.request["target"].map { EntrySelection.Target($0, cache.state.settings.arguments) })
            }, after: after, limit: limit)
        let (apis, now) = (task.interface.apis, task.interface.now)
        task.reply(
            AdminResponse([
                "entries": .array(page.entries.map { $0.entry.summary(now: now, of: apis[$0.api]) }),
                "next": page.next.map { .string($0.text) },
            ]))
    }

    @Sendable static func show(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["secrets"])
        let (api, cache, entry) = try entry(task)
        let gone = cache.gone(beside: entry)?.id
        let showsSecrets = try task.request.flag("secrets")
        task.reply(AdminResponse(entry.details(now: task.interface.now, of: api, gone: gone, showsSecrets: showsSecrets)))
    }

    @Sendable static func content(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        let entry = try entry(task).entry
        guard let content = entry.content else { throw .notFound("The entry's content is damaged.") }
        // The original content type is replaced, so that browsers do not run the content.
        task.reply(AdminResponse(content: content, contentType: "application/octet-stream"))
    }

    private static func entry(_ task: AdminInterface.Task) throws(AdminProblem) -> (
        api: any AdministeredAPI, cache: ResponseCache, entry: StoredEntry
    ) {
        let caches = try task.caches()
        guard let id = EntryID(task.item) else { throw .badRequest("The id of an entry must have 32 hexadecimal digits.") }
        for (api, cache) in caches {
            if let entry = cache.entry(id) { return (api, cache, entry) }
        }
        throw .notFound("No response is stored under this id.")
    }
}
