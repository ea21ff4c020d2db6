// Encodes spans as OTLP in JSON (OpenTelemetry protocol, "JSON Protobuf Encoding": IDs in hexadecimal, enums as numbers, 64-bit numbers as
// strings). Attributes follow the OpenTelemetry conventions for HTTP. Queries and credentials are never included. Pure.

import CachePolicy
import Decisions
import Explanation
import Figures
import HTTPCore
import JSON
import Upstream

/// The source of all spans of a process.
public struct SpanSource: Sendable {
    let service: String
    let version: String
    /// Distinguishes this process from others of the service.
    let instance: String

    public init(service: String, version: String, instance: String) {
        (self.service, self.version, self.instance) = (service, version, instance)
    }
}

enum SpanText {
    /// Returns an ExportTraceServiceRequest.
    static func request(_ spans: [TraceSpan], from source: SpanSource) -> [UInt8] {
        let resource = Attributes.make {
            $0.add("service.name", source.service)
            $0.add("service.version", source.version)
            $0.add("service.instance.id", source.instance)
        }
        let scope: JSONValue = ["name": "cistern", "version": .string(source.version)]
        let scopeSpans: JSONValue = ["scope": scope, "spans": .array(spans.map(value))]
        let all: JSONValue = ["resourceSpans": [["resource": ["attributes": resource], "scopeSpans": [scopeSpans]]]]
        return all.serialized()
    }

    /// Values of the enum SpanKind (trace.proto).
    private static let (server, client) = (2, 3)
    /// Value of the enum StatusCode (trace.proto).
    private static let failed: JSONValue = ["code": 2]

    private static func value(_ span: TraceSpan) -> JSONValue {
        let end = span.start + span.duration
        let part =
            switch span.work {
            case .server(let work): part(of: work, span.subject)
            case .client(let work): part(of: work, span)
            }
        return [
            "traceId": .string(span.context.trace.text), "spanId": .string(span.context.span.hexDigits),
            "parentSpanId": span.parent == 0 ? nil : .string(span.parent.hexDigits),
            // Bits 8 and 9 state whether the parent is remote (trace.proto, SpanFlags), in addition to the trace's flags.
            "flags": .integer(part.hasRemoteParent && span.parent != 0 ? 0x301 : 0x101),
            "name": .string(part.name), "kind": .integer(part.kind),
            "startTimeUnixNano": nanoseconds(span.start), "endTimeUnixNano": nanoseconds(end),
            "attributes": part.attributes, "events": part.events.isEmpty ? nil : .array(part.events),
            "links": span.link.map { [link($0, part.linkReason)] }, "status": part.isFailed ? failed : [:],
        ]
    }

    private static func nanoseconds(_ microseconds: Int64) -> JSONValue { .string("\(microseconds)000") }

    private static func link(_ context: SpanContext, _ reason: String) -> JSONValue {
        [
            "traceId": .string(context.trace.text), "spanId": .string(context.span.hexDigits), "flags": 1,
            "attributes": Attributes.make { $0.add("cistern.link", reason) },
        ]
    }

    /// The parts in which the two kinds of spans differ.
    private struct Part {
        var name: String
        var kind: Int
        var hasRemoteParent = false
        var attributes: JSONValue
        var events: [JSONValue] = []
        var isFailed: Bool
        var linkReason: String
    }

    // MARK: Requests of clients

    private static func part(of work: TraceSpan.Server, _ subject: SpanSubject) -> Part {
        let record = work.record
        let routeIndex = Int(record.route)
        let route = routeIndex < subject.routes.count ? subject.routes[routeIndex] : nil
        let isFailed = record.status >= 500
        let attributes = Attributes.make {
            $0.add(work.head)
            $0.add("url.scheme", work.isSecure ? "https" : "http")
            $0.add("url.path", String(decoding: work.head.path, as: UTF8.self))
            $0.add("http.route", route?.pattern)
            $0.add("http.response.status_code", Int(record.status))
            $0.add("http.response.body.size", record.bodyBytes)
            $0.add("network.protocol.name", "http")
            $0.add("network.protocol.version", work.head.version.number)
            $0.add("client.address", work.client.isEmpty ? nil : String(decoding: work.client, as: UTF8.self))
            $0.add("error.type", isFailed ? record.upstream.failure?.label ?? String(record.status) : nil)
            $0.add("cistern.result", "\(record.result.label)")
            $0.add("cistern.reason", reason(record))
            $0.add("cistern.age", record.age.map { Int($0) })
            $0.add("cistern.partitioned", record.partition != 0)
            $0.add("cistern.mode", record.mode == .live ? nil : record.mode.rawValue)
            $0.add("cistern.api", record.hasAPI && !subject.api.isEmpty ? subject.api : nil)
            $0.add("cistern.route", route?.name)
            $0.add("cistern.exchange", "\(subject.shard)-\(record.number)")
        }
        return Part(
            name: [work.head.method.spanName, route?.pattern].compactMap { $0 }.joined(separator: " "), kind: server, hasRemoteParent: true,
            attributes: attributes, isFailed: isFailed, linkReason: "collapsed")
    }

    /// The reason as in the access log; if there is none, as in `why`.
    private static func reason(_ record: ExchangeRecord) -> String {
        record.loggedReason ?? record.upstream.failure?.label ?? record.reason
    }

    // MARK: Fetches

    private static func part(of work: TraceSpan.Client, _ span: TraceSpan) -> Part {
        let fetched = work.upstream
        let upstream = span.subject.upstreams[min(Int(fetched.address), span.subject.upstreams.count - 1)]
        let isFailed = fetched.failure != nil || work.isAbandoned || fetched.status >= 400
        let attributes = Attributes.make {
            $0.add(work.head)
            $0.add("url.full", upstream.url + String(decoding: work.head.path, as: UTF8.self))
            $0.add("server.address", upstream.host)
            $0.add("server.port", Int(upstream.port))
            $0.add("http.response.status_code", fetched.status == 0 ? nil : Int(fetched.status))
            $0.add("network.protocol.name", fetched.spoken == nil ? nil : "http")
            $0.add("network.protocol.version", fetched.spoken?.version.number)
            $0.add("error.type", isFailed ? fetched.failure?.label ?? (work.isAbandoned ? "abandoned" : String(fetched.status)) : nil)
            $0.add("cistern.connection.reused", fetched.times.sent < 0 ? nil : fetched.times.connected <= 0)
            $0.add("cistern.background", work.background?.rawValue)
            $0.add("cistern.fault_injected", fetched.isFaulted ? true : nil)
            $0.add("cistern.api", span.subject.api.isEmpty ? nil : span.subject.api)
        }
        return Part(
            name: work.head.method.spanName, kind: client, attributes: attributes, events: events(of: work, span), isFailed: isFailed,
            linkReason: work.background?.rawValue ?? "")
    }

    /// Events for the ends of the phases. Phases of a reused connection are omitted.
    private static func events(of work: TraceSpan.Client, _ span: TraceSpan) -> [JSONValue] {
        let times = work.upstream.times
        let phases: [(name: String, time: Int32, isThere: Bool)] = [
            ("name resolved", times.resolved, times.resolved > 0), ("connected", times.connected, times.connected > 0),
            ("tls agreed", times.secured, times.secured > times.connected), ("request sent", times.sent, times.sent >= 0),
            ("first byte", times.firstByte, times.firstByte >= 0),
        ]
        return phases.filter(\.isThere).map { phase in
            let time = min(work.asked + Int64(phase.time), span.start + span.duration)
            return ["name": .string(phase.name), "timeUnixNano": nanoseconds(time)]
        }
    }
}

/// A list of `KeyValue`.
private struct Attributes {
    private var all: [JSONValue] = []

    static func make(_ fill: (inout Attributes) -> Void) -> JSONValue {
        var attributes = Attributes()
        fill(&attributes)
        return .array(attributes.all)
    }

    private mutating func add(_ name: String, _ kind: String, _ value: JSONValue) {
        all.append(["key": .string(name), "value": .object([JSONValue.Member(kind, value)])])
    }

    mutating func add(_ name: String, _ text: String?) { if let text { add(name, "stringValue", .string(text)) } }

    /// 64-bit numbers are strings.
    mutating func add(_ name: String, _ number: Int?) { if let number { add(name, "intValue", .string(String(number))) } }

    mutating func add(_ name: String, _ flag: Bool?) { if let flag { add(name, "boolValue", .bool(flag)) } }

    mutating func add(_ head: TraceSpan.Head) {
        let method = head.method
        add("http.request.method", method.isNamed ? String(decoding: method.bytes, as: UTF8.self) : "_OTHER")
        if !method.isNamed { add("http.request.method_original", String(decoding: method.bytes.prefix(32), as: UTF8.self)) }
    }
}

extension HTTPCore.Method {
    /// Whether the method is a known one. The number of known methods is small, whatever clients send.
    fileprivate var isNamed: Bool { if case .other = self { false } else { true } }

    fileprivate var spanName: String { isNamed ? String(decoding: bytes, as: UTF8.self) : "HTTP" }
}

extension HTTPVersion {
    fileprivate var number: String { "\(receivedProtocol)" }
}
