// The proxy's own pages: /metrics, /healthz, /readyz. Here they are told from other requests; the server responds to them.

import Downstream
import HTTPCore

package enum OwnPage: Sendable {
    case metrics, healthz, readyz

    /// nil where the request is for something else.
    package init?(_ head: RequestHead) {
        guard head.target.count == 7 || head.target.count == 8, head.method.isRead else { return nil }
        let bytes = head.target
        let target = bytes.span
        if target.equals("/metrics") {
            self = .metrics
        } else if target.equals("/healthz") {
            self = .healthz
        } else if target.equals("/readyz") {
            self = .readyz
        } else {
            return nil
        }
    }
}

/// Responds to requests for the own pages.
package protocol OwnPageSource: AnyObject {
    /// Responds at once, or returns the exchange that will.
    func respond(
        with page: OwnPage, to head: RequestHead, on stream: any ClientStream, of shard: ProxyShard
    ) -> (any ClientExchange)?
}
