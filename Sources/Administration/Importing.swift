// POST /-/entries: stores an archived response by the same rules as one that the upstream sends now.

import CachePolicy
import HTTPCore
import JSON
import ResponseCache

enum Importing {
    @Sendable static func perform(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["origin", "shared"])
        let cache = try task.cache
        guard cache.isWritable else { throw .unavailable("The cache directory cannot be written to.") }
        guard let value = JSONValue(task.request.content) else {
            throw .badRequest("The content must be an entry of an HTTP archive, in JSON.")
        }
        let given = task.request.arguments.filter { $0.name == "origin" }.map(\.value)
        let origins = [task.server.upstreamURL] + given.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
        let isShared = try task.request.flag("shared")
        let time = task.interface.time
        do throws(NotImportedReason) {
            let policy = task.server.policy
            let archived = try ArchivedResponse(value, origins: origins, isShared: isShared, settings: policy, now: time.wall.milliseconds)
            reply(task, store(archived, in: cache, task.server, at: time))
        } catch {
            reply(task, error.rawValue)
        }
    }

    /// Returns why it was not stored, in the words of the metrics.
    private static func store(
        _ archived: ArchivedResponse, in cache: ResponseCache, _ server: any AdministeredServer, at time: CacheTime
    ) -> String? {
        let judgement = server.judge(archived)
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
