// Asks the upstream for the identity of a request's credentials, in the background and with a separate limit. A remembered identity is
// discarded when a write or a response may have changed it.

import Addresses
import CachePolicy
import Forwarding
import HTTPCore
import Identity
import Reactor
import ResponseCache
import Upstream

extension ProxyShard {
    /// Starts an identity lookup, unless one is active or the upstream is failing.
    /// - Parameter told: the known identity of the request's credentials.
    @inline(never)
    func askWhose(_ head: RequestHead, _ told: ToldIdentity, client: UpstreamRequestFields.Client, at address: ClientAddress) {
        guard let cache, let place = cache.lookUpPlace(for: head), !mode(of: head).servesWhatIsStored,
            let token = cache.keyMaker.token(of: head.fields)
        else { return }
        let asked = cache.lookUps[place]
        let path = Array(asked.settings.path.utf8)
        // The setting is a path at the upstream; scopes use the paths of clients.
        let scopes = RequestScopes(pathAndQuery: (settings.strippedPath + path)[...], route: nil, user: 0)
        guard case .go = shared.health.admit(scopes, .reading, now: loop.time.monotonicMilliseconds) else { return }
        let number = address.address.map(\.clientNumber) ?? 0
        guard background.fetches.takeLookUp(of: number) else { return }
        guard let started = asked.begin(told.hash, token: token.hash, now: now.milliseconds) else {
            return background.fetches.giveBackLookUp(of: number)
        }
        var fields = Fields()
        for index in 0..<head.fields.count {
            let name = Array(head.fields.name(at: index))
            guard settings.policy.credentials.names.contains(name.span) else { continue }
            fields.append(name: name.span, value: head.fields.value(at: index).span)
        }
        let own = RequestHead(method: .get, target: path[...], version: .http11, fields: fields)
        var request = UpstreamRequest(method: .get, target: path[...], fields: messages.requestFields.make(from: own, client: client))
        request.isBackground = true
        request.client = number
        request.shares = coordination.shares(of: scopes)
        let lookUp = UserLookUp(asked.settings, shard: self) { [self] said in
            background.fetches.giveBackLookUp(of: number)
            let end: LookUpEnd =
                switch said {
                case .values(let values):
                    .told(
                        partition: cache.keyMaker.partition(
                            told: values, by: asked.settings, of: head.fields, without: token.carrier))
                case .nothing: .nothing
                case .failure: .failed
                }
            asked.end(started, end, now: now.milliseconds)
        }
        if upstream.start(request, receiver: lookUp) == nil { lookUp.end(.failure) }
    }

    /// Suspends the remembered identities of an unsafe request's tokens while the request is active. Returns nil if there are no identity
    /// lookups.
    func beginIdentityWrite(_ head: RequestHead) -> IdentityWrite? {
        let tables = process.identityTables.all
        guard !tables.isEmpty, let cache else { return nil }
        return IdentityWrite(cache.keyMaker.tokens(of: head.fields), in: tables)
    }

    /// Discards the remembered identities of a request's tokens after a 401 or a new credential.
    func noteIdentity(_ response: ResponseHead, to head: RequestHead) {
        guard response.status == 401 || response.fields.contains(.setCookie), let cache else { return }
        let tables = process.identityTables.all
        guard !tables.isEmpty, response.status == 401 || cache.keyMaker.areCredentialsChanged(by: response.fields) else { return }
        let tokens = cache.keyMaker.tokens(of: head.fields)
        for table in tables { table.forget(tokens) }
    }
}

/// Receives the response to an identity lookup. Used on its shard's loop only.
private final class UserLookUp: TransferReceiver {
    enum Said {
        case values([UInt8])
        /// The response contains no usable identity.
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
        shard.reporting.countResponse(head, transfer.times)
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
        // An error, or a request to retry later, says nothing about the identity.
        if LastGood.isTrouble(head.status) { return end(.failure) }
        guard ContentCoding(head.fields) == .identity else { return end(.nothing) }
        end(settings.values(status: head.status, head.fields, content: content).map { .values($0) } ?? .nothing)
    }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        end(.failure)
    }

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {}
    func transferDrained(_ transfer: Transfer) {}
}
