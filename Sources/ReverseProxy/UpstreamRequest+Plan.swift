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
        let members = FieldLists.members(of: .acceptEncoding, in: fields)
        let acceptsGzip = members.contains { AcceptedCoding($0)?.acceptsGzip == true }
        fields.set(.acceptEncoding, Array((acceptsGzip ? "gzip" : "identity").utf8))
    }
}

/// One member of Accept-Encoding (RFC 9110 §12.5.3).
private struct AcceptedCoding {
    let acceptsGzip: Bool

    init?(_ member: ArraySlice<UInt8>) {
        let parts = FieldLists.members(of: member, separator: UInt8(ascii: ";"))
        guard let name = parts.first else { return nil }
        let isGzip = name.equalsIgnoringCase("gzip") || name.equalsIgnoringCase("x-gzip")
        let isRefused = parts.dropFirst().contains { part in
            part.prefix(2).equalsIgnoringCase("q=") && part.dropFirst(2).allSatisfy { $0 == UInt8(ascii: "0") || $0 == UInt8(ascii: ".") }
        }
        acceptsGzip = isGzip && !isRefused
    }
}
