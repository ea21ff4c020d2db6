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
    public static func wants(_ parent: TraceParent?, _ settings: TracingSettings, _ numbers: inout SpanNumbers) -> Bool {
        wants(parent, samplePerMillion: settings.samplePerMillion, chance: parent == nil ? numbers.next() : 0)
    }
}

/// How many requests are recorded in each second: clients set the flag, so there is an end to that.
struct SamplingLimit {
    private var second: Int64 = .min
    private var taken = 0

    /// - Parameter now: seconds.
    /// - Returns: false where there is no room in this second any more.
    mutating func take(_ limit: Int, now: Int64) -> Bool {
        if now != second { (second, taken) = (now, 0) }
        guard taken < limit else { return false }
        taken += 1
        return true
    }
}

/// Numbers by which spans and traces are told apart, of one shard (SplitMix64, from a random beginning): no two alike, and none tells of another.
public struct SpanNumbers: Sendable {
    private var state: UInt64

    public init(seed: UInt64 = .random(in: 0 ... .max)) { state = seed }

    /// Never 0, which names nothing.
    public mutating func next() -> UInt64 {
        while true {
            state &+= 0x9e37_79b9_7f4a_7c15
            var mixed = (state ^ (state >> 30)) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
            mixed ^= mixed >> 31
            if mixed != 0 { return mixed }
        }
    }

    /// A new span, of the trace or of a new one.
    public mutating func span(in trace: TraceID? = nil) -> SpanPlace {
        SpanPlace(trace: trace ?? TraceID(high: next(), low: next()), span: next())
    }
}

/// What the upstream is told.
public enum TraceContext {
    /// The span that asks is recorded: it is the parent of what the upstream does. Trace, flags and tracestate stay; without a valid parent a trace
    /// begins here, and a tracestate is nobody's.
    public static func tell(_ span: SpanPlace, in fields: inout Fields) {
        let parent = TraceParent(fields)
        if parent?.trace != span.trace { fields.remove(.tracestate) }
        fields.set(
            .traceparent, TraceParent(span, flags: (parent?.trace == span.trace ? parent?.flags ?? 0 : 0) | TraceParent.sampled).bytes)
    }

    /// Nothing is recorded: what the client says goes on as it is. What is no traceparent is none to anybody, so another trace begins
    /// (§4.3), which nobody keeps.
    public static func pass(_ fields: inout Fields, _ numbers: inout SpanNumbers) {
        guard fields.contains(.traceparent) else { return fields.remove(.tracestate) }
        guard TraceParent(fields) == nil else { return }
        fields.remove(.tracestate)
        fields.set(.traceparent, TraceParent(numbers.span(), flags: 0).bytes)
    }
}
