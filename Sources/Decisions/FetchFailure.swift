// Why a fetch brought nothing good, as a type from where it arises to where it is shown.

import CachePolicy
import HTTPCore
import Upstream

/// Why a fetch brought nothing good.
public enum FetchFailure: Sendable, Equatable {
    /// No complete response came.
    case transfer(UpstreamError)
    /// A response came, and it counts as a failing upstream.
    case fault(UpstreamFault, Status)
    /// It was not asked, since it is known to fail.
    case stopped(FailureStop)
    /// There was no response within the soft deadline. The fetch goes on.
    case slow
    /// The response is a stream, and streams hold as many connections as they may.
    case tooManyStreams

    public static let slowLabel = "slow"

    /// A label for metrics, logs and the `detail` of Cache-Status.
    public var label: String {
        switch self {
        case .transfer(let error): error.rawValue
        case .fault(let fault, _): fault.rawValue
        case .stopped(let stop): stop.scope.label
        case .slow: Self.slowLabel
        case .tooManyStreams: "too_many_streams"
        }
    }

    /// Whether the upstream has failed, and not a limit of Cistern.
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

    /// The status of the upstream's response; nil where there was none (RFC 9211 §2.3 `fwd-status`).
    public var status: Status? {
        switch self {
        case .transfer, .stopped, .slow, .tooManyStreams: nil
        case .fault(_, let status): status
        }
    }
}
