// What the administrator's pages may know of the server and have it do (`AdministeredServer`).

import Administration
import CachePolicy
import Coordination
import Examination
import Explanation
import HTTPCore
import JSON
import Locking
import Reactor
import ResponseCache
import ReverseProxy
import Telemetry
import Upstream

extension ProxyServer: AdministeredServer {
    package var policy: CachePolicySettings { settings.policy }
    package var upstreamURL: String { settings.upstream.origin + settings.upstream.basePath }
    package var routeNames: [String] { shared.routes.all.dropLast().map(\.name) }

    package func explainedRoute(of target: [UInt8]) -> ExplainedRoute { shared.routes.explained(target) }

    // MARK: What is known of failures

    package var remembersFailures: Bool { shared.health.isOn }

    package func openFailures() -> [OpenFailure] {
        shared.health.openScopes(now: monotonicMilliseconds).map { open in
            let user: UInt64? = if case .pause(_, let user) = open.scope, user != 0 { user } else { nil }
            return OpenFailure(
                name: shared.health.name(of: open.scope), kind: open.scope.kind.rawValue, since: open.stop.since,
                cause: open.stop.cause.label,
                setting: open.stop.setting.rawValue, effect: open.scope.kind.effect, wait: open.stop.wait, user: user)
        }
    }

    package func resetFailures(_ name: String?) -> Int { shared.health.reset(name, now: monotonicMilliseconds) }

    // MARK: Loops

    package func searchRecords(_ search: WhyRing.Search, then: @escaping @Sendable ([WhyRecord]) -> Void) {
        // Each shard adds to it from its own loop.
        let found = Mutex<(records: [WhyRecord], left: Int)>(([], shardCount))
        onEachShard { shard in
            shard.search(search) { records in
                let isLast = found.withLock { found in
                    found.records += records
                    found.left -= 1
                    return found.left == 0
                }
                if isLast { then(found.withLock { $0.records }) }
            }
        } then: {
        }
    }

    package func afterEachLoop(_ then: @escaping @Sendable () -> Void) { onEachShard({ _ in }, then: then) }

    // MARK: Archives

    package func judge(_ archived: ArchivedResponse) -> ArchiveJudgement {
        let good = shared.routes.all[shared.routes.place(of: archived.request.pathAndQuery)].good
        let examination = ContentExamination(
            ContentExamination.Arrived(
                archived.content, .identity,
                isJSON: MediaType(of: archived.response.fields)?.isJSON == true,
                JSONTextChecker.check(archived.content.span), isDelimited: true),
            ContentExamination.Demands(
                good, storedBytes: nil, makesTag: settings.policy.wantsOwnTag(archived.response),
                limitBytes: settings.content.bufferLimitBytes))
        let findings = examination.findings()
        return ArchiveJudgement(good: good, fault: findings?.fault, ownTag: findings?.ownTag)
    }
}
