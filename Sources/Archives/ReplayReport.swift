// What is reported at the end of a replay: requests without a recorded response, and recorded exchanges that no request used.

import CachePolicy
import HTTPCore
import JSON

/// Requests without a recorded response, by method and target.
struct MissedRequests: Sendable {
    struct Missed: Sendable {
        let request: [JSONValue.Member]
        let shown: String
        let reason: String
        /// The most similar recorded request, and the first difference from it; nil if there is none.
        let nearest: (request: [JSONValue.Member], shown: String, difference: ReplayDifference)?
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
        let nearest = nearest.map { (request: $0.members, shown: $0.shown, difference: ReplayDifference(request, $0)) }
        requests.append(Missed(request: request.members, shown: shown, reason: reason, nearest: nearest))
    }
}

/// The first part in which two requests differ.
struct ReplayDifference: Sendable {
    let part: String
    /// Pointer of the first JSON value that differs; nil if there is none, or if the content or the pointer is too long.
    private(set) var pointer: String?

    /// Maximum length of content in which a value is searched, so that the search takes less than a millisecond.
    private static let contentBytes = 16 << 10
    private static let pointerBytes = 200

    init(_ one: ReplayRequest, _ other: ReplayRequest) {
        let (key, otherKey) = (one.key, other.key)
        if key.method != otherKey.method {
            part = "method"
        } else if key.target != otherKey.target {
            part = one.target.prefix(one.pathBytes) == other.target.prefix(other.pathBytes) ? "arguments" : "path"
        } else if key.range != otherKey.range {
            part = "range"
        } else {
            part = "content"
            let values = [key, otherKey].compactMap(\.content).map(RequestContent.content).compactMap { content in
                content.count <= Self.contentBytes ? JSONValue(Array(content)) : nil
            }
            let found = values.count == 2 ? Self.pointer(values[0], values[1], below: "") : nil
            pointer = found.flatMap { (1...Self.pointerBytes).contains($0.utf8.count) ? $0 : nil }
        }
    }

    /// Returns the pointer of the first difference, and nil if the values are equal. Members are in the canonical order.
    private static func pointer(_ one: JSONValue, _ other: JSONValue, below path: String) -> String? {
        let (left, right): ([JSONValue.Member], [JSONValue.Member])
        switch (one, other) {
        case (.object(let members), .object(let others)): (left, right) = (members, others)
        case (.array(let items), .array(let others)):
            let numbered = { (items: [JSONValue]) in items.enumerated().map { JSONValue.Member(String($0), $1) } }
            (left, right) = (numbered(items), numbered(others))
        default: return one == other ? nil : path
        }
        for index in 0..<max(left.count, right.count) {
            let names = [left, right].compactMap { index < $0.count ? $0[index].name : nil }
            let first = names.min { $0.utf8.lexicographicallyPrecedes($1.utf8) } ?? ""
            let below = path + "/" + first.replacing("~", with: "~0").replacing("/", with: "~1")
            guard names.count == 2, names[0] == names[1] else { return below }
            if let found = pointer(left[index].value, right[index].value, below: below) { return found }
        }
        return nil
    }

    var text: String { part + (pointer.map { " at \($0)" } ?? "") }
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
            let nearest = one.nearest.map { "; \($0.shown) differs in its \($0.difference.text)" } ?? ""
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
            let nearest = one.nearest.map { nearest -> JSONValue in
                let difference: JSONValue = [
                    "differs": .string(nearest.difference.part), "pointer": nearest.difference.pointer.map { .string($0) },
                ]
                return .object(nearest.request + (difference.members ?? []))
            }
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
