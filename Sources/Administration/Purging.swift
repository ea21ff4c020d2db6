// Removes stored responses, or marks them stale, by ID, target, prefix, tag, or all. The reply is sent after the purge is on disk, so the
// purge survives a crash.

import CachePolicy
import HTTPCore
import JSON
import ResponseCache

enum Purging {
    private static let kinds = ["id", "target", "prefix", "tag", "all"]

    @Sendable static func perform(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(kinds + ["soft", "api"])
        let (group, caches) = try task.group()
        guard kinds.filter({ task.request[$0] != nil }).count == 1 else {
            throw .badRequest("Give exactly one of \(kinds.joined(separator: ", ")).")
        }
        guard caches[0].canPurge else {
            throw .unavailable("The cache directory is not writable, so a purge would be lost at the next restart.")
        }
        let isSoft = try task.request.flag("soft")
        let isAboutStore = task.request["all"] != nil && task.request["api"] == nil
        var wanted: [PurgeSelection] = []
        for cache in caches { wanted.append(try selection(task.request, cache.state.settings.arguments)) }
        let announced = task.server.announcePurge(try fleetSelection(task, group), isSoft: isSoft)
        caches[0].beginPurge(at: task.interface.now)
        // A loop that read the clock earlier may be storing a response. After a turn of each loop, such a response is stored and found.
        task.server.afterEachLoop { [wanted] in
            task.interface.later {
                let count = isAboutStore ? group.purgeStore(isSoft: isSoft) : group.purge(wanted, isSoft: isSoft)
                guard let announced else { return task.reply(AdminResponse(["purged": .integer(count), "soft": .bool(isSoft)])) }
                announced.publish { task.reply(response(count, isSoft: isSoft, $0)) }
            }
        }
    }

    /// 202 if other nodes will apply the purge later.
    private static func response(_ count: Int, isSoft: Bool, _ reach: PurgeReach) -> AdminResponse {
        let summary: (nodes: String, reason: String?) =
            switch reach {
            case .durable: ("durable", nil)
            case .pending(let reason): ("pending", reason)
            case .local: ("not_told", "too_many_pending")
            }
        var response = AdminResponse([
            "purged": .integer(count), "soft": .bool(isSoft), "nodes": .string(summary.nodes),
            "reason": summary.reason.map { .string($0) } ?? .null,
        ])
        if reach != .durable { response.status = 202 }
        return response
    }

    /// The purge as other nodes receive it. Their entries have other IDs, so a purge by ID becomes a purge by target.
    private static func fleetSelection(_ task: AdminInterface.Task, _ group: CacheGroup) throws(AdminProblem) -> FleetSelection {
        let apiIndexes = try task.apiIndexes()
        let apis = apiIndexes.count == task.interface.apis.count ? [] : apiIndexes.map { task.interface.apis[$0].name }
        if let text = task.request["id"] {
            guard let id = EntryID(text), let key = group.key(of: id) else { return FleetSelection(.nothing) }
            return FleetSelection(.target, String(decoding: key.typedTarget, as: UTF8.self), apis: key.api.map { [$0] } ?? [])
        }
        for (name, kind) in [("target", FleetSelection.Kind.target), ("prefix", .prefix), ("tag", .tag)] {
            if let value = task.request[name] { return FleetSelection(kind, value, apis: apis) }
        }
        return FleetSelection(.everything, apis: apis)
    }

    private static func selection(_ request: AdminRequest, _ arguments: ArgumentTable) throws(AdminProblem) -> PurgeSelection {
        if let text = request["id"] {
            guard let id = EntryID(text) else { throw .badRequest("The id of an entry must have 32 hexadecimal digits.") }
            return .id(id)
        }
        if let target = request["target"] {
            guard target.hasPrefix("/") else { throw .badRequest("target must be a path that begins with a slash, with its arguments.") }
            return .selection(EntrySelection(target: .init(target, arguments)))
        }
        if let tag = request["tag"] { return .selection(EntrySelection(tag: tag)) }
        if let prefix = request["prefix"] {
            guard prefix.hasPrefix("/") else { throw .badRequest("prefix must begin with a slash.") }
            return .selection(EntrySelection(prefix: .init(prefix)))
        }
        guard try request.flag("all") else { throw .badRequest("all must be true.") }
        return .all
    }
}
