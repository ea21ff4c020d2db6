// Decides which requests are traced, and which trace context the upstream receives (W3C Trace Context, level 2). Pure: random numbers and
// times are arguments.

import HTTPCore

/// Decision whether a request is traced.
public enum Sampling {
    private static let million: UInt64 = 1_000_000

    /// The decision of the sender in `parent` has precedence; without one, chance decides.
    /// - Parameter chance: a uniformly distributed number.
    static func wants(_ parent: TraceParent?, samplePerMillion: Int, chance: UInt64) -> Bool {
        parent?.isSampled ?? (chance % million < UInt64(clamping: samplePerMillion))
    }

    /// Decides with a random number from `chances`.
    public static func wants(_ parent: TraceParent?, _ settings: TracingSettings, _ chances: inout Chances) -> Bool {
        wants(parent, samplePerMillion: settings.samplePerMillion, chance: parent == nil ? chances.next() : 0)
    }
}

/// Limits the number of traced requests per second, because clients can set the sampled flag.
struct SamplingLimit {
    private var second: Int64 = .min
    private var taken = 0

    /// Counts a request.
    /// - Parameter now: seconds.
    /// - Returns: false if the limit for this second is reached.
    mutating func take(_ limit: Int, now: Int64) -> Bool {
        // Another loop may be some milliseconds behind. A larger difference means that the clock was set back.
        if now > second || now < second - 1 { (second, taken) = (now, 0) }
        guard taken < limit else { return false }
        taken += 1
        return true
    }
}

/// IDs of spans and traces. They come from the system's random numbers, because upstreams see them and must not be able to derive one from
/// another.
public enum SpanNumbers {
    /// Creates the ID of a new span, in this trace or in a new one.
    public static func span(in trace: TraceID? = nil) -> SpanContext {
        SpanContext(trace: trace ?? TraceID(high: next(), low: next()), span: next())
    }

    /// Never 0, which is an invalid ID.
    private static func next() -> UInt64 { .random(in: 1 ... .max) }
}

/// A shard's random numbers for sampling, which are not disclosed. Every request needs one, so they must be cheap.
public struct Chances: Sendable {
    private var counter = UInt64.random(in: 0 ... .max)

    public init() {}

    public mutating func next() -> UInt64 {
        counter &+= 1
        return SplitMix64.number(at: counter)
    }
}

/// The trace context for the upstream.
public enum TraceContext {
    /// Makes the recorded span the parent of the upstream's spans. Trace ID, flags and tracestate are kept. Without a valid parent a new
    /// trace begins, and tracestate is removed.
    public static func set(_ span: SpanContext, in fields: inout Fields) {
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

    /// Passes the client's context unchanged, because nothing is recorded. An invalid traceparent is replaced by a new trace without the
    /// sampled flag (§4.3), and tracestate is removed.
    public static func pass(_ fields: inout Fields) {
        guard fields.contains(.traceparent) else { return fields.remove(.tracestate) }
        guard TraceParent(fields) == nil else { return }
        fields.remove(.tracestate)
        fields.set(.traceparent, TraceParent(SpanNumbers.span(), flags: TraceParent.random).bytes)
    }
}
