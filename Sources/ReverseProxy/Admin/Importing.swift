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
        let reply = { @Sendable (reason: String?) in
            task.reply(AdminAnswer(["imported": .bool(reason == nil), "reason": reason.map { .string($0) } ?? .null]))
        }
        do throws(NotImportedReason) {
            let policy = task.shard.settings.policy
            let entry = try ArchiveEntry(value, origins: origins, isShared: isShared, settings: policy, now: now)
            // All that its length makes slow is done here. Keys are made on a shard's loop.
            let isValid = entry.hasValidContent
            task.shard.loop.execute { reply(task.shard.store(entry, isValid: isValid)) }
        } catch {
            reply(error.rawValue)
        }
    }
}

extension ArchiveEntry {
    /// Whether JSON is JSON.
    fileprivate var hasValidContent: Bool {
        guard response.fields.first(.contentType).flatMap(MediaType.init)?.isJSON == true else { return true }
        return LastGood.faultOfContent(JSONTextChecker.check(content.span), isDelimited: true) == nil
    }
}

extension ProxyShard {
    /// Returns why it was not stored, in the words of the metrics.
    fileprivate func store(_ entry: ArchiveEntry, isValid: Bool) -> String? {
        guard let lookUp else { return NotStoredReason.storeRefused.rawValue }
        let head = entry.request
        let (key, isPartitioned) = keyOfGet(for: head)
        let control = ResponseCacheControl(entry.response.fields, targeted: settings.policy.targetedFields)
        let decision = Storing.decide(
            request: head, directives: RequestCacheControl(), response: entry.response, control: control, isPartitioned: isPartitioned,
            settings: settings.policy)
        if case .forbidden(let reason) = decision { return reason.rawValue }
        guard entry.content.count <= settings.bufferLimitBytes else { return NotStoredReason.tooLarge.rawValue }
        guard isValid else { return NotImportedReason.invalidJSON.rawValue }
        let (requestTime, responseTime) = (Timestamp(milliseconds: entry.requestTime), Timestamp(milliseconds: entry.responseTime))
        let shared = isPartitioned ? sharedKey(of: Array(head.pathAndQuery), for: head) : nil
        if let found = lookUp.find(key, sharedKey: shared, request: head).found, found.metadata.responseTime >= responseTime {
            return NotImportedReason.olderThanStored.rawValue
        }
        let (bytes, metadata) = StoredHead.make(
            entry.response, control: control, contentBytes: entry.content.count, isDecoded: false, requestTime: requestTime,
            responseTime: responseTime, settings: settings.policy)
        let names = SelectingFields.names(response: entry.response.fields, request: head.fields, settings: settings.policy)
        let result = lookUp.insert(
            key: key, names: names, request: head.fields, metadata: metadata, head: bytes, body: entry.content, now: now)
        return result == .accepted ? nil : NotStoredReason.storeRefused.rawValue
    }
}
