// What is remembered of an exchange once its request has been looked at.

import CachePolicy
import Explanation
import ResponseCache

extension ExchangeTrace {
    /// What is known once the request has been looked at.
    init(number: UInt64, _ plan: ExchangePlan, partitionAt offset: Int, now: Timestamp) {
        self.init()
        self.number = number
        mode = plan.mode
        bypass = plan.bypass
        isOnlyIfCached = plan.directives.onlyIfCached
        diskReads = UInt8(clamping: plan.diskReads)
        if let key = plan.key {
            lookUp = plan.missToken.description == "vary-miss" ? .otherVariant : .nothing
            partition = Self.partition(in: key, at: offset)
        }
        guard let found = plan.found else { return }
        lookUp = .stored
        lifetime = found.metadata.freshnessLifetime ?? -1
        age = Freshness.currentAge(of: found.metadata, now: now)
        if case .validate(let reason) = Reuse.decide(found.metadata, plan.directives, now: now) { validation = reason }
    }
}
