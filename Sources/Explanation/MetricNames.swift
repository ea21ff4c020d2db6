// The values of metric labels, in a fixed order. The index of a count is the index of its case.

import CachePolicy
import Decisions
import Figures
import Forwarding
import HTTPCore
import Upstream

public enum MetricNames {
    public static let notStored = NotStoredReason.allCases
    public static let refusals = RequestRejection.Kind.allCases.map(\.rawValue) + AccessRefusal.allCases.map(\.rawValue)
    /// Causes of rescues: a failed transfer, a fault in a response, or a failure stop without a request.
    public static let rescueCauses =
        UpstreamError.allCases.map(\.rawValue) + UpstreamFault.allCases.map(\.rawValue)
        + FailureScopeKind.allCases.map(\.label) + [FetchFailure.slowLabel]

    /// The values of a figure's label, by index.
    @Sendable public static func values(of figure: LabelledFigure) -> [String] {
        switch figure {
        case .requests: RequestLabels.withMethods
        case .routeRequests: RequestLabels.withoutMethods
        case .responseBytes: ContentSource.allCases.map { "\($0.label)" }
        case .savedBytes: CacheResult.namesFromStore
        case .apiRequests: CacheResult.allCases.map { "\($0.label)" }
        case .apiServerErrors, .upstreamResponseBytes, .spansExported, .spanExportFailures, .tracedOverLimit: [""]
        case .contents: ContentOutcome.allCases.map(\.rawValue)
        case .rescued, .routeRescued: rescueCauses
        case .rescuedWithShared: SharedRescuePermission.allCases.map(\.rawValue)
        case .notStored, .errorsNotStored, .routeNotStored: notStored.map(\.rawValue)
        case .refused: refusals
        case .upstreamErrors: UpstreamError.allCases.map(\.rawValue)
        case .upstreamHTTP2Ended: HTTP2ExchangeEnd.allCases.map(\.rawValue)
        case .upstreamEnded: ConnectionEnd.allCases.map(\.rawValue)
        case .injectedFaults: InjectedFault.kinds
        case .upstreamResponses: StatusClass.labels
        case .tlsHandshakes: ["full", "resumed"]
        case .tlsHandshakesFailed: HandshakeFailure.allCases.map(\.rawValue)
        case .tlsReloads: ["taken", "refused"]
        case .spansDropped: SpanLoss.allCases.map(\.rawValue)
        }
    }

    public static func index(of refusal: AccessRefusal) -> Int? { refusals.firstIndex(of: refusal.rawValue) }
    public static func index(of rejection: RequestRejection.Kind) -> Int? { refusals.firstIndex(of: rejection.rawValue) }
    public static func index(of reason: NotStoredReason) -> Int? {
        // Called for almost every response: `firstIndex` would use a witness table for each comparison.
        for index in notStored.indices where notStored[index] == reason { return index }
        return nil
    }
    public static func index(of failure: FetchFailure) -> Int? { rescueCauses.firstIndex(of: failure.label) }
}
