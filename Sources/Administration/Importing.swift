// POST /-/entries: stores an archived response under the rules for responses of the upstream.

import CachePolicy
import HTTPCore
import JSON
import ResponseCache

enum Importing {
    @Sendable static func perform(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["origin", "shared", "api"])
        var caches = try task.caches()
        guard caches[0].cache.isWritable else {
            throw .unavailable("The cache directory is not writable\(caches[0].cache.refusalWords).")
        }
        guard let value = JSONValue(task.request.content) else {
            throw .badRequest("The content must be an entry of an HTTP archive, in JSON.")
        }
        // An API given in the request takes precedence over the archive's.
        if task.request["api"] == nil, task.namesAPIs, let name = value["_cistern"]?["api"]?.string {
            caches = caches.filter { $0.api.name == name }
            guard !caches.isEmpty else { return reply(task, NotImportedReason.unknownAPI.rawValue) }
        }
        let given = task.request.arguments.filter { $0.name == "origin" }.map(\.value)
        guard given.isEmpty || caches.count == 1 else {
            throw .badRequest("Select with api the API that the responses of another origin belong to.")
        }
        let isShared = try task.request.flag("shared")
        let time = task.interface.time
        var fitting: [(archived: ArchivedResponse, api: any AdministeredAPI, cache: ResponseCache)] = []
        var reason: NotImportedReason?
        for (api, cache) in caches {
            do throws(NotImportedReason) {
                fitting.append((try archived(value, of: api, given, isShared: isShared, at: time), api, cache))
            } catch {
                if reason?.isOfAPI ?? true { reason = error }
            }
        }
        guard let first = fitting.first else { return reply(task, reason?.rawValue) }
        guard fitting.count == 1, reason?.isOfAPI ?? true else { return reply(task, NotImportedReason.ambiguousAPI.rawValue) }
        reply(task, store(first.archived, in: first.cache, first.api, at: time))
    }

    /// - Parameter given: additional origins from the request.
    private static func archived(
        _ value: JSONValue, of api: any AdministeredAPI, _ given: [String], isShared: Bool, at time: CacheTime
    ) throws(NotImportedReason) -> ArchivedResponse {
        let origins = api.addresses.map(\.url) + given.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
        let archived = try ArchivedResponse(
            value, origins: origins, strippedPath: api.strippedPath, isShared: isShared, settings: api.policy, now: time.wall.milliseconds)
        guard api.mayBeAsked(for: archived.request.pathAndQuery) else { throw .otherPath }
        return archived
    }

    /// Returns the reason for not storing, as in metrics; nil if it was stored.
    private static func store(
        _ archived: ArchivedResponse, in cache: ResponseCache, _ api: any AdministeredAPI, at time: CacheTime
    ) -> String? {
        let judgement = api.judge(archived)
        switch cache.importArchived(
            archived, good: judgement.good, flaw: judgement.flaw, ownTag: judgement.ownTag, isLenient: judgement.isLenient, at: time)
        {
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
