// The request that goes to the upstream for an exchange or in the background: the client's, with our own conditions in the place of its own
// and a coding that can be taken off again.

import CachePolicy
import CacheStore
import HTTPCore
import Upstream

extension ProxyShard {
    func upstreamRequest(
        for head: RequestHead, framing: ContentFraming, _ plan: ExchangePlan, client: UpstreamRequestFields.Client
    ) -> UpstreamRequest {
        var fields = requestFields.make(from: head, client: client)
        if plan.key != nil { Self.prepareForStore(&fields, plan) }
        return UpstreamRequest(method: head.method, target: Array(head.pathAndQuery), fields: fields, content: framing)
    }

    private static func prepareForStore(_ fields: inout Fields, _ plan: ExchangePlan) {
        if let found = plan.found { Validation.addConditions(to: &fields, stored: found.metadata, head: found.item.head) }
        guard fields.contains(.acceptEncoding) else { return }
        fields.set(.acceptEncoding, AcceptedCoding.passedOn(fields))
    }
}
