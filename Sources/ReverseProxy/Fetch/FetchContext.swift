// Dependencies of a fetch on its API and its shard. `ProxyShard` creates it.

import CachePolicy
import Decisions
import Figures
import Forwarding
import HTTPCore
import Identity
import JSON
import Reactor
import ResponseCache
import Upstream

/// One instance for each API and shard. A class, because a fetch then counts one reference. Used on its shard's loop only.
final class FetchContext {
    let loop: EventLoop
    let rules: FetchRules
    /// nil if nothing is stored.
    let cache: ResponseCache?
    let upstream: UpstreamClient
    let coordination: Coordination
    let reporting: Reporting
    let examiner: Examiner
    /// Notified of the outcome of each fetch. Weak, and set by `ProxyShard`, because its health checks are fetches too.
    weak var healthChecks: UpstreamHealthChecks?

    init(
        _ api: APIState, on shard: Shard, _ cache: ResponseCache?, _ upstream: UpstreamClient, _ coordination: Coordination,
        _ reporting: Reporting
    ) {
        (loop, examiner, rules, self.cache) = (shard.loop, Examiner(shard.workers), FetchRules(api), cache)
        (self.upstream, self.coordination, self.reporting) = (upstream, coordination, reporting)
    }
}

/// Settings and routes of an API that its fetches use.
struct FetchRules {
    private let api: APIState
    let routes: Routes

    init(_ api: APIState) { (self.api, routes) = (api, api.routes) }

    var strictness: Strictness { api.settings.policy.strictness }
    var reading: JSONReading { api.settings.policy.reading }
    func makesTag(for head: ResponseHead) -> Bool { api.settings.policy.makesTag(for: head) }
    /// Maximum length of content that is buffered, in bytes.
    var bufferLimitBytes: Int { api.settings.content.bufferLimitBytes }
    /// Maximum length of content that is held although no stored response could replace it, in bytes.
    var holdLimitBytes: Int { api.settings.content.holdLimitBytes }
    /// Maximum length of content that is examined on the event loop, in bytes.
    var examinedAtOnceBytes: Int { api.settings.content.examinedAtOnceBytes }
    /// The upstream's origin, with which references in responses are compared.
    var origin: UpstreamOrigin { api.cacheSettings.upstream }
    /// nil if traffic is not observed.
    var traffic: ObservedTraffic? { api.traffic }
    var memory: ResponseMemory { api.process.responses }
    var identityTables: [LookedUpIdentities] { api.process.identityTables.all }

    /// Records which permission a good response gives to the request's origin. Ignores a 304, because it may omit the CORS fields.
    func noteGrant(_ response: ResponseHead, to head: RequestHead) {
        guard let origin = head.fields.first(.origin), head.method != .options, routes.crossOrigin(head.pathAndQuery) == nil
        else { return }
        let word = OriginDecision(response.fields, to: origin)
        if response.status.isSuccessful || (response.status == 304 && word.grant != nil) { api.grants.note(word, to: head) }
    }

    /// Rewrites the references in a response from another upstream address to those of the first address. So forwarding, storing and
    /// invalidation do not depend on the address that responded.
    /// - Parameter address: index of the upstream address.
    @inline(never)
    func withReferencesToFirstAddress(_ head: ResponseHead, from address: Int) -> ResponseHead {
        let origin = origin
        guard api.settings.forwarding.rewriteLocation, origin.others.indices.contains(address - 1) else { return head }
        let other = origin.others[address - 1]
        var head = head
        for field in [KnownField.location, .contentLocation] {
            guard let value = head.fields.first(field) else { continue }
            let translated = LocationRewriting.translated(
                value, from: (other.bytes, other.basePath), to: (origin.bytes, origin.basePath))
            if let translated { head.fields.set(field, translated) }
        }
        return head
    }
}

extension FetchContext {

    // MARK: Identities

    /// Suspends the remembered identities of an unsafe request's tokens while the request is active. Returns nil if there are no identity
    /// lookups.
    func beginIdentityWrite(_ head: RequestHead) -> IdentityWrite? {
        let tables = rules.identityTables
        guard !tables.isEmpty, let cache else { return nil }
        return IdentityWrite(cache.keyMaker.tokens(of: head.fields), in: tables)
    }

    /// Whether a response sets a cookie that is a credential.
    func changesCredentials(_ response: ResponseHead) -> Bool {
        response.fields.contains(.setCookie) && cache?.keyMaker.areCredentialsChanged(by: response.fields) ?? false
    }

    /// Discards the remembered identities of a request's tokens after a 401 or a new credential.
    func forgetIdentities(of head: RequestHead, after response: ResponseHead) {
        guard response.status == 401 || response.fields.contains(.setCookie), let cache else { return }
        let tables = rules.identityTables
        guard !tables.isEmpty, response.status == 401 || changesCredentials(response) else { return }
        let tokens = cache.keyMaker.tokens(of: head.fields)
        for table in tables { table.forget(tokens) }
    }
}
