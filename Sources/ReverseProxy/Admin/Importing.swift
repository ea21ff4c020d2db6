// POST /-/entries: stores an archived response by the same rules as one that the upstream sends now.

import CachePolicy
import HTTPCore
import JSON
import ResponseCache
import Upstream

enum Importing {
    @Sendable static func perform(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["origin", "shared"])
        let cache = try task.cache
        guard cache.isWritable else { throw .unavailable("The cache directory cannot be written to.") }
        guard let value = JSONValue(task.request.content) else {
            throw .badRequest("The content must be an entry of an HTTP archive, in JSON.")
        }
        let upstream = task.interface.server.settings.upstream
        let given = task.request.arguments.filter { $0.name == "origin" }.map(\.value)
        let origins = [upstream.origin + upstream.basePath] + given.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
        let isShared = try task.request.flag("shared")
        let time = task.interface.time
        do throws(NotImportedReason) {
            let policy = task.interface.server.settings.policy
            let archived = try ArchivedResponse(value, origins: origins, isShared: isShared, settings: policy, now: time.wall.milliseconds)
            reply(task, store(archived, in: cache, task.interface.server, at: time))
        } catch {
            reply(task, error.rawValue)
        }
    }

    /// Returns why it was not stored, in the words of the metrics.
    private static func store(_ archived: ArchivedResponse, in cache: ResponseCache, _ server: ProxyServer, at time: CacheTime) -> String? {
        let good = server.routes.all[server.routes.place(of: archived.request.pathAndQuery)].good
        let findings = ContentExamination(archived, good: good, server.settings).findings()
        let result = cache.take(archived, good: good, fault: findings?.fault, ownTag: findings?.ownTag, at: time)
        switch result {
        case .stored, .rememberedAsGone: return nil
        case .notStored(let reason): return reason.rawValue
        case .olderThanStored: return NotImportedReason.olderThanStored.rawValue
        case .invalidated: return NotImportedReason.invalidated.rawValue
        }
    }

    private static func reply(_ task: AdminInterface.Task, _ reason: String?) {
        task.reply(AdminAnswer(["imported": .bool(reason == nil), "reason": reason.map { .string($0) } ?? .null]))
    }
}

extension ContentExamination {
    /// What the rules for all and those of its route say of an archived response's content.
    fileprivate init(_ archived: ArchivedResponse, good: GoodAnswer, _ settings: ProxySettings) {
        self.init(
            content: archived.content, coding: .identity,
            isJSON: archived.response.fields.first(.contentType).flatMap(MediaType.init)?.isJSON == true,
            verdict: JSONTextChecker.check(archived.content.span), isDelimited: true, good: good, storedBytes: nil,
            makesTag: settings.policy.wantsOwnTag(archived.response), limitBytes: settings.bufferLimitBytes)
    }
}
