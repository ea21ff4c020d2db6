// GET /-/why: explains the last exchanges, or those after an earlier search.

import Explanation
import Figures
import Glibc
import HTTPCore
import JSON
import ResponseCache

enum WhyPages {
    private static let limit = 10_000

    /// Newest first. With `after`, exchanges after that position, oldest first.
    @Sendable static func list(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["last", "path", "result", "reason", "slower", "status", "after"])
        let last = try task.request.count("last", default: 20, in: 1...limit)
        let after = try task.request["after"].map(positions)
        collect(task, WhyRing.Search(limit: last, filter: try WhyFilter(task.request), after: after)) { found, earlier in
            var records = found.records.sorted { ($0.exchange.wall, $0.exchange.number) > ($1.exchange.wall, $1.exchange.number) }
            if after == nil { records = Array(records.prefix(last)) } else { records.reverse() }
            return AdminResponse([
                "exchanges": .array(records.map { explanation($0, task, earlier).json }), "next": .string(text(found.next)),
                "missed": .integer(found.missed),
            ])
        }
    }

    // MARK: Continuation

    /// The position at which a search ended: the process ID, because another process has other numbers, and a number per loop.
    private static func text(_ next: [Int]) -> String { ([Int(getpid())] + next).map(String.init).joined(separator: ".") }

    private static func positions(_ text: String) throws(AdminProblem) -> [Int] {
        let numbers = text.split(separator: ".", omittingEmptySubsequences: false).map { Int($0) ?? -1 }
        guard (2...1_025).contains(numbers.count), numbers.allSatisfy({ $0 >= 0 }) else {
            throw .badRequest("after must be the \"next\" of an earlier response, not \"\(text)\".")
        }
        return numbers[0] == Int(getpid()) ? Array(numbers.dropFirst()) : []
    }

    @Sendable static func show(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        let parts = task.item.split(separator: "-")
        guard parts.count == 2, let shard = Int(parts[0]), let number = UInt64(parts[1]) else {
            throw .badRequest("The id of an exchange must be two numbers, such as 0-42.")
        }
        collect(task, WhyRing.Search(limit: 1, number: number)) { found, earlier in
            guard let record = found.records.first(where: { $0.shard == shard }) else {
                return AdminResponse(
                    AdminProblem.notFound(
                        "This exchange is not recorded, or no longer; admin.records sets the number of recorded exchanges."))
            }
            return AdminResponse(explanation(record, task, earlier).json)
        }
    }

    static func explanation(_ record: WhyRecord, _ task: AdminInterface.Task, _ earlier: PreviousReasons) -> WhyExplanation {
        // The exchange may belong to no API, or to a removed one.
        guard let api = task.interface.apis.first(where: { $0.index == record.exchange.api }) else {
            return WhyExplanation(record, route: ExplainedRoute.none)
        }
        let route = api.explainedRoute(of: record.target)
        return WhyExplanation(
            record, route: route, api: api.name, unknownField: api.cache?.unknownFields.name(ofField: record.exchange.found.unknownField),
            before: earlier.before(record, api: api.name, route: route.name), refusal: refusal(of: record, api))
    }

    /// A rejection by the store between the request and shortly after its response; nil if there was none.
    private static func refusal(of record: WhyRecord, _ api: any AdministeredAPI) -> WhyExplanation.Refusal? {
        let end = record.exchange.wall + record.exchange.durationMicroseconds / 1_000
        let time = record.exchange.wall...max(record.exchange.wall, end + (record.exchange.isStored ? writingMilliseconds : 0))
        return api.cache?.refusal(in: time).map { .init(cause: "\($0.words) (\($0.systemText))", advice: $0.advice) }
    }

    /// Maximum time from storing a response in memory to writing it to disk.
    private static let writingMilliseconds: Int64 = 100

    /// Collects records of all loops, and replies on the interface's queue.
    private static func collect(
        _ task: AdminInterface.Task, _ search: WhyRing.Search,
        response: @escaping @Sendable (WhyRing.Found, PreviousReasons) -> AdminResponse
    ) {
        task.server.searchRecords(search) { found in
            PreviousReasons.gather(found.records, task) { earlier in
                task.interface.later { task.reply(response(found, earlier)) }
            }
        }
    }
}

extension WhyFilter {
    fileprivate init(_ request: AdminRequest) throws(AdminProblem) {
        self.init(prefix: Array(RequestTarget.escaped(Array((request["path"] ?? "").utf8)[...])))
        let labels = CacheResult.allCases.map { "\($0.label)" }
        for word in (request["result"] ?? "").split(separator: ",") {
            guard let index = labels.firstIndex(of: String(word)) else {
                throw .badRequest("result must be one or more of \(labels.joined(separator: ",")), not \"\(word)\".")
            }
            results.append(CacheResult.allCases[index])
        }
        if request["slower"] != nil { slowerThan = Int64(try request.count("slower", default: 0, in: 0...86_400_000)) * 1_000 }
        statuses = try request["status"].map(Self.statuses)
        guard let word = request["reason"] else { return }
        guard Self.reasons.contains(word) else {
            throw .badRequest("No reason is called \"\(word)\"; the reasons are \(Self.reasons.sorted().joined(separator: ", ")).")
        }
        reason = word
    }

    /// Parses `503`, or a class such as `5xx`.
    private static func statuses(_ text: String) throws(AdminProblem) -> ClosedRange<UInt16> {
        let digits = text.hasSuffix("xx") ? text.dropLast(2) : text[...]
        guard text.utf8.count == 3, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = UInt16(digits),
            (1...9).contains(text.hasSuffix("xx") ? number : number / 100)
        else { throw .badRequest("status must be three digits, or a class such as 5xx, not \"\(text)\".") }
        return text.hasSuffix("xx") ? number * 100...number * 100 + 99 : number...number
    }
}
