// GET /-/why: the last exchanges, explained.

import Explanation
import HTTPCore
import JSON

enum WhyPages {
    private static let limit = 10_000

    /// Newest first.
    @Sendable static func list(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["last", "path"])
        let last = try task.request.count("last", default: 20, in: 1...limit)
        let prefix = Array(RequestTarget.escaped(Array((task.request["path"] ?? "").utf8)[...]))
        collect(task, WhyRing.Search(limit: last, prefix: prefix)) { records in
            let newest = records.sorted { ($0.trace.wall, $0.trace.number) > ($1.trace.wall, $1.trace.number) }.prefix(last)
            return AdminResponse([
                "exchanges": .array(newest.map { explanation($0, task).json })
            ])
        }
    }

    @Sendable static func show(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        let parts = task.item.split(separator: "-")
        guard parts.count == 2, let shard = Int(parts[0]), let number = UInt64(parts[1]) else {
            throw .badRequest("An exchange's id is two numbers, such as 0-42.")
        }
        collect(task, WhyRing.Search(limit: 1, number: number)) { records in
            guard let record = records.first(where: { $0.shard == shard }) else {
                return AdminResponse(AdminProblem.notFound("This exchange is not remembered, or no more; admin.records says how many are."))
            }
            return AdminResponse(explanation(record, task).json)
        }
    }

    static func explanation(_ record: WhyRecord, _ task: AdminInterface.Task) -> WhyExplanation {
        // Some are for none of several, or for one that is served no more.
        guard let api = task.interface.apis.first(where: { $0.place == record.trace.api }) else {
            return WhyExplanation(record, route: ExplainedRoute.none)
        }
        return WhyExplanation(record, route: api.explainedRoute(of: record.target), api: api.name)
    }

    /// Makes the response of what all loops remember, on the interface's queue.
    private static func collect(
        _ task: AdminInterface.Task, _ search: WhyRing.Search, response: @escaping @Sendable ([WhyRecord]) -> AdminResponse
    ) {
        task.server.searchRecords(search) { records in
            task.interface.later { task.reply(response(records)) }
        }
    }
}
