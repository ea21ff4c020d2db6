// POST /-/entries: stores an archived answer by the same rules as one that the upstream sends now.

import CachePolicy
import CacheStore
import HTTPCore
import JSON
import Reactor
import Upstream

enum Importing {
    @Sendable static func perform(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["origin", "shared"])
        guard try task.store.statistics.isWritable else { throw .unavailable("The cache directory cannot be written to.") }
        guard let value = JSONValue(task.request.content) else {
            throw .badRequest("The content must be an entry of an HTTP archive, in JSON.")
        }
        let upstream = task.interface.server.settings.upstream
        let given = task.request.arguments.filter { $0.name == "origin" }.map(\.value)
        let origins = [upstream.origin + upstream.basePath] + given.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
        let isShared = try task.request.flag("shared")
        let now = task.interface.server.wallMilliseconds
        do throws(NotImportedReason) {
            let policy = task.shard.settings.policy
            let entry = try ArchiveEntry(value, origins: origins, isShared: isShared, settings: policy, now: now)
            // All that its length makes slow is done here. Keys are made on a shard's loop.
            let findings = task.shard.examine(entry)
            task.shard.loop.execute { store(entry, findings, task, reads: 0) }
        } catch {
            reply(task, error.rawValue)
        }
    }

    /// - Parameter reads: how often something was brought into memory for it.
    private static func store(_ entry: ArchiveEntry, _ findings: ContentExamination.Findings, _ task: AdminInterface.Task, reads: Int) {
        if reads < DiskWait.readLimit, let wanted = task.shard.firstOnDisk(storing: entry) {
            task.shard.lookUp?.store.bringIn(wanted) {
                task.shard.loop.execute { store(entry, findings, task, reads: reads + 1) }
            }
            return
        }
        reply(task, task.shard.store(entry, findings))
    }

    private static func reply(_ task: AdminInterface.Task, _ reason: String?) {
        task.reply(AdminAnswer(["imported": .bool(reason == nil), "reason": reason.map { .string($0) } ?? .null]))
    }
}

extension ProxyShard {
    /// What the rules for all and those of its route say of an archived response's content. Not on the loop.
    fileprivate func examine(_ entry: ArchiveEntry) -> ContentExamination.Findings {
        let isJSON = entry.response.fields.first(.contentType).flatMap(MediaType.init)?.isJSON == true
        let examination = ContentExamination(
            content: entry.content, coding: .identity, isJSON: isJSON, verdict: JSONTextChecker.check(entry.content.span),
            isDelimited: true, good: server.routes.all[server.routes.place(of: entry.request.pathAndQuery)].good, storedBytes: nil,
            makesTag: wantsOwnTag(entry.response), limitBytes: settings.bufferLimitBytes)
        return examination.findings() ?? ContentExamination.Findings()
    }

    /// What is looked at for it and is not in memory.
    fileprivate func firstOnDisk(storing entry: ArchiveEntry) -> OnDisk? {
        let keys = TargetKeys(
            own: keyOfGet(for: entry.request).key, shared: sharedKey(of: Array(entry.request.pathAndQuery), for: entry.request))
        return firstOnDisk(storing: entry.response.fields, of: entry.request, at: keys)
    }

    /// Returns why it was not stored, in the words of the metrics.
    fileprivate func store(_ entry: ArchiveEntry, _ findings: ContentExamination.Findings) -> String? {
        guard lookUp != nil else { return NotStoredReason.storeRefused.rawValue }
        let head = entry.request
        let (key, isPartitioned) = keyOfGet(for: head)
        let control = ResponseCacheControl(entry.response.fields, targeted: settings.policy.targetedFields)
        let decision = Storing.decide(
            request: head, directives: RequestCacheControl(), response: entry.response, control: control, isPartitioned: isPartitioned,
            settings: settings.policy)
        if case .forbidden(let reason) = decision { return reason.rawValue }
        guard entry.content.count <= settings.bufferLimitBytes else { return NotStoredReason.tooLarge.rawValue }
        let good = routes.all[routes.place(of: head.pathAndQuery)].good
        if let fault = good.faultOfHead(entry.response) ?? findings.fault { return fault.notStored.rawValue }
        let recency = Recency(
            order: server.sentRequests.take(), isImported: true, requestTime: Timestamp(milliseconds: entry.requestTime),
            responseTime: Timestamp(milliseconds: entry.responseTime))
        let new = newResponse(
            entry.response, entry.content, isDecoded: entry.isDecoded, ownTag: findings.ownTag, to: head, isPartitioned: isPartitioned,
            recency)
        let shared = sharedKey(of: Array(head.pathAndQuery), for: head)
        switch store(new, entry.response.fields, of: head, lookedUpAt: TargetKeys(own: key, shared: shared)) {
        case .stored: return nil
        case .outdated: return NotImportedReason.olderThanStored.rawValue
        case .invalidated: return NotImportedReason.invalidated.rawValue
        case .tooLarge: return NotStoredReason.tooLarge.rawValue
        case .refused: return NotStoredReason.storeRefused.rawValue
        }
    }
}
