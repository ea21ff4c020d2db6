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
        errors.map(\.rawValue) + faults.map(\.rawValue) + scopes.map(\.label) + [FetchFailure.slowLabel]
    private static let errors = UpstreamError.Kind.allCases
    private static let faults = UpstreamFault.allCases
    private static let scopes = FailureScopeKind.allCases

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
    public static func index(of reason: NotStoredReason) -> Int? { index(of: reason, in: notStored) }
    public static func index(of failure: FetchFailure) -> Int? {
        switch failure {
        case .transfer(let error): index(of: error.kind, in: errors)
        case .fault(let fault, _): index(of: fault, in: faults).map { errors.count + $0 }
        case .stopped(let stop): index(of: stop.scope, in: scopes).map { errors.count + faults.count + $0 }
        case .slow: rescueCauses.count - 1
        case .tooManyStreams: nil
        }
    }

    /// Called for almost every response. `firstIndex` would call a witness for each comparison.
    @inline(__always)
    private static func index<Value: Equatable>(of value: Value, in values: [Value]) -> Int? {
        for index in values.indices where values[index] == value { return index }
        return nil
    }
}
