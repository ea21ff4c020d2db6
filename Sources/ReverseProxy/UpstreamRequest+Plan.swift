// The request that goes to the upstream for an exchange or in the background: the client's, with our own conditions in the place of its own
// and a coding that can be taken off again.

import CachePolicy
import Downstream
import Forwarding
import HTTPCore
import ResponseCache
import Upstream

extension ProxyShard {
    func upstreamRequest(
        for head: RequestHead, _ body: RequestBody, _ plan: ExchangePlan, client: UpstreamRequestFields.Client
    ) -> UpstreamRequest {
        var fields = requestFields.make(from: head, client: client)
        if plan.key != nil { Self.prepareForStore(&fields, plan, head.method) }
        if case .streamed(let content) = body, content.awaitsContinue { fields.append(.expect, "100-continue") }
        var shares: [ConnectionShare] = []
        if case .streamed = body { shares = [StreamedContent.share(of: settings.upstream.maximumConnections)] }
        return UpstreamRequest(
            method: head.method, target: Array(head.pathAndQuery), fields: fields, content: body.framing,
            isRepeatable: routes.reads(head.method, on: plan.route), shares: shares)
    }

    private static func prepareForStore(_ fields: inout Fields, _ plan: ExchangePlan, _ method: HTTPCore.Method) {
        if let found = plan.found, method.isSafe {
            Validation.addConditions(to: &fields, stored: found.metadata, head: found.head)
        } else if plan.found != nil {
            // To POST a condition that does not hold is answered with 412 (RFC 9110 §13.1.2).
            Validation.removeConditions(from: &fields)
        }
        guard fields.contains(.acceptEncoding) else { return }
        fields.set(.acceptEncoding, AcceptedCoding.passedOn(fields))
    }
}

extension UpstreamRequestFields.Client {
    init(_ connection: ClientConnection, _ head: RequestHead) {
        self.init(address: connection.peerText, isIPv6: connection.peer.isIPv6, host: head.host)
    }
}
