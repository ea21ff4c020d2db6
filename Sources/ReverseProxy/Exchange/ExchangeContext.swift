// Dependencies of exchanges on their shard.

import CachePolicy
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Upstream

/// One instance for each API and shard. A class, because an exchange then counts one reference. Used on its shard's loop only.
final class ExchangeContext {
    let loop: EventLoop
    let rules: ExchangeRules
    let messages: ShardMessages
    /// nil if nothing is stored.
    let cache: ResponseCache?
    let coordination: Coordination
    let reporting: Reporting
    let requests: UpstreamRequests
    let background: BackgroundWork

    init(_ rules: ExchangeRules, _ messages: ShardMessages, _ cache: ResponseCache?, _ background: BackgroundWork) {
        (self.rules, self.messages, self.cache, self.background) = (rules, messages, cache, background)
        let context = background.context
        (loop, coordination, reporting, requests) = (context.loop, context.coordination, context.reporting, context.requests)
    }
}

/// The settings that exchanges use. A class, because a copy of a struct would count eleven references.
final class ExchangeRules {
    /// Name of this proxy in its own fields.
    let name: String
    let collapses: Bool
    /// Maximum wait for another request's fetch, in milliseconds.
    let collapseWait: Int64
    /// Maximum wait for the first byte of a response of the upstream, in milliseconds.
    let firstByteTimeout: Int64
    let strictness: Strictness
    let setCookie: SetCookieTreatment
    let bufferLimitBytes: Int
    let compressFromBytes: Int
    let routes: Routes

    init(_ settings: ProxySettings, _ routes: Routes) {
        (name, collapseWait) = (settings.forwarding.name, settings.collapsing.wait)
        collapses = settings.collapsing.isOn && collapseWait > 0
        (strictness, setCookie) = (settings.policy.strictness, settings.policy.setCookie)
        firstByteTimeout = settings.upstream.firstByteTimeout.wholeMilliseconds
        (bufferLimitBytes, compressFromBytes) = (settings.content.bufferLimitBytes, settings.content.compressFromBytes)
        self.routes = routes
    }
}
