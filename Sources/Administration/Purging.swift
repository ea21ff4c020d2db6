// Removes stored responses, or marks them stale: one by ID, all, or those that meet all given conditions. The reply is sent after the purge
// is on disk, so the purge survives a crash. If the disk rejected the purge, the reply says so.

import CachePolicy
import HTTPCore
import JSON
import ResponseCache

enum Purging {
    @Sendable static func perform(_ task: AdminInterface.Task) throws(AdminProblem) {
        let (group, caches) = try task.group()
        let purge = try PurgeRequest(task, caches)
        let wanted = purge.wanted
        guard !purge.isDryRun else { return task.reply(Result(group.count(wanted), purge).response) }
        guard caches[0].canPurge else {
            throw .unavailable("The cache directory is not writable, so a purge would be lost at the next restart.")
        }
        let isAboutStore = purge.isAll && task.request["api"] == nil
        let key = purge.id.flatMap { group.key(of: $0) }
        let announced = task.server.announcePurge(try purge.fleetSelection(task, caches, key), isSoft: purge.isSoft)
        caches[0].beginPurge(at: task.interface.now)
        // A loop that read the clock earlier may be storing a response. After a turn of each loop, such a response is stored and found.
        task.server.afterEachLoop {
            task.interface.later {
                let count = isAboutStore ? group.purgeStore(isSoft: purge.isSoft) : group.purge(wanted, isSoft: purge.isSoft)
                let isWritten = group.synchronize()
                guard let announced else { return finish(task, purge, group, Result(count, purge, isWritten: isWritten)) }
                announced.publish { finish(task, purge, group, Result(count, purge, $0, isWritten: isWritten)) }
            }
        }
    }

    /// Erases the bytes if that is requested, and replies.
    private static func finish(_ task: AdminInterface.Task, _ purge: PurgeRequest, _ group: CacheGroup, _ result: Result) {
        guard purge.erases else { return task.reply(result.response) }
        task.interface.eraseLater {
            var result = result
            do throws(EraseFailure) {
                result.erased = try group.erase(purge.wanted)
                task.reply(result.response)
            } catch {
                let purged =
                    "\(result.count) responses were purged\(result.isWritten ? "" : " in memory only"), but their bytes were not erased from "
                    + "the disk"
                task.reply(AdminResponse(AdminProblem.unavailable("\(purged): \(error.sentence).")))
            }
        }
    }

    private struct Result: Sendable {
        let count: Int
        private let purge: PurgeRequest
        /// nil if nothing is shared with other nodes.
        private let reach: PurgeReach?
        /// Whether the purge is on disk, so that it survives a restart.
        let isWritten: Bool
        var erased: ErasedResponses?

        init(_ count: Int, _ purge: PurgeRequest, _ reach: PurgeReach? = nil, isWritten: Bool = true) {
            (self.count, self.purge, self.reach, self.isWritten) = (count, purge, reach, isWritten)
        }

        /// 202 if other nodes will apply the purge later, or if the disk rejected it.
        var response: AdminResponse {
            var (nodes, reason): (String?, JSONValue?) = (nil, nil)
            switch reach {
            case .durable?: (nodes, reason) = ("durable", .null)
            case .pending(let cause)?: (nodes, reason) = ("pending", .string(cause))
            case .local?: (nodes, reason) = ("not_told", "too_many_pending")
            case nil: break
            }
            let response = AdminResponse([
                "purged": .integer(count), "soft": .bool(purge.isSoft), "dry_run": purge.isDryRun ? true : nil,
                "disk": isWritten ? nil : "not_written", "nodes": nodes.map { .string($0) }, "reason": reason,
                "erased": erased.map {
                    ["files": .integer($0.files), "bytes": .integer($0.bytes), "in_use": .integer($0.inUse)]
                }, "incomplete": purge.doubt == nil ? nil : true,
                "note": (purge.doubt ?? (count == 0 ? purge.hint : nil)).map { .string($0) },
            ])
            guard !isWritten || reach ?? .durable != .durable else { return response }
            var pending = response
            pending.status = 202
            return pending
        }
    }
}

struct PurgeRequest: Sendable {
    private static let alone = ["id", "all"]
    private static let conditions = ["target", "prefix", "tag", "matching", "partition", "older_than", "user"]

    let id: EntryID?
    let isAll: Bool
    let isSoft: Bool
    let isDryRun: Bool
    let erases: Bool
    private var criteria = PurgeCriteria()
    private let credential: UserCredential?
    /// Why the purge may be incomplete, as a sentence; nil if it is complete.
    let doubt: String?
    /// What to check if the purge of a user selects nothing.
    fileprivate var hint: String? {
        credential == nil ? nil : "nothing was selected: if the user's requests have several credentials, give all of them"
    }
    /// The purge in each API.
    let wanted: [PurgeSelection]

    init(_ task: AdminInterface.Task, _ caches: [ResponseCache]) throws(AdminProblem) {
        let request = task.request
        try request.allow(Self.alone + Self.conditions + ["soft", "erase", "dry_run", "api"])
        (isSoft, isDryRun, erases) = (try request.flag("soft"), try request.flag("dry_run"), try request.flag("erase"))
        let given = Self.conditions.filter { request[$0] != nil }
        guard Self.alone.count(where: { request[$0] != nil }) == (given.isEmpty ? 1 : 0) else {
            throw .badRequest("Give id, or all, or one or more of \(Self.conditions.joined(separator: ", ")).")
        }
        guard !isSoft || !erases else { throw .badRequest("soft and erase exclude each other: a soft purge keeps the responses.") }
        isAll = try request.flag("all")
        guard isAll || request["all"] == nil else { throw .badRequest("all must be true.") }
        id = try request["id"].map { (text) throws(AdminProblem) in
            guard let id = EntryID(text) else { throw .badRequest("The id of an entry must have 32 hexadecimal digits.") }
            return id
        }
        criteria = try Self.criteria(request, now: task.interface.now)
        credential = try Self.credential(request)
        let selected = try task.apiIndexes().map { caches[$0] }
        doubt = if let credential { try Self.doubt(of: credential, selected) } else { nil }
        let (id, isAll, criteria, credential) = (id, isAll, criteria, credential)
        wanted = caches.map { cache in
            id.map { .id($0) } ?? (isAll ? .all : .selection(criteria.selection(in: cache, credential: credential)))
        }
    }

    private static func criteria(_ request: AdminRequest, now: Timestamp) throws(AdminProblem) -> PurgeCriteria {
        var criteria = PurgeCriteria()
        (criteria.target, criteria.prefix, criteria.tag) = (request["target"], request["prefix"], request["tag"])
        (criteria.matching, criteria.partition) = (request["matching"], request["partition"])
        if criteria.target?.hasPrefix("/") == false {
            throw .badRequest("target must be a path that begins with a slash, with its arguments.")
        }
        if criteria.prefix?.hasPrefix("/") == false { throw .badRequest("prefix must begin with a slash.") }
        if let mistake = criteria.matching.flatMap(RoutePattern.mistake) { throw .badRequest("matching: \(mistake).") }
        if let digits = criteria.partition?.utf8 {
            guard 8...32 ~= digits.count, digits.count % 2 == 0, digits.allSatisfy({ $0.hexValue != nil }) else {
                throw .badRequest("partition must have 8 to 32 hexadecimal digits, as in the list of entries.")
            }
        }
        if request["older_than"] != nil {
            let seconds = try request.count("older_than", default: 0, in: 1...10_000_000_000)
            criteria.before = Timestamp(milliseconds: now.milliseconds - Int64(seconds) * 1_000)
        }
        return criteria
    }

    /// The credential is the request's content, so that no log contains it.
    private static func credential(_ request: AdminRequest) throws(AdminProblem) -> UserCredential? {
        guard try request.flag("user") else {
            guard request["user"] == nil else { throw .badRequest("user must be true; the credential is the content of the request.") }
            guard request.content.isEmpty else { throw .badRequest("Content is a credential, and needs the argument user.") }
            return nil
        }
        do throws(UserCredential.Problem) {
            return try UserCredential(request.content)
        } catch {
            throw .badRequest("The purge of a user was rejected: \(error.rawValue).")
        }
    }

    /// - Throws: if no rule recognizes the credential.
    private static func doubt(of credential: UserCredential, _ caches: [ResponseCache]) throws(AdminProblem) -> String? {
        let found = caches.map { $0.partitions(of: credential) }
        guard found.contains(where: { !$0.partitions.isEmpty }) else {
            throw .badRequest(
                "No rule recognizes this credential, so nothing is stored for its user. Its field must be in cache.credential_fields, its "
                    + "cookie in cache.credential_cookies, and credentials must not be ignored (credentials.partition, cache.role).")
        }
        return found.lazy.compactMap(\.doubt).first
    }

    /// The purge as other nodes receive it. Their entries have other IDs, so a purge by ID becomes a purge by target.
    func fleetSelection(_ task: AdminInterface.Task, _ caches: [ResponseCache], _ key: StoredKey?) throws(AdminProblem) -> FleetSelection {
        let apiIndexes = try task.apiIndexes()
        let apis = apiIndexes.count == task.interface.apis.count ? [] : apiIndexes.map { task.interface.apis[$0].name }
        var criteria = criteria
        criteria.erases = erases
        if let credential { criteria.user = ResponseCache.sealed(credential, for: apiIndexes.map { caches[$0] }) }
        guard id != nil else { return FleetSelection(criteria, apis: apis) }
        guard let key else { return FleetSelection(.nothing) }
        criteria.target = String(decoding: key.typedTarget, as: UTF8.self)
        return FleetSelection(criteria, apis: key.api.map { [$0] } ?? [])
    }
}
