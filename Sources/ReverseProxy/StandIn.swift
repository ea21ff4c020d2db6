// The copy of those without credentials, in the place of a failing upstream, for a request with credentials that has no copy of its own
// (`SharedRescue`); and what is learnt of clients' cookies for that.

import CachePolicy
import CacheStore
import HTTPCore
import Reactor

/// A copy that may stand in.
struct StandIn {
    let found: FoundResponse
    let age: Int64
    let ttl: Int64?
    let leave: SharedCopyLeave
}

enum StandInResult {
    case found(StandIn)
    case forbidden(NoSharedRescueReason)
    /// None is stored, or it may not go out at all.
    case nothing
}

extension ProxyShard {
    /// - Parameter sharedKey: of the target in the partition of those without credentials.
    func standIn(for head: RequestHead, sharedKey: [UInt8], _ directives: RequestCacheControl, route: Int) -> StandInResult {
        let strictness = settings.policy.strictness
        guard let lookUp, head.method.isRead,
            let found = lookUp.find(sharedKey, sharedKey: nil, collection: collectionKey(of: head), request: head).found,
            case .allowed(let age, let ttl) = Reuse.rescue(found.metadata, directives, strictness: strictness, now: now)
        else { return .nothing }
        guard server.gone?.gone(beside: found) == nil else { return .forbidden(.gone) }
        let decision = SharedRescue.decide(
            routes.all[route].rescueWithShared, stored: found.metadata, varies: variesByCredentials(found, head),
            hasOwnCookies: hasOwnCookies(head, lookUp.store), strictness: strictness)
        switch decision {
        case .forbidden(let reason): return .forbidden(reason)
        case .allowed(let leave): return .found(StandIn(found: found, age: age, ttl: ttl, leave: leave))
        }
    }

    private func variesByCredentials(_ found: FoundResponse, _ head: RequestHead) -> Bool {
        guard let fields = StoredHead.parse(found.item.head)?.fields else { return true }
        return FieldLists.members(of: .vary, in: fields).contains { member in
            settings.policy.credentialFields.contains { $0.utf8.elementsEqual(member.map(\.asciiLowercased)) }
                && !head.fields.all(named: member.span).isEmpty
        }
    }

    private func hasOwnCookies(_ head: RequestHead, _ store: ResponseStore) -> Bool {
        guard !keyMaker.hasOtherCredentials(head.fields), let cookies = keyMaker.cookiePartition(of: head.fields, store) else {
            return false
        }
        return server.cookieOrigins?.contains(cookies, target: targetKey(head)) ?? false
    }

    /// Whatever the upstream says of its arguments.
    private func targetKey(_ head: RequestHead) -> [UInt8] { sharedKey(of: Array(head.pathAndQuery), for: head) }

    // MARK: What is learnt of cookies

    /// A request is about to be sent: one that could be a login ends what is known of its cookies.
    /// - Parameter isReading: it changes nothing, and the store has to do with it.
    func noteCookies(sentWith head: RequestHead, isReading: Bool) {
        guard let origins = server.cookieOrigins, head.fields.contains(.cookie), let store = lookUp?.store,
            !isReading || keyMaker.hasOtherCredentials(head.fields),
            let cookies = keyMaker.cookiePartition(of: head.fields, store)
        else { return }
        origins.forget(cookies)
    }

    /// A response was kept, or has confirmed what is.
    func noteCookies(setBy response: Fields, to head: RequestHead) {
        guard response.contains(.setCookie), let origins = server.cookieOrigins, head.method.isRead, let store = lookUp?.store,
            let cookies = keyMaker.cookies, !keyMaker.hasOtherCredentials(head.fields), !head.fields.contains(.authorization),
            let sent = cookies.pairs(of: head.fields)
        else { return }
        let path = head.pathAndQuery.withoutQuery
        guard let given = ClientCookies.after(sent, response, path: path, now: now.seconds, cookies), !given.isEmpty else { return }
        let time = loop.time.monotonicMilliseconds
        let partition = RequestKeyMaker.partition(of: given, store)
        if sent.isEmpty {
            origins.remember(partition, target: targetKey(head), now: time)
        } else {
            origins.remember(partition, after: RequestKeyMaker.partition(of: sent, store), now: time)
        }
    }
}
