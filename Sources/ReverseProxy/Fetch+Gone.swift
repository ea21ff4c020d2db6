// What a fetch makes of a 404 or 410 for what there is a copy of (`GoneMemory`).

import CachePolicy
import CacheStore
import HTTPCore
import Reactor
import Upstream

extension Fetch {
    enum GoneJudgement {
        /// It says nothing of that, or is not believed: passed on.
        case nothing
        /// Believed once it is whole and, for 404, proves to be JSON.
        case candidate
        case routesLost
    }

    /// What the head tells.
    /// - Parameter decision: where it is stored as any other response, that is what counts.
    func judgeGone(_ response: ResponseHead, _ decision: StorageDecision) -> GoneJudgement {
        guard let memory = shard.server.gone, key != nil, subject.head.method == .get, let found = subject.found else { return .nothing }
        switch response.status {
        case 404:
            let verdict = memory.missing(found.key, by: subject.scopes.user, now: shard.loop.time.monotonicMilliseconds)
            guard verdict == .believed else {
                return subject.mayRescue && shard.settings.policy.strictness == .rescue ? .routesLost : .nothing
            }
            return decision != .allowed && isJSON(response) ? .candidate : .nothing
        case 410: return decision == .allowed ? .nothing : .candidate
        default: return .nothing
        }
    }

    /// Remembers that it is gone, if the whole response says so.
    /// - Returns: whether it did.
    func rememberGone(_ response: ResponseHead, _ findings: ContentExamination.Findings) -> Bool {
        let decoded = findings.decoded
        guard let memory = shard.server.gone, let lookUp = shard.lookUp, let found = subject.found,
            response.status == 410 || findings.fault == nil, ContentCoding(response.fields) == .identity || decoded != nil,
            !lookUp.isInvalid(requestTime, sharedKey), !isOlder(than: found.key, in: lookUp.store)
        else { return false }
        // What must not be kept is not kept for this either.
        var policy = shard.settings.policy
        policy.keepsAny = true
        let control = control(response)
        guard
            Storing.decide(
                request: subject.head, directives: subject.directives, response: response, control: control, isPartitioned: isPartitioned,
                settings: policy) == .allowed
        else { return false }
        let body = decoded ?? content
        let gone = shard.newResponse(
            response, body, isDecoded: decoded != nil, ownTag: nil, to: subject.head, isPartitioned: isPartitioned, recency)
        return memory.remember(found.key, gone.metadata, head: gone.head, content: body, now: shard.loop.time.monotonicMilliseconds)
    }

    /// Whether what is stored now answers a request that was sent later than this one.
    private func isOlder(than key: [UInt8], in store: ResponseStore) -> Bool {
        store.see(key.span).item.flatMap { StoredMetadata.recency(of: $0.metadata) }.map(recency.isOutdated) ?? false
    }

    /// The upstream has it: what said that it is gone counts no more.
    func liftGone() {
        guard let memory = shard.server.gone, let found = subject.found else { return }
        memory.found(found.key, recency, now: shard.loop.time.monotonicMilliseconds)
    }
}
