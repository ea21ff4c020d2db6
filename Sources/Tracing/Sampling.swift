// Which requests are recorded, and what the upstream is told of their traces (W3C Trace Context, level 2). Pure: chances and times are passed in.

import HTTPCore

/// Whether a request is recorded.
public enum Sampling {
    private static let million: UInt64 = 1_000_000

    /// Who has sent the request has decided, where it says so in `parent`; else chance does.
    /// - Parameter chance: any number, each as likely.
    static func wants(_ parent: TraceParent?, samplePerMillion: Int, chance: UInt64) -> Bool {
        parent?.isSampled ?? (chance % million < UInt64(clamping: samplePerMillion))
    }

    /// The same by chance.
    public static func wants(_ parent: TraceParent?, _ settings: TracingSettings, _ chances: inout Chances) -> Bool {
        wants(parent, samplePerMillion: settings.samplePerMillion, chance: parent == nil ? chances.next() : 0)
    }
}

/// How many requests are recorded in each second: clients set the flag, so there is an end to that.
struct SamplingLimit {
    private var second: Int64 = .min
    private var taken = 0

    /// - Parameter now: seconds.
    /// - Returns: false where there is no room in this second any more.
    mutating func take(_ limit: Int, now: Int64) -> Bool {
        // Another loop may be some milliseconds behind; a clock that was set back is more.
        if now > second || now < second - 1 { (second, taken) = (now, 0) }
        guard taken < limit else { return false }
        taken += 1
        return true
    }
}

/// Numbers by which spans and traces are told apart. The system's random ones, since each of them is told to upstreams, and none may tell of another.
public enum SpanNumbers {
    /// A new span, of the trace or of a new one.
    public static func span(in trace: TraceID? = nil) -> SpanPlace {
        SpanPlace(trace: trace ?? TraceID(high: next(), low: next()), span: next())
    }

    /// Never 0, which names nothing.
    private static func next() -> UInt64 { .random(in: 1 ... .max) }
}

/// Chances of one shard, which nobody is told, from a random beginning: asked for each request, so they cost next to nothing.
public struct Chances: Sendable {
    private var place = UInt64.random(in: 0 ... .max)

    public init() {}

    public mutating func next() -> UInt64 {
        place &+= 1
        return SplitMix64.number(at: place)
    }
}

/// What the upstream is told.
public enum TraceContext {
    /// The span that asks is recorded: it is the parent of what the upstream does. Trace, flags and tracestate stay; without a valid parent a trace
    /// begins here, and a tracestate is nobody's.
    public static func tell(_ span: SpanPlace, in fields: inout Fields) {
        let parent = TraceParent(fields)
        let flags: UInt8
        if let parent, parent.trace == span.trace {
            flags = parent.flags
        } else {
            fields.remove(.tracestate)
            flags = TraceParent.random
        }
        fields.set(.traceparent, TraceParent(span, flags: flags | TraceParent.sampled).bytes)
    }

    /// Nothing is recorded: what the client says goes on as it is. What is no traceparent is none to anybody, so another trace begins
    /// (§4.3), which nobody keeps.
    public static func pass(_ fields: inout Fields) {
        guard fields.contains(.traceparent) else { return fields.remove(.tracestate) }
        guard TraceParent(fields) == nil else { return }
        fields.remove(.tracestate)
        fields.set(.traceparent, TraceParent(SpanNumbers.span(), flags: TraceParent.random).bytes)
    }
}
