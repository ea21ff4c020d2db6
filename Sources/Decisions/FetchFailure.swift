// Why a fetch returned no usable response: one type for decisions, labels and texts.

import CachePolicy
import HTTPCore
import Upstream

/// Why a fetch returned no usable response.
public enum FetchFailure: Sendable, Equatable {
    /// No complete response was received.
    case transfer(UpstreamError)
    /// A response was received, but it counts as an upstream failure.
    case fault(UpstreamFault, Status)
    /// The request was not sent, because the failure memory has recorded that the upstream fails.
    case stopped(FailureStop)
    /// No response within the soft deadline. The fetch continues.
    case slow
    /// The response is a stream, and the limit on streams is reached.
    case tooManyStreams

    public static let slowLabel = "slow"

    /// The label in metrics, logs and the `detail` of Cache-Status.
    public var label: String {
        switch self {
        case .transfer(let error): error.rawValue
        case .fault(let fault, _): fault.rawValue
        case .stopped(let stop): stop.scope.label
        case .slow: Self.slowLabel
        case .tooManyStreams: "too_many_streams"
        }
    }

    /// Whether the cause is the upstream, and not a limit of Cistern.
    public var isOfUpstream: Bool {
        switch self {
        case .transfer(let error): !error.isOwn
        case .fault: true
        case .stopped, .slow, .tooManyStreams: false
        }
    }

    /// Text of the cause; nil if unknown.
    public var details: String? {
        switch self {
        case .transfer(let error): error.details
        case .stopped(let stop): stop.cause.details
        case .fault, .slow, .tooManyStreams: nil
        }
    }

    /// Status of the upstream's response; nil if there was none (`fwd-status`, RFC 9211 §2.3).
    public var status: Status? {
        switch self {
        case .transfer, .stopped, .slow, .tooManyStreams: nil
        case .fault(_, let status): status
        }
    }
}
