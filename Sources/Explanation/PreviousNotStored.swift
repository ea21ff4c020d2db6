// Why no response is stored for a failing target: how earlier responses of the target, or of its route, were handled while they were good.

import CachePolicy
import Figures
import HTTPCore

public struct PreviousNotStored: Sendable, Equatable {
    public enum Scope: Sendable {
        case path, route, api, all
    }

    public let reason: NotStoredReason
    /// What most of the unstored responses belong to.
    public let scope: Scope

    /// Status of the response; nil for several responses.
    let status: UInt16?

    public init(_ reason: NotStoredReason, of scope: Scope, status: UInt16? = nil) {
        (self.reason, self.scope, self.status) = (reason, scope, status)
    }

    var advice: WhyAdvice? { reason.advice(status: status) }

    var sentence: String {
        let words =
            switch scope {
            case .path: "Earlier responses of this path were not stored"
            case .route: "Most common reason for not storing responses of this route"
            case .api: "Most common reason for not storing responses of this API"
            case .all: "Most common reason for not storing responses"
            }
        return "\(words): \(reason.sentence)\(reason.advice == nil ? "; no setting changes that" : "")."
    }
}

extension WhyRecord {
    /// Whether the exchange failed without a stored response, so that an explanation of earlier responses is useful.
    public var lacksCopy: Bool {
        exchange.result == .error && exchange.background == nil && exchange.found.kind == .nothing && exchange.upstream.failure != nil
            && exchange.reasons.bypass == nil
    }

    /// Status of the upstream's response, or of the generated response if no request was sent.
    public var responseStatus: UInt16 { exchange.upstream.status == 0 ? exchange.status : exchange.upstream.status }

    /// Why a successful response was not stored; nil if it was stored, or not successful.
    public var reasonNotStored: NotStoredReason? { exchange.isGoodAndNotStored ? exchange.reasons.notStored : nil }

    /// The path without arguments.
    public var path: ArraySlice<UInt8> { target[...].withoutQuery }
}

extension ExchangeRecord {
    var isGoodAndNotStored: Bool { reasons.notStored != nil && status < 500 && upstream.status < 500 }
}
