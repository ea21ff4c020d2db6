// The stage `ownPage`: recognizes requests for the proxy's own pages (/metrics, /healthz, /readyz). The server responds to them.

import Downstream
import HTTPCore

public enum OwnPage: Sendable {
    case metrics, healthz, readyz

    /// The query and a final slash are ignored: probes and scrapers send `/readyz?verbose=1` and `/metrics/`.
    /// nil if the request is for another target.
    public init?(_ head: RequestHead) {
        let bytes = head.target
        // Hot path: the second byte of nearly all targets decides.
        guard bytes.count >= 7 else { return nil }
        switch bytes[bytes.startIndex + 1] {
        case UInt8(ascii: "m"), UInt8(ascii: "h"), UInt8(ascii: "r"): break
        default: return nil
        }
        guard head.method.isRead else { return nil }
        // At most `/metrics/` and the beginning of a query.
        var path = bytes.prefix(10).prefix { $0 != UInt8(ascii: "?") }
        if path.last == UInt8(ascii: "/") { path.removeLast() }
        if path.elementsEqual("/metrics".utf8) {
            self = .metrics
        } else if path.elementsEqual("/healthz".utf8) {
            self = .healthz
        } else if path.elementsEqual("/readyz".utf8) {
            self = .readyz
        } else {
            return nil
        }
    }
}

/// Responds to requests for the proxy's own pages.
public protocol OwnPageSource: AnyObject {
    /// Responds at once, or returns the exchange that will.
    func respond(
        with page: OwnPage, to head: RequestHead, on stream: any ClientStream, of entry: RequestEntry
    ) -> (any ClientExchange)?
}

extension RequestEntry {
    func ownPage(_ request: Admitted, on stream: any ClientStream) throws(StageEnd) {
        guard let pages = own.pages, let page = OwnPage(request.head) else { return }
        throw StageEnd(pages.respond(with: page, to: request.head, on: stream, of: self))
    }
}
