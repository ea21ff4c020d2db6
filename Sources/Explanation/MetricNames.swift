// The values of metric labels that come from the other rooms' enums, in a fixed order: a count's place is its case's place.

import CachePolicy
import Decisions
import Forwarding
import HTTPCore
import Telemetry
import Upstream

public enum MetricNames {
    public static let notStored = NotStoredReason.allCases
    public static let refusals = RequestRejection.Kind.allCases.map(\.rawValue) + AccessRefusal.allCases.map(\.rawValue)
    public static let upstreamErrors = UpstreamError.allCases
    public static let contentOutcomes = ContentOutcome.allCases
    /// A copy goes out because of a failed transfer, a fault in a response, or without asking.
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
        // Asked of almost every response: `firstIndex` would go through a table for each comparison.
        for place in notStored.indices where notStored[place] == reason { return place }
        return nil
    }
    public static func place(of failure: FetchFailure) -> Int? { rescueCauses.firstIndex(of: failure.label) }
}
