// Asks the upstream for the identity of a request's credentials, in the background and with a separate limit. `FetchContext`
// discards a remembered identity when a write or a response may have changed it.

import Addresses
import CachePolicy
import Forwarding
import HTTPCore
import Identity
import Logging
import Reactor
import ResponseCache
import Upstream

extension RequestEntry {
    /// Starts an identity lookup, unless one is active or the upstream is failing.
    /// - Parameter identity: the known identity of the request's credentials.
    @inline(never)
    func startIdentityLookUp(
        _ head: RequestHead, _ identity: LookedUpIdentity, client: UpstreamRequestFields.Client, at address: ClientAddress
    ) {
        guard let cache = context.cache, let tableIndex = cache.lookUpIndex(for: head), !mode(of: head).servesAnyAge,
            let token = cache.keyMaker.token(of: head.fields)
        else { return }
        let identities = cache.lookUps[tableIndex]
        let path = Array(identities.settings.path.utf8)
        // The setting is a path at the upstream; scopes use client paths.
        let target = (settings.strippedPath + path)[...]
        let scopes = RequestScopes(pathAndQuery: target, route: nil, user: 0)
        guard case .go = context.api.health.admit(scopes, .reading, now: context.loop.time.monotonicMilliseconds) else { return }
        let number = address.number
        guard context.background.fetches.takeLookUp(of: number) else { return }
        guard let started = identities.begin(identity.hash, token: token.hash, now: now.milliseconds) else {
            return context.background.fetches.giveBackLookUp(of: number)
        }
        let (sent, names) = (head.fields, settings.policy.credentials.names)
        let fields = Fields(bytes: sent.bytes, entries: sent.entries.filter { names.contains(sent.bytes.span.extracting($0.nameRange)) })
        // The rules of the complete request, so that the operator's credentials do not replace the token.
        let rules = routes.upstreamFields(ofLookUp: target, fields, names)
        /// Requests the path, and passes on the partition of the identity in the response.
        func request(with fields: Fields, then: @escaping (LookUpEnd) -> Void) {
            var fields = fields
            // Some frameworks respond to a request without a user as to a browser, or with an error, unless it prefers JSON.
            fields.append(.accept, "application/json, */*;q=0.1")
            let own = RequestHead(method: .get, target: path[...], version: .http11, fields: fields)
            var request = UpstreamRequest(
                method: .get, target: path[...], fields: context.messages.requestFields.make(from: own, client: client, rules))
            request.isBackground = true
            request.client = number
            request.shares = exchanges.requests.shares(of: scopes)
            let lookUp = UserLookUp(identities.settings, context.reporting, then) { values in
                cache.keyMaker.partition(identity: values, by: identities.settings, of: head.fields, without: token.carrier)
            }
            // The limit on connections may be reached.
            if context.background.context.upstream.start(request, receiver: lookUp) == nil { lookUp.end(.failed) }
        }
        let end = { [self] (end: LookUpEnd) in
            context.background.fetches.giveBackLookUp(of: number)
            guard identities.end(started, end, now: now.milliseconds) else { return }
            context.api.process.logger.warning("\(Self.commonIdentity(path: identities.settings.path, api: context.api.name))")
        }
        request(with: fields) { [self] result in
            guard case .lookedUp(let partition) = result else { return end(result) }
            if let depends = identities.dependsOnToken(partition, started, now: now.milliseconds) {
                return end(depends ? result : .common(partition: partition))
            }
            request(with: cache.keyMaker.withoutToken(fields)) { other in
                switch other {
                case .failed: end(.failed)
                case .lookedUp(partition): end(.common(partition: partition))
                case .lookedUp, .common, .nothing: end(result)
                }
            }
        }
    }

    private static func commonIdentity(path: String, api: String) -> String {
        let ofAPI = api.isEmpty ? "" : " of API \(api)"
        return "the upstream's response to \(path)\(ofAPI) names the same user with and without a token, so the result is not used "
            + "(credentials.identity.lookup.path)"
    }
}

/// Receives the response to an identity lookup. Used on its shard's loop only.
private final class UserLookUp: TransferReceiver {
    private let settings: LookUpSettings
    private let reporting: Reporting
    private var then: ((LookUpEnd) -> Void)?
    private let partition: (_ values: [UInt8]) -> [UInt8]
    private var head: ResponseHead?
    private var content: [UInt8] = []

    /// - Parameter partition: makes the partition of the values that identify the user.
    init(
        _ settings: LookUpSettings, _ reporting: Reporting, _ then: @escaping (LookUpEnd) -> Void,
        partition: @escaping (_ values: [UInt8]) -> [UInt8]
    ) {
        (self.settings, self.reporting, self.then, self.partition) = (settings, reporting, then, partition)
    }

    func end(_ end: LookUpEnd) {
        then?(end)
        then = nil
    }

    func transfer(_ transfer: Transfer, received head: consuming ResponseHead) {
        reporting.countResponse(head, transfer.times)
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
        guard let head, isDelimited else { return end(.failed) }
        // An error, or a request to retry later, is no evidence about the identity.
        if LastGood.isTrouble(head.status) { return end(.failed) }
        guard ContentCoding(head.fields) == .identity else { return end(.nothing) }
        let values = settings.values(status: head.status, head.fields, content: content)
        end(values.map { .lookedUp(partition: partition($0)) } ?? .nothing)
    }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        end(.failed)
    }

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {}
    func transferDrained(_ transfer: Transfer) {}
}
