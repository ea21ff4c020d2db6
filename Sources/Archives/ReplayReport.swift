// What is reported at the end of a replay: requests without a recorded response, and recorded exchanges that no request used.

import HTTPCore
import JSON

/// Requests without a recorded response, by method and target.
struct MissedRequests: Sendable {
    struct Missed: Sendable {
        let request: [JSONValue.Member]
        let shown: String
        let reason: String
        /// The most similar recorded request, and the first part that differs; nil if there is none.
        let nearest: (request: [JSONValue.Member], shown: String, part: String)?
        var count = 1
    }

    /// Maximum number of distinct requests. Others are only counted.
    static let limit = 1_000

    private(set) var requests: [Missed] = []
    private var indices: [String: Int] = [:]

    mutating func note(_ request: ReplayRequest, _ reason: String, nearest: ReplayRequest?) {
        let shown = request.shown
        if let index = indices[shown] {
            requests[index].count += 1
            return
        }
        guard requests.count < Self.limit else { return }
        indices[shown] = requests.count
        let nearest = nearest.map { (request: $0.members, shown: $0.shown, part: request.difference(from: $0)) }
        requests.append(Missed(request: request.members, shown: shown, reason: reason, nearest: nearest))
    }
}

extension ReplayRequest {
    /// The first part in which two requests differ.
    fileprivate func difference(from other: ReplayRequest) -> String {
        if method != other.method { return "method" }
        if key.target != other.key.target {
            return target.prefix(pathBytes) == other.target.prefix(other.pathBytes) ? "arguments" : "path"
        }
        return key.range == other.key.range ? "content" : "range"
    }
}

extension Replay {
    /// Maximum number of lines for each list of the text.
    private static let lineLimit = 20

    /// Lines for people, without the last line break.
    public var reportText: String {
        let unused = left
        let captures = captured == 0 ? "" : ", \(captured) captured"
        let rest = unused.isEmpty ? "" : ", \(unused.count) recorded responses were never requested"
        var lines = ["\(served) requests served\(captures), \(refused) without a recorded response\(rest)"]
        let missing = missed.requests.prefix(Self.lineLimit).map { one in
            let nearest = one.nearest.map { "; \($0.shown) differs in its \($0.part)" } ?? ""
            return "  \(one.count) × \(one.shown) (\(one.reason.replacing("_", with: " "))\(nearest))"
        }
        lines += Self.list("Without a recorded response:", missing, of: missed.requests.count)
        lines += Self.list("Never requested:", unused.prefix(Self.lineLimit).map { "  " + request($0).shown }, of: unused.count)
        return lines.joined(separator: "\n")
    }

    private static func list(_ title: String, _ lines: [String], of count: Int) -> [String] {
        guard count > 0 else { return [] }
        return [title] + lines + (count > lines.count ? ["  and \(count - lines.count) more"] : [])
    }

    /// The report for programs, as a JSON document. Lists have at most `MissedRequests.limit` elements.
    public var report: [UInt8] {
        let unused = left
        let missing = missed.requests.map { one -> JSONValue in
            let nearest = one.nearest.map { JSONValue.object($0.request + [.init("differs", .string($0.part))]) }
            let more: JSONValue = ["count": .integer(one.count), "reason": .string(one.reason), "nearest": nearest]
            return .object(one.request + (more.members ?? []))
        }
        let never = unused.prefix(MissedRequests.limit).map { number in
            JSONValue.object(request(number).members + [.init("number", .integer(number + 1))])
        }
        let report: JSONValue = [
            "served": .integer(served), "captured": .integer(captured), "refused": .integer(refused), "unused": .integer(unused.count),
            "without_response": .array(missing), "never_requested": .array(never),
        ]
        return report.document
    }
}
