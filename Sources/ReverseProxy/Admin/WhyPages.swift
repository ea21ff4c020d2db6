// GET /-/why: the last exchanges, explained.

import Explanation
import HTTPCore
import JSON
import Locking
import Reactor

enum WhyPages {
    private static let limit = 10_000

    /// Newest first.
    @Sendable static func list(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["last", "path"])
        let last = try task.request.count("last", default: 20, in: 1...limit)
        let prefix = Array(RequestTarget.escaped(Array((task.request["path"] ?? "").utf8)[...]))
        collect(task, WhyRing.Search(limit: last, prefix: prefix)) { records in
            let newest = records.sorted { ($0.trace.wall, $0.trace.number) > ($1.trace.wall, $1.trace.number) }.prefix(last)
            let routes = task.interface.server.routes
            return AdminAnswer(["exchanges": .array(newest.map { WhyExplanation($0, route: routes.explained($0.target)).json })])
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
                return AdminAnswer(AdminProblem.notFound("This exchange is not remembered, or no more; admin.records says how many are."))
            }
            return AdminAnswer(WhyExplanation(record, route: task.interface.server.routes.explained(record.target)).json)
        }
    }

    /// Takes records out of each shard's ring on its loop; makes the answer of them on the interface's queue.
    private static func collect(
        _ task: AdminInterface.Task, _ search: WhyRing.Search,
        answer: @escaping @Sendable ([WhyRecord]) -> AdminAnswer
    ) {
        // Each shard adds to it from its own loop.
        let found = Mutex<(records: [WhyRecord], left: Int)>(([], task.interface.server.shardCount))
        task.interface.server.onEachShard { shard in
            collect(search, in: shard) { records in
                let isLast = found.withLock { found in
                    found.records += records
                    found.left -= 1
                    return found.left == 0
                }
                if isLast { task.interface.later { task.reply(answer(found.withLock { $0.records })) } }
            }
        } then: {
        }
    }

    /// A piece in each turn of the loop.
    private static func collect(_ search: WhyRing.Search, in shard: ProxyShard, then: @escaping @Sendable ([WhyRecord]) -> Void) {
        var search = search
        guard shard.why.lookFurther(&search) else { return then(search.records) }
        shard.loop.execute { [search] in collect(search, in: shard, then: then) }
    }
}
