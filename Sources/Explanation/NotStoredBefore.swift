// Why nothing is stored of a target that fails now: by what came of it, or of its route, while that was well.

import CachePolicy
import HTTPCore
import Telemetry

public struct NotStoredBefore: Sendable, Equatable {
    public enum Place: Sendable {
        case path, route, api, all
    }

    public let reason: NotStoredReason
    /// What most of was not kept for that.
    public let place: Place

    /// Status of the response; nil for several responses.
    let status: UInt16?

    public init(_ reason: NotStoredReason, of place: Place, status: UInt16? = nil) {
        (self.reason, self.place, self.status) = (reason, place, status)
    }

    var advice: WhyAdvice? { reason.advice(status: status) }

    var sentence: String {
        let words =
            switch place {
            case .path: "What came from this path before was not stored"
            case .route: "Responses of this route were most often not stored for this"
            case .api: "Responses of this API were most often not stored for this"
            case .all: "Responses were most often not stored for this"
            }
        return "\(words): \(reason.sentence)\(reason.advice == nil ? "; no setting changes that" : "")."
    }
}

extension WhyRecord {
    /// It failed, and nothing was there to stand in: it may be told why.
    public var lacksCopy: Bool {
        trace.result == .error && trace.background == nil && trace.found.kind == .nothing && trace.upstream.failure != nil
            && trace.reasons.bypass == nil
    }

    /// Status of the upstream's response, or of the generated response if the upstream was not asked.
    public var responseStatus: UInt16 { trace.upstream.status == 0 ? trace.status : trace.upstream.status }

    /// Why its response, which was no error, was not kept.
    public var reasonNotStored: NotStoredReason? { trace.isGoodAndNotStored ? trace.reasons.notStored : nil }

    /// Without arguments.
    public var path: ArraySlice<UInt8> { target[...].withoutQuery }
}

extension ExchangeTrace {
    var isGoodAndNotStored: Bool { reasons.notStored != nil && status < 500 && upstream.status < 500 }
}
