// The values of metric labels that come from enums of other modules, in a fixed order. The index of a count is the index of its case.

import CachePolicy
import Decisions
import Figures
import Forwarding
import HTTPCore
import Upstream

public enum MetricNames {
    public static let notStored = NotStoredReason.allCases
    public static let refusals = RequestRejection.Kind.allCases.map(\.rawValue) + AccessRefusal.allCases.map(\.rawValue)
    public static let upstreamErrors = UpstreamError.allCases
    public static let contentOutcomes = ContentOutcome.allCases
    /// Causes of rescues: a failed transfer, a fault in a response, or a failure stop without a request.
    public static let rescueCauses =
        UpstreamError.allCases.map(\.rawValue) + UpstreamFault.allCases.map(\.rawValue)
        + FailureScopeKind.allCases.map(\.label) + [FetchFailure.slowLabel]

    public static let labels = MetricLabels(
        rescueCauses: rescueCauses, notStored: notStored.map(\.rawValue), refusals: refusals,
        upstreamErrors: upstreamErrors.map(\.rawValue), contentOutcomes: contentOutcomes.map(\.rawValue),
        sharedPermissions: SharedCopyPermission.allCases.map(\.rawValue))

    public static func place(of permission: SharedCopyPermission) -> Int? {
        SharedCopyPermission.allCases.firstIndex(of: permission)
    }
    public static func place(of refusal: AccessRefusal) -> Int? { refusals.firstIndex(of: refusal.rawValue) }
    public static func place(of rejection: RequestRejection.Kind) -> Int? { refusals.firstIndex(of: rejection.rawValue) }
    public static func place(of reason: NotStoredReason) -> Int? {
        // Called for almost every response: `firstIndex` would use a witness table for each comparison.
        for place in notStored.indices where notStored[place] == reason { return place }
        return nil
    }
    public static func place(of failure: FetchFailure) -> Int? { rescueCauses.firstIndex(of: failure.label) }
}
