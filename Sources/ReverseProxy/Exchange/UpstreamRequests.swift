// Makes the upstream request for an exchange or a background fetch. Cistern's own conditions replace those of the client, and only content
// codings that Cistern can decode are accepted.

import CachePolicy
import Decisions
import Downstream
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Upstream

/// Used on its shard's loop only.
final class UpstreamRequests {
    let fields: UpstreamRequestFields
    let connections: ClientOwnedConnections
    /// Also referenced by each fetch. A variable, because `isUnused` checks its reference count.
    private var fetches: FetchContext
    private let routes: Routes
    private let arguments: ArgumentTable
    private let strippedPath: [UInt8]
    private let requestIDs: RequestIDUse
    private let records: ShardRecords
    private let coordination: Coordination
    private let maximumConnections: Int
    /// Targets with responses that were not stored.
    let unstorable = UnstorableTargets()

    init(
        _ api: APIState, _ fields: UpstreamRequestFields, _ connections: ClientOwnedConnections, _ coordination: Coordination,
        _ records: ShardRecords, _ fetches: FetchContext
    ) {
        self.fetches = fetches
        (self.fields, self.connections, self.coordination, self.records) = (fields, connections, coordination, records)
        maximumConnections = api.settings.upstream.maximumConnections
        (routes, arguments, strippedPath) = (api.routes, api.cacheSettings.arguments, api.settings.strippedPath)
        requestIDs = api.settings.forwarding.requestID
    }

    /// Whether no fetch is active.
    func isUnused() -> Bool { isKnownUniquelyReferenced(&fetches) }

    /// Makes a fetch that is not started yet.
    func makeFetch(_ request: DecidedRequest, _ body: RequestBody, _ receiver: any FetchReceiver) -> Fetch {
        Fetch(fetches, subject: request, body: body, receiver: receiver)
    }

    func make(for request: DecidedRequest, _ body: RequestBody, client: UpstreamRequestFields.Client) -> UpstreamRequest {
        let head = request.head
        var target = arguments.sent(head.pathAndQuery)
        if !strippedPath.isEmpty {
            let rest = target.dropFirst(strippedPath.count)
            // Several slashes at the beginning could be read as an authority (`PathReadings`).
            let path = rest.drop { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "\\") }
            target = rest.first == UInt8(ascii: "/") && path.count + 1 == rest.count ? rest : [UInt8(ascii: "/")] + path
        }
        var shares = shares(of: request.scopes)
        if case .streamed = body {
            shares.append(contentsOf: .streamedContent(of: request.scopes.client, connections: maximumConnections))
        }
        var fields = self.fields.make(
            from: head, client: client, keepsMethodOverride: request.keepsMethodOverride,
            routes.upstreamFields.rules(for: head.pathAndQuery))
        fields.translateTags(in: .ifMatch, current: fetches.cache?.currentTag(for: head))
        fields.translateTags(in: .ifNoneMatch)
        if records.namesRequests, requestIDs.isSent, let name = records.ids.name(of: head) { fields.set(.xRequestID, name) }
        if let fetchTarget = request.fetchTarget { prepareForStore(&fields, request.found, head, fetchTarget) }
        if case .streamed(let content) = body, content.awaitsContinue { fields.append(.expect, "100-continue") }
        if body.framing == .tunnel, let offered = routes.upgrade(head) {
            fields.append(.connection, "Upgrade")
            fields.append(.upgrade, offered)
        }
        var sent = UpstreamRequest(
            method: head.method, target: target, fields: fields, content: body.framing,
            isRepeatable: request.fetchTarget != nil)
        sent.owned = request.owned
        sent.client = request.scopes.client == 0 ? nil : request.scopes.client
        sent.shares = shares
        return sent
    }

    /// Returns the limits on connections that apply to the request, so that slow or blocked paths do not occupy all connections, and one
    /// client not all of a path.
    func shares(of scopes: borrowing RequestScopes) -> ConnectionShares {
        var shares = ConnectionShares.family(scopes.family, of: scopes.client)
        if coordination.health.isFailing(scopes) { shares.append(ConnectionShare(.failing, .connections(maximumConnections / 4))) }
        return shares
    }

    private func prepareForStore(_ fields: inout Fields, _ found: FoundResponse?, _ head: RequestHead, _ fetchTarget: FetchTarget) {
        let method = head.method
        // A 304 need not contain the CORS fields of the response that it confirms.
        if let found, found.metadata.flags.contains(.ofOtherOrigin) {
            Validation.removeConditions(from: &fields)
        } else if let found, method.isSafe {
            found.withHead { stored in
                if Validation.hasStrongTag(found.metadata, head: stored) || RequestLikeness.isSelected(found.metadata, by: head.fields) {
                    Validation.addConditions(to: &fields, stored: found.metadata, head: stored)
                } else {
                    Validation.removeConditions(from: &fields)
                }
            }
        } else if found != nil {
            // The response to a POST with a failed precondition is 412 (RFC 9110 §13.1.2).
            Validation.removeConditions(from: &fields)
        } else if head.asksForChange, !unstorable.contains(fetchTarget.keys) {
            // A 304 cannot be stored. The client's preconditions are evaluated here (RFC 9111 §4.3.2).
            Validation.removeConditions(from: &fields)
        }
        guard fields.contains(.acceptEncoding) else { return }
        fields.set(.acceptEncoding, AcceptedCoding.passedOn(fields))
    }
}

extension RequestHead {
    /// Whether the client has a response and requests a new one only if the resource has changed.
    var asksForChange: Bool { method == .get && (contains(.ifNoneMatch) || contains(.ifModifiedSince)) }
}

extension UpstreamRequestFields.Client {
    /// - Parameter isTrusted: whether to trust what the request says about its origin.
    public init(_ client: RequestClient, _ head: RequestHead, isTrusted: Bool) {
        self.init(address: client.text, isIPv6: client.isIPv6, host: head.host)
        isSecure = client.isSecure
        self.isTrusted = isTrusted
    }
}
