// POST /-/entries: stores an archived response by the same rules as one that the upstream sends now.

import CachePolicy
import HTTPCore
import JSON
import ResponseCache

enum Importing {
    @Sendable static func perform(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["origin", "shared", "api"])
        let caches = try task.caches()
        guard caches[0].cache.isWritable else { throw .unavailable("The cache directory cannot be written to.") }
        guard let value = JSONValue(task.request.content) else {
            throw .badRequest("The content must be an entry of an HTTP archive, in JSON.")
        }
        let given = task.request.arguments.filter { $0.name == "origin" }.map(\.value)
        guard given.isEmpty || caches.count == 1 else { throw .badRequest("Say by api which API the responses of another origin are for.") }
        let isShared = try task.request.flag("shared")
        let time = task.interface.time
        var reason: NotImportedReason?
        for (api, cache) in caches {
            let origins = [api.upstreamURL] + given.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
            do throws(NotImportedReason) {
                let archived = try ArchivedResponse(
                    value, origins: origins, strippedPath: api.strippedPath, isShared: isShared, settings: api.policy,
                    now: time.wall.milliseconds)
                return reply(task, store(archived, in: cache, api, at: time))
            } catch {
                reason = error
            }
        }
        reply(task, reason?.rawValue)
    }

    /// Returns why it was not stored, in the words of the metrics.
    private static func store(
        _ archived: ArchivedResponse, in cache: ResponseCache, _ api: any AdministeredAPI, at time: CacheTime
    ) -> String? {
        let judgement = api.judge(archived)
        switch cache.take(archived, good: judgement.good, fault: judgement.fault, ownTag: judgement.ownTag, at: time) {
        case .stored, .rememberedAsGone: return nil
        case .notStored(let reason): return reason.rawValue
        case .olderThanStored: return NotImportedReason.olderThanStored.rawValue
        case .invalidated: return NotImportedReason.invalidated.rawValue
        }
    }

    private static func reply(_ task: AdminInterface.Task, _ reason: String?) {
        task.reply(AdminResponse(["imported": .bool(reason == nil), "reason": reason.map { .string($0) } ?? .null]))
    }
}
