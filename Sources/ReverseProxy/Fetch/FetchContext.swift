// What a fetch needs of its API and its shard. `ProxyShard` assembles it.

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
    let marks: MarkPropagation
    let upstream: UpstreamClient
    let coordination: Coordination
    let reporting: Reporting

    init(
        _ api: SharedFlowState, on loop: EventLoop, _ cache: ResponseCache?, _ upstream: UpstreamClient, _ coordination: Coordination,
        _ reporting: Reporting
    ) {
        (self.loop, rules, self.cache, marks) = (loop, FetchRules(api), cache, coordination.marks)
        (self.upstream, self.coordination, self.reporting) = (upstream, coordination, reporting)
    }
}

/// Settings and routes of an API, as far as its fetches need them.
struct FetchRules {
    private let api: SharedFlowState

    init(_ api: SharedFlowState) { self.api = api }

    var strictness: Strictness { api.settings.policy.strictness }
    var reading: JSONReading { api.settings.policy.reading }
    var makesEntityTags: Bool { api.settings.policy.makesEntityTags }
    /// Maximum length of content that is buffered, in bytes.
    var bufferLimitBytes: Int { api.settings.content.bufferLimitBytes }
    /// Maximum length of content that is examined on the event loop, in bytes.
    var examinedAtOnceBytes: Int { api.settings.content.examinedAtOnceBytes }
    /// The upstream's origin, with which references in responses are compared.
    var origin: UpstreamOrigin { api.cacheSettings.upstream }

    /// Whether responses to the request are streamed.
    func streams(_ head: RequestHead) -> Bool { api.routes.stream(head.pathAndQuery) }

    /// The operator's requirements on good responses.
    func good(for request: DecidedRequest) -> GoodResponse {
        request.head.method == .options ? GoodResponse() : api.routes.good(on: request.route)
    }

    /// The operator's requirements for storing responses.
    func kept(for request: DecidedRequest) -> GoodResponse {
        request.head.method == .options ? GoodResponse() : api.routes.kept(on: request.route)
    }

    /// What a write invalidates, besides other paths that its response names.
    func invalidation(by head: RequestHead) -> (sparesTarget: Bool, hasCollection: Bool) { api.routes.invalidation(by: head.pathAndQuery) }

    func rescueWithShared(_ head: RequestHead) -> RescueWithShared { api.routes.rescueWithShared(head.pathAndQuery) }

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

/// What a fetch reports to its API.
protocol FetchReports: AnyObject {
    // The failure memory, and background checks of the upstream
    func noteSuccess(of request: DecidedRequest, began: Int64)
    func noteFailure(of request: DecidedRequest, _ cause: FailureCause, began: Int64)
    // Clients
    func beginIdentityWrite(_ head: RequestHead) -> IdentityWrite?
    func noteIdentity(_ response: ResponseHead, to head: RequestHead)
    func noteGrant(_ response: ResponseHead, to head: RequestHead)
    // Examination off the event loop
    var isExaminerFull: Bool { get }
    func examineOffLoop(
        _ examination: ContentExamination, bytes: Int, then: @escaping @Sendable (ContentExamination.Findings?) -> Void)
}

extension ProxyShard: FetchReports {
    func noteSuccess(of request: DecidedRequest, began: Int64) {
        coordination.noteSuccess(of: request, began: began)
        background.looks.note(request, fails: false)
    }

    func noteFailure(of request: DecidedRequest, _ cause: FailureCause, began: Int64) {
        coordination.noteFailure(of: request, cause, began: began)
        if request.isReading { background.looks.note(request, fails: true) }
    }

    var isExaminerFull: Bool { workers.content.isFull }

    func examineOffLoop(
        _ examination: ContentExamination, bytes: Int, then: @escaping @Sendable (ContentExamination.Findings?) -> Void
    ) {
        reporting.count(.examinedBeside)
        workers.content.perform(bytes, { examination.findings() }, then: then)
    }
}
