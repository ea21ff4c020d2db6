// Asks the upstream whom a request's credentials belong to, with all of them, while the request itself goes its way. Within the limit on what no
// client waits for.

import CachePolicy
import Coordination
import Forwarding
import HTTPCore
import Identity
import Reactor
import ResponseCache
import Upstream

extension ProxyShard {
    /// Where nobody is asking already, and the upstream is well.
    /// - Parameter told: what is known of the request's credentials by now.
    @inline(never)
    func askWhose(_ head: RequestHead, _ told: ToldIdentity, client: UpstreamRequestFields.Client) {
        guard let cache, let place = cache.lookUpPlace(for: head), !mode(of: head).servesWhatIsStored else { return }
        let asked = cache.lookUps[place]
        let path = Array(asked.settings.path.utf8)
        // It is the upstream's path; scopes have those of clients.
        let scopes = RequestScopes(pathAndQuery: (settings.strippedPath + path)[...], route: nil, user: 0)
        guard case .go = shared.health.admit(scopes, .reading, now: loop.time.monotonicMilliseconds), background.fetches.take() else {
            return
        }
        guard asked.begin(told.hash, now: now.milliseconds) else { return background.fetches.giveBack() }
        var fields = Fields()
        for index in 0..<head.fields.count {
            let name = Array(head.fields.name(at: index))
            guard settings.policy.credentials.names.contains(name.span) else { continue }
            fields.append(name: name.span, value: head.fields.value(at: index).span)
        }
        let own = RequestHead(method: .get, target: path[...], version: .http11, fields: fields)
        var request = UpstreamRequest(method: .get, target: path[...], fields: messages.requestFields.make(from: own, client: client))
        request.isBackground = true
        let lookUp = UserLookUp(asked.settings, shard: self) { [self] said in
            background.fetches.giveBack()
            let end: LookUpEnd =
                switch said {
                case .values(let values): .told(partition: cache.keyMaker.partition(told: values, by: asked.settings))
                case .nothing: .nothing
                case .failure: .failed
                }
            asked.end(told.hash, end, now: now.milliseconds)
        }
        if upstream.start(request, receiver: lookUp) == nil { lookUp.end(.failure) }
    }
}

/// On its shard's loop.
private final class UserLookUp: TransferReceiver {
    enum Said {
        case values([UInt8])
        /// Nothing that counts.
        case nothing
        case failure
    }

    private let settings: LookUpSettings
    private let shard: ProxyShard
    private var then: ((Said) -> Void)?
    private var head: ResponseHead?
    private var content: [UInt8] = []

    init(_ settings: LookUpSettings, shard: ProxyShard, then: @escaping (Said) -> Void) {
        (self.settings, self.shard, self.then) = (settings, shard, then)
    }

    func end(_ said: Said) {
        then?(said)
        then = nil
    }

    func transfer(_ transfer: Transfer, received head: consuming ResponseHead) {
        shard.countResponse(head.status, transfer.times)
        self.head = head
    }

    func transfer(_ transfer: Transfer, content bytes: Span<UInt8>) {
        guard content.count + bytes.count <= LookUpSettings.contentLimitBytes else {
            transfer.cancel()
            return end(.nothing)
        }
        content.append(copying: bytes)
    }

    func transferEnded(_ transfer: Transfer, isDelimited: Bool) {
        guard let head, isDelimited else { return end(.failure) }
        // That it is in trouble, or wants to be asked later, says nothing of anybody.
        if LastGood.isTrouble(head.status) { return end(.failure) }
        guard ContentCoding(head.fields) == .identity else { return end(.nothing) }
        end(settings.values(status: head.status, head.fields, content: content).map { .values($0) } ?? .nothing)
    }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        if head == nil, !error.isOwn { shard.noteNoResponse(error) }
        end(.failure)
    }

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {}
    func transferDrained(_ transfer: Transfer) {}
}
