// A collector of traces for plays. Receives OTLP/HTTP in JSON, and validates it by names and types against the schema
// (opentelemetry/proto/trace/v1/trace.proto).

import JSON

package final class SpanCollector: Sendable {
    package struct Span: Sendable {
        package let value: JSONValue
        /// Attributes of its resource.
        package let resource: [String: JSONValue]

        package init(_ value: JSONValue, resource: [String: JSONValue] = [:]) { (self.value, self.resource) = (value, resource) }

        package var name: String { value["name"]?.string ?? "" }
        package var isServer: Bool { value["kind"] == .integer(2) }
        package var isClient: Bool { value["kind"] == .integer(3) }
        package var trace: String { value["traceId"]?.string ?? "" }
        package var id: String { value["spanId"]?.string ?? "" }
        package var parent: String? { value["parentSpanId"]?.string }
        package var isFailed: Bool { value["status"]?["code"] == .integer(2) }
        package var start: Int { Int(value["startTimeUnixNano"]?.string ?? "") ?? 0 }
        package var end: Int { Int(value["endTimeUnixNano"]?.string ?? "") ?? 0 }
        package var attributes: [String: JSONValue] { OTLPSchema.attributes(value["attributes"]) }
        package var events: [String] { value["events"]?.array?.compactMap { $0["name"]?.string } ?? [] }
        package var links: [JSONValue] { value["links"]?.array ?? [] }

        /// An attribute as text, also for numbers and booleans.
        package subscript(_ name: String) -> String? {
            switch attributes[name] {
            case .string(let text): text
            case .bool(let flag): String(flag)
            default: nil
            }
        }
    }

    package let origin: ScriptedOrigin
    package var endpoint: String { "http://127.0.0.1:\(origin.port)/v1/traces" }

    package init(_ script: @escaping ScriptedOrigin.Script = { _ in [.json("{\"partialSuccess\":{}}")] }) {
        origin = ScriptedOrigin(script)
    }

    deinit { origin.down() }

    /// All received spans.
    package var spans: [Span] {
        origin.requests.flatMap { request in
            (JSONValue(request.content)?["resourceSpans"]?.array ?? []).flatMap { resource in
                let attributes = OTLPSchema.attributes(resource["resource"]?["attributes"])
                return (resource["scopeSpans"]?.array ?? []).flatMap { $0["spans"]?.array ?? [] }.map { Span($0, resource: attributes) }
            }
        }
    }

    /// Waits until this number of spans has been received.
    package func wait(for count: Int) -> [Span] { wait { $0.count >= count } }

    /// Waits for a server span that matches. Related spans may have been received before.
    package func waitForServer(_ isWanted: (Span) -> Bool) -> Span? {
        wait { $0.contains { $0.isServer && isWanted($0) } }.first { $0.isServer && isWanted($0) }
    }

    private func wait(until isThere: ([Span]) -> Bool) -> [Span] {
        var posts = 0
        while !isThere(spans) {
            posts += 1
            guard origin.waitForRequests(posts) else { break }
        }
        return spans
    }

    /// Schema violations of all received requests.
    package var problems: [String] {
        origin.requests.flatMap { request in
            var problems = OTLPSchema.problems(request.content)
            if request.line != "POST /v1/traces HTTP/1.1" { problems.append(request.line) }
            if request["Content-Type"] != "application/json" { problems.append("type \(request["Content-Type"] ?? "none")") }
            return problems
        }
    }
}

/// Schema of ExportTraceServiceRequest in JSON.
package enum OTLPSchema {
    private indirect enum Shape: Sendable {
        /// Hexadecimal text with this number of digits, not all zero.
        case hex(Int)
        /// A 64-bit number as text.
        case long
        case text, int, flag
        case list(Shape)
        case message([String: Shape], required: Set<String> = [])
        /// Exactly one of these members.
        case one([String: Shape])
    }

    private static let keyValues = Shape.list(
        .message(
            ["key": .text, "value": .one(["stringValue": .text, "intValue": .long, "boolValue": .flag])], required: ["key", "value"]))
    private static let event = Shape.message(
        ["timeUnixNano": .long, "name": .text, "attributes": keyValues], required: ["timeUnixNano", "name"])
    private static let link = Shape.message(
        ["traceId": .hex(32), "spanId": .hex(16), "traceState": .text, "attributes": keyValues, "flags": .int],
        required: ["traceId", "spanId"])
    private static let span = Shape.message(
        [
            "traceId": .hex(32), "spanId": .hex(16), "parentSpanId": .hex(16), "traceState": .text, "flags": .int, "name": .text,
            "kind": .int, "startTimeUnixNano": .long, "endTimeUnixNano": .long, "attributes": keyValues, "events": .list(event),
            "links": .list(link), "status": .message(["code": .int, "message": .text]),
        ], required: ["traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"])
    private static let request = Shape.message(
        [
            "resourceSpans": .list(
                .message(
                    [
                        "resource": .message(["attributes": keyValues], required: ["attributes"]),
                        "scopeSpans": .list(
                            .message(
                                ["scope": .message(["name": .text, "version": .text]), "spans": .list(span)],
                                required: ["scope", "spans"])),
                    ], required: ["resource", "scopeSpans"]))
        ], required: ["resourceSpans"])

    /// Violations with their paths; empty if valid.
    package static func problems(_ content: [UInt8]) -> [String] {
        guard let value = JSONValue(content) else { return ["no JSON"] }
        return problems(value, request, "")
    }

    private static func problems(_ value: JSONValue, _ shape: Shape, _ path: String) -> [String] {
        func isRight(_ holds: Bool) -> [String] { holds ? [] : ["\(path): \(value)"] }
        switch shape {
        case .hex(let count):
            let digits = value.string ?? ""
            return isRight(
                digits.count == count && digits.allSatisfy { "0123456789abcdef".contains($0) } && digits.contains { $0 != "0" })
        case .long: return isRight(value.string.flatMap { Int($0) } != nil)
        case .text: return isRight(value.string != nil)
        case .int: if case .integer = value { return [] } else { return isRight(false) }
        case .flag: return isRight(value.bool != nil)
        case .list(let item):
            guard let items = value.array else { return isRight(false) }
            return items.enumerated().flatMap { problems($1, item, "\(path)/\($0)") }
        case .one(let kinds):
            guard value.members?.count == 1 else { return isRight(false) }
            return problems(value, .message(kinds), path)
        case .message(let known, let required):
            guard let members = value.members else { return isRight(false) }
            let names = members.map(\.name)
            var all = required.subtracting(names).map { "\(path)/\($0) is missing" }
            if Set(names).count < names.count { all.append("\(path): a name stands there twice") }
            for member in members {
                guard let shape = known[member.name] else {
                    all.append("\(path)/\(member.name) is unknown")
                    continue
                }
                all += problems(member.value, shape, "\(path)/\(member.name)")
            }
            return all
        }
    }

    /// Attributes by key. Keys are unique.
    package static func attributes(_ list: JSONValue?) -> [String: JSONValue] {
        var all: [String: JSONValue] = [:]
        for item in list?.array ?? [] {
            guard let key = item["key"]?.string, let value = item["value"]?.members?.first?.value else { continue }
            all[key] = value
        }
        return all
    }
}
