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
    let permission: SharedCopyPermission
}

enum StandInResult {
    case found(StandIn)
    case forbidden(NoSharedRescueReason)
    /// None is stored, or it may not go out at all.
    case nothing
}

extension ProxyShard {
    /// - Parameter sharedKey: of the target in the partition of those without credentials.
    func standIn(
        for head: RequestHead, sharedKey: [UInt8], _ directives: RequestCacheControl, route: Int
    ) throws(OnDisk) -> StandInResult {
        let strictness = settings.policy.strictness
        guard let lookUp, head.method.isRead,
            let found = try lookUp.find(sharedKey, sharedKey: nil, collection: collectionKey(of: head), request: head).found,
            case .allowed(let age, let ttl) = Reuse.rescue(found.metadata, directives, strictness: strictness, now: now)
        else { return .nothing }
        guard try server.gone?.gone(beside: found, in: lookUp) == nil else { return .forbidden(.gone) }
        let setting = routes.all[route].rescueWithShared
        let decision = SharedRescue.decide(
            setting, stored: found.metadata, varies: variesByCredentials(found, head),
            hasOwnCookies: setting == .own ? try hasOwnCookies(head, lookUp) : false, strictness: strictness)
        switch decision {
        case .forbidden(let reason): return .forbidden(reason)
        case .allowed(let permission): return .found(StandIn(found: found, age: age, ttl: ttl, permission: permission))
        }
    }

    private func variesByCredentials(_ found: FoundResponse, _ head: RequestHead) -> Bool {
        guard let fields = StoredHead.parse(found.item.head)?.fields else { return true }
        return FieldLists.members(of: .vary, in: fields).contains { member in
            settings.policy.credentialFields.contains { $0.utf8.elementsEqual(member.map(\.asciiLowercased)) }
                && !head.fields.all(named: member.span).isEmpty
        }
    }

    private func hasOwnCookies(_ head: RequestHead, _ lookUp: StoreLookUp) throws(OnDisk) -> Bool {
        guard !keyMaker.hasOtherCredentials(head.fields), let cookies = keyMaker.cookiePartition(of: head.fields, lookUp.store) else {
            return false
        }
        guard let origins = server.cookieOrigins else { return false }
        return try origins.contains(cookies, target: targetKey(head), in: lookUp)
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
        guard let origins = server.cookieOrigins, let change = cookieChange(by: response, to: head) else { return }
        let time = loop.time.monotonicMilliseconds
        if let sent = change.sent {
            origins.remember(change.given, after: sent, now: time)
        } else {
            origins.remember(change.given, target: targetKey(head), now: time)
        }
    }

    /// What of it is looked at.
    func cookieKeys(setBy response: Fields, to head: RequestHead) -> [[UInt8]] {
        guard let change = cookieChange(by: response, to: head) else { return [] }
        return ([change.given] + (change.sent.map { [$0] } ?? [])).map(CookieOrigins.key)
    }

    /// The partitions of the cookies that a client sent, where it sent any, and of those that it has from now on.
    private func cookieChange(by response: Fields, to head: RequestHead) -> (sent: [UInt8]?, given: [UInt8])? {
        guard response.contains(.setCookie), server.cookieOrigins != nil, head.method.isRead, let store = lookUp?.store,
            let cookies = keyMaker.cookies, !keyMaker.hasOtherCredentials(head.fields), !head.fields.contains(.authorization),
            let sent = cookies.pairs(of: head.fields)
        else { return nil }
        let path = head.pathAndQuery.withoutQuery
        guard let given = ClientCookies.after(sent, response, path: path, now: now.seconds, cookies), !given.isEmpty else { return nil }
        return (sent.isEmpty ? nil : RequestKeyMaker.partition(of: sent, store), RequestKeyMaker.partition(of: given, store))
    }
}

extension Fetch {
    /// Where the request has no copy of its own, only an upstream in trouble is a reason for the copy of others to stand in: all else that is
    /// wrong with a response may be about this user.
    func hasStandIn(insteadOf status: Status) -> Bool {
        guard subject.found == nil, subject.key != nil, isPartitioned, status != 429, LastGood.isTrouble(status), let lookUp = shard.lookUp
        else { return false }
        // It was in memory when the request was looked up.
        let result = try? lookUp.waiting { () throws(OnDisk) in
            try shard.standIn(for: subject.head, sharedKey: sharedKey, subject.directives, route: subject.route)
        }
        if case .found = result { return true }
        return false
    }
}
