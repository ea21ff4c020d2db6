// Report of a replay: requests without a recorded response, and recorded responses that were never requested.

import CachePolicy
import HTTPCore
import JSON

/// Requests without a recorded response, by method, target and reason.
struct MissedRequests: Sendable {
    struct Missed: Sendable {
        let request: [JSONValue.Member]
        let shown: String
        let reason: String
        /// Why the response was not captured; nil if the request was not forwarded.
        let notCaptured: String?
        /// The most similar recorded request, and the first difference from it; nil if there is none.
        let nearest: (request: [JSONValue.Member], shown: String, difference: ReplayDifference)?
        var count = 1
    }

    private struct Key: Hashable {
        let method: [UInt8]
        let target: [UInt8]
        let reason: String
        let isForwarded: Bool
    }

    /// Maximum number of distinct requests. Others are only counted.
    static let limit = 1_000

    private(set) var requests: [Missed] = []
    private var indices: [Key: Int] = [:]

    mutating func note(
        _ request: ReplayRequest, _ reason: String, nearest: ReplayRequest?, _ difference: ReplayDifference?, notCaptured: String?
    ) {
        let key = Key(method: request.method, target: request.target, reason: reason, isForwarded: notCaptured != nil)
        if let index = indices[key] {
            requests[index].count += 1
            return
        }
        guard requests.count < Self.limit else { return }
        indices[key] = requests.count
        let both = nearest.flatMap { nearest in difference.map { (request: nearest.members, shown: nearest.shown, difference: $0) } }
        requests.append(
            Missed(request: request.members, shown: request.shown, reason: reason, notCaptured: notCaptured, nearest: both))
    }
}

/// The first part in which two requests differ.
public struct ReplayDifference: Sendable {
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
        } else if key.content == otherKey.content {
            part = "fields"
        } else {
            part = "content"
            let values = [key, otherKey].compactMap(\.content).map(RequestContent.content).compactMap { content in
                content.count <= Self.contentBytes ? JSONValue(Array(content)) : nil
            }
            var path: [String] = []
            guard values.count == 2, Self.differs(values[0], values[1], &path) else { return }
            let text = path.reversed().map { "/" + $0.replacing("~", with: "~0").replacing("/", with: "~1") }.joined()
            if (1...Self.pointerBytes).contains(text.utf8.count) { pointer = text }
        }
    }

    /// The pointer for terminals. Characters that control a terminal are replaced.
    var shownPointer: String? {
        pointer.map { text in
            let scalars = text.unicodeScalars.map { scalar -> Unicode.Scalar in
                switch scalar.properties.generalCategory {
                case .control, .format, .lineSeparator, .paragraphSeparator: "\u{fffd}"
                default: scalar
                }
            }
            return String(String.UnicodeScalarView(scalars))
        }
    }

    /// Returns whether the values differ. Members are in the canonical order.
    /// - Parameter path: gets the tokens of the first difference, the innermost one first.
    private static func differs(_ one: JSONValue, _ other: JSONValue, _ path: inout [String]) -> Bool {
        switch (one, other) {
        case (.object(let members), .object(let others)):
            let common = min(members.count, others.count)
            for index in 0..<common {
                let (name, otherName) = (members[index].name, others[index].name)
                if name != otherName {
                    path.append(name.utf8.lexicographicallyPrecedes(otherName.utf8) ? name : otherName)
                } else if differs(members[index].value, others[index].value, &path) {
                    path.append(name)
                } else {
                    continue
                }
                return true
            }
            guard members.count != others.count else { return false }
            path.append((members.count > common ? members : others)[common].name)
            return true
        case (.array(let items), .array(let others)):
            let common = min(items.count, others.count)
            let index = (0..<common).first { differs(items[$0], others[$0], &path) } ?? common
            guard index < max(items.count, others.count) else { return false }
            path.append(String(index))
            return true
        default: return one != other
        }
    }

    var text: String { part + (shownPointer.map { " at \($0)" } ?? "") }
}

extension Replay {
    /// Maximum number of lines for each list of the text.
    private static let lineLimit = 20

    /// Lines for people, without the last line break.
    public var reportText: String {
        let unused = unused
        let captures = captured == 0 ? "" : ", \(captured) captured"
        let unusedText = unused.count == 1 ? "1 recorded response was" : "\(unused.count) recorded responses were"
        let rest = unused.isEmpty ? "" : ", \(unusedText) never requested"
        let requests = served == 1 ? "request" : "requests"
        var lines = ["\(served) \(requests) served\(captures), \(refused) without a recorded response\(rest)"]
        let missing = missed.requests.prefix(Self.lineLimit).map { one in
            let nearest = one.nearest.map { "; \($0.shown) differs in its \($0.difference.text)" } ?? ""
            let reason = one.notCaptured.map { "; not captured: \($0)" } ?? ""
            return "  \(one.count) × \(one.shown) (\(one.reason.replacing("_", with: " "))\(nearest)\(reason))"
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
        let unused = unused
        let missing = missed.requests.map { one -> JSONValue in
            let nearest = one.nearest.map { nearest -> JSONValue in
                let difference: JSONValue = [
                    "differs": .string(nearest.difference.part), "pointer": nearest.difference.pointer.map { .string($0) },
                ]
                return .object(nearest.request + (difference.members ?? []))
            }
            let more: JSONValue = [
                "count": .integer(one.count), "reason": .string(one.reason), "not_captured": one.notCaptured.map { .string($0) },
                "nearest": nearest,
            ]
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
